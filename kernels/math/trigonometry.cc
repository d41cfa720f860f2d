// Hyperbolic and inverse trigonometric functions, of one number and (Atan2) of two.
#include <cmath>
#include <complex>

#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

#define TANDEM_FORMULA_(Name, function) \
  struct Name {                         \
    template <typename T>               \
    static T Apply(T x) {               \
      return std::function(x);          \
    }                                   \
  }
TANDEM_FORMULA_(Sinh, sinh);
TANDEM_FORMULA_(Cosh, cosh);
TANDEM_FORMULA_(Asin, asin);
TANDEM_FORMULA_(Acos, acos);
TANDEM_FORMULA_(Atan, atan);
TANDEM_FORMULA_(Asinh, asinh);
TANDEM_FORMULA_(Acosh, acosh);
TANDEM_FORMULA_(Atanh, atanh);
#undef TANDEM_FORMULA_

template <typename Formula>
OpDefBuilder TrigonometricOp(const char* name, GradientFunction gradient) {
  return OpDefBuilder(name)
      .Inputs("x:T")
      .Outputs("y:T")
      .Attrs("T:type{bfloat16,float16,float32,float64,complex64,complex128}")
      .Shape(UnchangedShape)
      .Gradient(gradient)
      .Cpu(UnaryKernel(UnaryLoops<Formula, float, double, Float16, Bfloat16, C64, C128>(),
                       kScalarFunction));
}

absl::Status TimesDerivative(GradientContext& g, Output derivative) {
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), derivative}));
  return absl::OkStatus();
}
absl::Status OverDerivative(GradientContext& g, Output inverse) {
  g.SetInputGradient(0, g.Call("RealDiv", {g.OutputGradient(0), inverse}));
  return absl::OkStatus();
}
Output One(GradientContext& g) { return g.Scalar(RemoveReference(g.input(0).dtype()), 1); }
Output XSquared(GradientContext& g) { return g.Call("Square", {g.Conjugate(g.input(0))}); }

// sinh' = cosh, cosh' = sinh
absl::Status SinhGradient(GradientContext& g) {
  return TimesDerivative(g, g.Call("Cosh", {g.Conjugate(g.input(0))}));
}
absl::Status CoshGradient(GradientContext& g) {
  return TimesDerivative(g, g.Call("Sinh", {g.Conjugate(g.input(0))}));
}
// asin' = 1/√(1 - x²) = -acos'
absl::Status AsinGradient(GradientContext& g) {
  return OverDerivative(g, g.Call("Sqrt", {g.Call("Sub", {One(g), XSquared(g)})}));
}
absl::Status AcosGradient(GradientContext& g) {
  const Output root = g.Call("Sqrt", {g.Call("Sub", {One(g), XSquared(g)})});
  return OverDerivative(g, g.Call("Neg", {root}));
}
// atan' = 1/(1 + x²), atanh' = 1/(1 - x²)
absl::Status AtanGradient(GradientContext& g) {
  return OverDerivative(g, g.Call("AddV2", {One(g), XSquared(g)}));
}
absl::Status AtanhGradient(GradientContext& g) {
  return OverDerivative(g, g.Call("Sub", {One(g), XSquared(g)}));
}
// asinh' = 1/cosh y, acosh' = 1/sinh y
absl::Status AsinhGradient(GradientContext& g) {
  return OverDerivative(g, g.Call("Cosh", {g.Conjugate(g.output(0))}));
}
absl::Status AcoshGradient(GradientContext& g) {
  return OverDerivative(g, g.Call("Sinh", {g.Conjugate(g.output(0))}));
}

const OpRegistration sinh_op(TrigonometricOp<Sinh>("Sinh", SinhGradient));
const OpRegistration cosh_op(TrigonometricOp<Cosh>("Cosh", CoshGradient));
const OpRegistration asin_op(TrigonometricOp<Asin>("Asin", AsinGradient));
const OpRegistration acos_op(TrigonometricOp<Acos>("Acos", AcosGradient));
const OpRegistration atan_op(TrigonometricOp<Atan>("Atan", AtanGradient));
const OpRegistration asinh_op(TrigonometricOp<Asinh>("Asinh", AsinhGradient));
const OpRegistration acosh_op(TrigonometricOp<Acosh>("Acosh", AcoshGradient));
const OpRegistration atanh_op(TrigonometricOp<Atanh>("Atanh", AtanhGradient));

// The angle of the point (x, y).
struct Atan2 {
  template <typename T>
  static T Apply(T y, T x) {
    return std::atan2(y, x);
  }
};
// With respect to y: x/(x² + y²);  to x: -y/(x² + y²).
absl::Status Atan2Gradient(GradientContext& g) {
  const Output y = g.input(0);
  const Output x = g.input(1);
  const Output squares = g.Call("AddV2", {g.Call("Square", {x}), g.Call("Square", {y})});
  const Output scaled = g.Call("RealDiv", {g.OutputGradient(0), squares});
  g.SetInputGradient(0, g.ReduceToInput(g.Call("Mul", {x, scaled}), 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Mul", {g.Call("Neg", {y}), scaled}), 1, 0));
  return absl::OkStatus();
}
TANDEM_OP("Atan2")
    .Inputs("y:T, x:T")
    .Outputs("z:T")
    .Attrs("T:type{bfloat16,float16,float32,float64}")
    .Shape(BroadcastShape)
    .Gradient(Atan2Gradient)
    .Cpu(BinaryKernel(BinaryLoops<Atan2, float, double, Float16, Bfloat16>(), kScalarFunction));

}  // namespace
}  // namespace tandem::math
