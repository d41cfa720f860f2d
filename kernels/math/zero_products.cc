// Products and quotients in which a factor of 0 makes 0, whatever the other one is: Xlogy, Xlog1py,
// Xdivy (by their first input) and MulNoNan (by its second).
#include <cmath>
#include <complex>

#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/complex_log1p.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

struct Xlogy {
  template <typename T>
  static T Apply(T x, T y) {
    return x == T(0) ? T(0) : Multiply(x, std::log(y));
  }
};
struct Xlog1py {
  template <typename T>
  static T Apply(T x, T y) {
    if (x == T(0)) return T(0);
    if constexpr (kIsComplex<T>) {
      return Multiply(x, Log1pOf(y));
    } else {
      return x * std::log1p(y);
    }
  }
};
struct Xdivy {
  template <typename T>
  static T Apply(T x, T y) {
    return x == T(0) ? T(0) : x / y;
  }
};
struct MulNoNan {
  template <typename T>
  static T Apply(T x, T y) {
    return y == T(0) ? T(0) : Multiply(x, y);
  }
};

template <typename Formula>
OpDefBuilder ProductOp(const char* name, GradientFunction gradient, double cost) {
  return OpDefBuilder(name)
      .Inputs("x:T, y:T")
      .Outputs("z:T")
      .Attrs("T:type{float16,bfloat16,float32,float64,complex64,complex128}")
      .Shape(BroadcastShape)
      .Gradient(gradient)
      .Cpu(BinaryKernel(BinaryLoops<Formula, float, double, Float16, Bfloat16, C64, C128>(), cost));
}

// The derivative with respect to x is `op`(1, y), and 0 where x is 0; `to_y` is that to y.
absl::Status QuotientLike(GradientContext& g, const char* op, Output to_y) {
  const Output x = g.Conjugate(g.input(0));
  const Output y = g.Conjugate(g.input(1));
  const DataType type = RemoveReference(x.dtype());
  const Output dz = g.OutputGradient(0);
  const Output counts =
      g.Call("Cast", {g.Call("NotEqual", {x, g.Scalar(type, 0)})}, {{"DstT", type}});
  const Output to_x = g.Call(op, {counts, y});
  g.SetInputGradient(0, g.ReduceToInput(g.Call("Mul", {dz, to_x}), 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Mul", {dz, to_y}), 1, 0));
  return absl::OkStatus();
}
absl::Status XlogyGradient(GradientContext& g) {
  return QuotientLike(g, "Xlogy",
                      g.Call("Xdivy", {g.Conjugate(g.input(0)), g.Conjugate(g.input(1))}));
}
absl::Status Xlog1pyGradient(GradientContext& g) {
  const Output y = g.Conjugate(g.input(1));
  const Output one_more = g.Call("AddV2", {y, g.Scalar(RemoveReference(y.dtype()), 1)});
  return QuotientLike(g, "Xlog1py", g.Call("Xdivy", {g.Conjugate(g.input(0)), one_more}));
}
absl::Status XdivyGradient(GradientContext& g) {
  const Output minus_x = g.Call("Neg", {g.Conjugate(g.input(0))});
  const Output square = g.Call("Square", {g.Conjugate(g.input(1))});
  return QuotientLike(g, "Xdivy", g.Call("Xdivy", {minus_x, square}));
}
absl::Status MulNoNanGradient(GradientContext& g) {
  const Output dz = g.OutputGradient(0);
  const Output to_x = g.Call("MulNoNan", {dz, g.Conjugate(g.input(1))});
  const Output to_y = g.Call("MulNoNan", {g.Conjugate(g.input(0)), dz});
  g.SetInputGradient(0, g.ReduceToInput(to_x, 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(to_y, 1, 0));
  return absl::OkStatus();
}

const OpRegistration xlogy(ProductOp<Xlogy>("Xlogy", XlogyGradient, kScalarFunction));
const OpRegistration xlog1py(ProductOp<Xlog1py>("Xlog1py", Xlog1pyGradient, kScalarFunction));
const OpRegistration xdivy(ProductOp<Xdivy>("Xdivy", XdivyGradient, kDivision));
const OpRegistration mul_no_nan(ProductOp<MulNoNan>("MulNoNan", MulNoNanGradient, kCheap));

}  // namespace
}  // namespace tandem::math
