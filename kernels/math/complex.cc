// Complex numbers: made from parts, taken apart, conjugated.
#include <complex>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

constexpr char kPartAttrs[] =
    "T:type{complex64,complex128}=complex64; Tout:type{float32,float64}=float32";

struct Real {
  template <typename T>
  static T Apply(std::complex<T> x) {
    return x.real();
  }
};
struct Imag {
  template <typename T>
  static T Apply(std::complex<T> x) {
    return x.imag();
  }
};
struct Angle {
  template <typename T>
  static T Apply(std::complex<T> x) {
    return std::arg(x);
  }
};
struct Length {
  template <typename T>
  static T Apply(std::complex<T> x) {
    return std::abs(x);
  }
};

// The kernel for matching widths of T and Tout; others have none.
template <typename Formula, typename T>
KernelDef PartKernel(double cost) {
  KernelDef def = UnaryKernel(UnaryLoops<Formula, std::complex<T>>(), cost);
  def.types.push_back({"Tout", {DataTypeOf<T>()}});
  return def;
}

OpDefBuilder PartOp(const char* name, const char* input, const char* output,
                    GradientFunction gradient) {
  return OpDefBuilder(name)
      .Inputs(input)
      .Outputs(output)
      .Attrs(kPartAttrs)
      .Shape(UnchangedShape)
      .Gradient(gradient);
}

// The complex number x + 0i.
Output AsComplex(GradientContext& g, Output x) {
  if (!x.valid()) return x;
  return g.Call("Complex", {x, g.Call("ZerosLike", {x})},
                {{"Tout", x.dtype() == kFloat64 ? kComplex128 : kComplex64}});
}

AttrMap ComplexOut(Output part) {
  return {{"Tout", part.valid() && part.dtype() == kFloat64 ? kComplex128 : kComplex64}};
}
AttrMap RealOut(Output number) {
  return {{"Tout", number.valid() && number.dtype() == kComplex128 ? kFloat64 : kFloat32}};
}

absl::Status RealGradient(GradientContext& g) {
  g.SetInputGradient(0, AsComplex(g, g.OutputGradient(0)));
  return absl::OkStatus();
}
const OpRegistration real(PartOp("Real", "input:T", "output:Tout", RealGradient)
                              .Cpu(PartKernel<Real, float>(kCheap))
                              .Cpu(PartKernel<Real, double>(kCheap)));

absl::Status ImagGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  g.SetInputGradient(0, g.Call("Complex", {g.Call("ZerosLike", {dy}), dy}, ComplexOut(dy)));
  return absl::OkStatus();
}
const OpRegistration imag(PartOp("Imag", "input:T", "output:Tout", ImagGradient)
                              .Cpu(PartKernel<Imag, float>(kCheap))
                              .Cpu(PartKernel<Imag, double>(kCheap)));

// -dy / (im + re i)
absl::Status AngleGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output re = g.Call("Real", {x}, RealOut(x));
  const Output im = g.Call("Imag", {x}, RealOut(x));
  const Output inverse = g.Call("Reciprocal", {g.Call("Complex", {im, re}, ComplexOut(re))});
  const Output dy = AsComplex(g, g.OutputGradient(0));
  g.SetInputGradient(0, g.Call("Neg", {g.Call("Mul", {dy, inverse})}));
  return absl::OkStatus();
}
const OpRegistration angle(PartOp("Angle", "input:T", "output:Tout", AngleGradient)
                               .Cpu(PartKernel<Angle, float>(kScalarFunction))
                               .Cpu(PartKernel<Angle, double>(kScalarFunction)));

// dy x / |x|, and 0 where x is 0.
absl::Status ComplexAbsGradient(GradientContext& g) {
  const Output dy = AsComplex(g, g.OutputGradient(0));
  const Output direction = g.Call("DivNoNan", {dy, AsComplex(g, g.output(0))});
  g.SetInputGradient(0, g.Call("Mul", {direction, g.input(0)}));
  return absl::OkStatus();
}
const OpRegistration complex_abs(PartOp("ComplexAbs", "x:T", "y:Tout", ComplexAbsGradient)
                                     .Cpu(PartKernel<Length, float>(kScalarFunction))
                                     .Cpu(PartKernel<Length, double>(kScalarFunction)));

struct Conj {
  template <typename T>
  static T Apply(T x) {
    return std::conj(x);
  }
};
absl::Status ConjGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("Conj", {g.OutputGradient(0)}));
  return absl::OkStatus();
}
// A variant is handed on as it is.
absl::Status PassOn(KernelContext& c) {
  c.SetOutput(0, c.TakeInput(0));
  return absl::OkStatus();
}
KernelDef ConjOfVariant() {
  KernelDef def = Function(PassOn);
  def.types = {{"T", {kVariant}}};
  return def;
}
TANDEM_OP("Conj")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("T:type{complex64,complex128,variant}=complex64")
    .Shape(UnchangedShape)
    .Gradient(ConjGradient)
    .Cpu(UnaryKernel(UnaryLoops<Conj, C64, C128>(), kCheap))
    .Cpu(ConjOfVariant());

struct FromParts {
  template <typename T>
  static std::complex<T> Apply(T real, T imag) {
    return {real, imag};
  }
};
template <typename T>
KernelDef ComplexKernel() {
  KernelDef def = BinaryKernel(BinaryLoops<FromParts, T>(), kCheap);
  def.types.push_back({"Tout", {DataTypeOf<std::complex<T>>()}});
  return def;
}
absl::Status ComplexGradient(GradientContext& g) {
  const Output dz = g.OutputGradient(0);
  g.SetInputGradient(0, g.ReduceToInput(g.Call("Real", {dz}, RealOut(dz)), 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Imag", {dz}, RealOut(dz)), 1, 0));
  return absl::OkStatus();
}
TANDEM_OP("Complex")
    .Inputs("real:T, imag:T")
    .Outputs("out:Tout")
    .Attrs("T:type{float32,float64}=float32; Tout:type{complex64,complex128}=complex64")
    .Shape(BroadcastShape)
    .Gradient(ComplexGradient)
    .Cpu(ComplexKernel<float>())
    .Cpu(ComplexKernel<double>());

}  // namespace
}  // namespace tandem::math
