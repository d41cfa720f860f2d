// Gradients of functions whose derivative is simplest in their result y: (y, dy) → dx. Being ops
// they have gradients themselves, for second derivatives.
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

template <typename Formula>
OpDefBuilder GradientOp(const char* name, GradientFunction gradient) {
  return OpDefBuilder(name)
      .Inputs("y:T, dy:T")
      .Outputs("z:T")
      .Attrs("T:type{bfloat16,float16,float32,float64,complex64,complex128}")
      .Shape(MergedShape)
      .Gradient(gradient)
      .Cpu(SameShapeKernel(BinaryLoops<Formula, float, double, Float16, Bfloat16, C64, C128>(),
                           kCheap));
}

// y = 1/x:  dx = -dy y²
struct ReciprocalGrad {
  template <typename T>
  static T Apply(T y, T dy) {
    const T conjugate = Conjugated(y);
    return -Multiply(dy, Multiply(conjugate, conjugate));
  }
};
// With respect to y: -2 dy y;  to dy: -y².
absl::Status ReciprocalGradGradient(GradientContext& g) {
  const Output y = g.Conjugate(g.input(0));
  const Output dz = g.OutputGradient(0);
  const Output product = g.Call("Mul", {g.Call("Mul", {g.Conjugate(dz), g.input(1)}), y});
  g.SetInputGradient(0, Scaled(g, -2, product));
  g.SetInputGradient(1, g.Call("ReciprocalGrad", {y, dz}));
  return absl::OkStatus();
}
const OpRegistration reciprocal_grad(GradientOp<ReciprocalGrad>("ReciprocalGrad",
                                                                ReciprocalGradGradient));
const OpRegistration inv_grad(GradientOp<ReciprocalGrad>("InvGrad", ReciprocalGradGradient));

// With respect to y: -dz dx / y;  to dy: dz / (2 y).
absl::Status SqrtGradGradient(GradientContext& g) {
  const Output quotient = g.Call("RealDiv", {g.OutputGradient(0), g.input(0)});
  const Output product = g.Call("Mul", {g.Conjugate(quotient), g.output(0)});
  g.SetInputGradient(0, g.Call("Neg", {product}));
  g.SetInputGradient(1, Scaled(g, 0.5, quotient));
  return absl::OkStatus();
}
const OpRegistration sqrt_grad(GradientOp<SqrtGrad>("SqrtGrad", SqrtGradGradient));

// With respect to y: -3/2 dz dy y²;  to dy: -½ dz y³.
absl::Status RsqrtGradGradient(GradientContext& g) {
  const Output y = g.Conjugate(g.input(0));
  const Output dz = g.OutputGradient(0);
  const Output product =
      g.Call("Mul", {g.Call("Mul", {g.Conjugate(dz), g.input(1)}), g.Call("Square", {y})});
  g.SetInputGradient(0, Scaled(g, -1.5, product));
  g.SetInputGradient(1, g.Call("RsqrtGrad", {y, dz}));
  return absl::OkStatus();
}
const OpRegistration rsqrt_grad(GradientOp<RsqrtGrad>("RsqrtGrad", RsqrtGradGradient));

// With respect to y: -2 dz dy y;  to dy: dz (1 - y²).
absl::Status TanhGradGradient(GradientContext& g) {
  const Output y = g.Conjugate(g.input(0));
  const Output dy = g.Conjugate(g.input(1));
  const Output dz = g.OutputGradient(0);
  g.SetInputGradient(0, Scaled(g, -2, g.Call("Mul", {g.Call("Mul", {dz, dy}), y})));
  g.SetInputGradient(1, g.Call("TanhGrad", {y, dz}));
  return absl::OkStatus();
}
const OpRegistration tanh_grad(GradientOp<TanhGrad>("TanhGrad", TanhGradGradient));

// With respect to y: dz dy (1 - 2 y);  to dy: dz y (1 - y).
absl::Status SigmoidGradGradient(GradientContext& g) {
  const Output y = g.Conjugate(g.input(0));
  const Output dz = g.OutputGradient(0);
  const Output product = g.Call("Mul", {dz, g.Conjugate(g.input(1))});
  g.SetInputGradient(0, g.Call("Sub", {product, Scaled(g, 2, g.Call("Mul", {product, y}))}));
  g.SetInputGradient(1, g.Call("SigmoidGrad", {y, dz}));
  return absl::OkStatus();
}
const OpRegistration sigmoid_grad(GradientOp<SigmoidGrad>("SigmoidGrad", SigmoidGradGradient));

}  // namespace
}  // namespace tandem::math
