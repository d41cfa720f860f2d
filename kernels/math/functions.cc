// Exponential, logarithm, trigonometric and error functions, and their inverses' kin.
#include <cmath>

#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/complex_log1p.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/packet_loops.h"
#include "unsupported/Eigen/SpecialFunctions"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

constexpr char kTypes[] = "T:type{bfloat16,float16,float32,float64,complex64,complex128}";

// A formula for complex numbers.
#define TANDEM_COMPLEX_FORMULA_(Name, expression) \
  struct Name {                                   \
    template <typename T>                         \
    static T Apply(T x) {                         \
      return expression;                          \
    }                                             \
  }
TANDEM_COMPLEX_FORMULA_(ComplexExp, std::exp(x));
// expm1 of a + bi without cancellation: expm1(a) cos b - 2 sin²(b/2), and e^a sin b.
struct ComplexExpm1 {
  template <typename T>
  static std::complex<T> Apply(std::complex<T> x) {
    const T half_sine = std::sin(x.imag() / 2);
    return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * half_sine * half_sine,
            std::exp(x.real()) * std::sin(x.imag())};
  }
};
TANDEM_COMPLEX_FORMULA_(ComplexLog, std::log(x));
TANDEM_COMPLEX_FORMULA_(ComplexLog1p, Log1pOf(x));
TANDEM_COMPLEX_FORMULA_(ComplexSin, std::sin(x));
TANDEM_COMPLEX_FORMULA_(ComplexCos, std::cos(x));
TANDEM_COMPLEX_FORMULA_(ComplexTan, std::tan(x));
TANDEM_COMPLEX_FORMULA_(ComplexTanh, std::tanh(x));
TANDEM_COMPLEX_FORMULA_(ComplexSigmoid, T(1) / (T(1) + std::exp(-x)));
#undef TANDEM_COMPLEX_FORMULA_

template <template <typename> class F, typename Complex>
KernelDef FunctionKernel(double cost = kFunction) {
  return UnaryKernel(Join<TypedUnaryLoop>({RealPacketLoops<F>(), UnaryLoops<Complex, C64, C128>()}),
                     cost);
}

OpDefBuilder FunctionOp(const char* name, GradientFunction gradient, KernelDef kernel) {
  return OpDefBuilder(name)
      .Inputs("x:T")
      .Outputs("y:T")
      .Attrs(kTypes)
      .Shape(UnchangedShape)
      .Gradient(gradient)
      .Cpu(std::move(kernel));
}

// (e^x)' = e^x
absl::Status ExpGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), g.Conjugate(g.output(0))}));
  return absl::OkStatus();
}
const OpRegistration exp_op(
    FunctionOp("Exp", ExpGradient, FunctionKernel<Eigen::internal::scalar_exp_op, ComplexExp>()));

absl::Status Expm1Gradient(GradientContext& g) {
  const Output exp = g.Call("Exp", {g.Conjugate(g.input(0))});
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), exp}));
  return absl::OkStatus();
}
const OpRegistration expm1_op(FunctionOp(
    "Expm1", Expm1Gradient, FunctionKernel<Eigen::internal::scalar_expm1_op, ComplexExpm1>()));

// (log x)' = 1/x
absl::Status LogGradient(GradientContext& g) {
  const Output inverse = g.Call("Reciprocal", {g.Conjugate(g.input(0))});
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), inverse}));
  return absl::OkStatus();
}
const OpRegistration log_op(
    FunctionOp("Log", LogGradient, FunctionKernel<Eigen::internal::scalar_log_op, ComplexLog>()));

// log(1 + x)' = 1 / (1 + x)
absl::Status Log1pGradient(GradientContext& g) {
  const Output x = g.Conjugate(g.input(0));
  const Output one_more = g.Call("AddV2", {x, g.Scalar(x.dtype(), 1)});
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), g.Call("Reciprocal", {one_more})}));
  return absl::OkStatus();
}
const OpRegistration log1p_op(FunctionOp(
    "Log1p", Log1pGradient, FunctionKernel<Eigen::internal::scalar_log1p_op, ComplexLog1p>()));

// sin' = cos
absl::Status SinGradient(GradientContext& g) {
  const Output cos = g.Call("Cos", {g.Conjugate(g.input(0))});
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), cos}));
  return absl::OkStatus();
}
const OpRegistration sin_op(
    FunctionOp("Sin", SinGradient, FunctionKernel<Eigen::internal::scalar_sin_op, ComplexSin>()));

// cos' = -sin
absl::Status CosGradient(GradientContext& g) {
  const Output sin = g.Call("Sin", {g.Conjugate(g.input(0))});
  g.SetInputGradient(0, g.Call("Neg", {g.Call("Mul", {g.OutputGradient(0), sin})}));
  return absl::OkStatus();
}
const OpRegistration cos_op(
    FunctionOp("Cos", CosGradient, FunctionKernel<Eigen::internal::scalar_cos_op, ComplexCos>()));

// tan' = 1 / cos²
absl::Status TanGradient(GradientContext& g) {
  const Output cos = g.Call("Cos", {g.Conjugate(g.input(0))});
  const Output secant_squared = g.Call("Square", {g.Call("Reciprocal", {cos})});
  g.SetInputGradient(0, g.Call("Mul", {secant_squared, g.OutputGradient(0)}));
  return absl::OkStatus();
}
const OpRegistration tan_op(
    FunctionOp("Tan", TanGradient,
               FunctionKernel<Eigen::internal::scalar_tan_op, ComplexTan>(kScalarFunction)));

// tanh' = 1 - tanh²
absl::Status TanhGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("TanhGrad", {g.Conjugate(g.output(0)), g.OutputGradient(0)}));
  return absl::OkStatus();
}
const OpRegistration tanh_op(FunctionOp(
    "Tanh", TanhGradient, FunctionKernel<Eigen::internal::scalar_tanh_op, ComplexTanh>()));

// s(x) = 1 / (1 + e^-x),  s' = s (1 - s)
absl::Status SigmoidGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("SigmoidGrad", {g.Conjugate(g.output(0)), g.OutputGradient(0)}));
  return absl::OkStatus();
}
const OpRegistration sigmoid_op(
    FunctionOp("Sigmoid", SigmoidGradient,
               FunctionKernel<Eigen::internal::scalar_logistic_op, ComplexSigmoid>()));

// erf' = 2/√π e^-x²
absl::Status ErfGradient(GradientContext& g) {
  const Output bell = g.Call("Exp", {g.Call("Neg", {g.Call("Square", {g.input(0)})})});
  g.SetInputGradient(0, Scaled(g, 2 / std::sqrt(M_PI), g.Call("Mul", {g.OutputGradient(0), bell})));
  return absl::OkStatus();
}
TANDEM_OP("Erf")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs("T:type{bfloat16,float16,float32,float64}")
    .Shape(UnchangedShape)
    .Gradient(ErfGradient)
    .Cpu(UnaryKernel(RealPacketLoops<Eigen::internal::scalar_erf_op>(), kFunction));

}  // namespace
}  // namespace tandem::math
