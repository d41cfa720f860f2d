// Complements and inverses of the error function, and the gamma function's kin.
#include <cmath>
#include <limits>

#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"
#include "unsupported/Eigen/SpecialFunctions"

namespace tandem::math {
namespace {

struct Erfc {
  template <typename T>
  static T Apply(T x) {
    return std::erfc(x);
  }
};

// The quantile of the normal distribution: infinite at 0 and 1, not a number beyond.
struct Ndtri {
  static double Apply(double p) {
    if (!(p > 0 && p < 1)) {
      if (p == 0) return -std::numeric_limits<double>::infinity();
      if (p == 1) return std::numeric_limits<double>::infinity();
      return std::numeric_limits<double>::quiet_NaN();
    }
    return Eigen::numext::ndtri(p);
  }
  static float Apply(float p) { return static_cast<float>(Apply(static_cast<double>(p))); }
};

// By the quantile: erfinv(x) = ndtri((x + 1) / 2) / √2, which loses digits near 0; there one step
// of Newton's method brings them back.
struct Erfinv {
  static double Apply(double x) {
    double y = std::copysign(Ndtri::Apply((std::abs(x) + 1) / 2) * M_SQRT1_2, x);
    if (std::abs(x) < 0.5) y -= (std::erf(y) - x) / (M_2_SQRTPI * std::exp(-y * y));
    return y;
  }
  static float Apply(float x) { return static_cast<float>(Apply(static_cast<double>(x))); }
};

struct Lgamma {
  template <typename T>
  static T Apply(T x) {
    return Eigen::numext::lgamma(x);
  }
};
struct Digamma {
  template <typename T>
  static T Apply(T x) {
    return Eigen::numext::digamma(x);
  }
};
struct Polygamma {
  template <typename T>
  static T Apply(T n, T x) {
    return Eigen::numext::polygamma(n, x);
  }
};
struct Zeta {
  template <typename T>
  static T Apply(T x, T q) {
    return Eigen::numext::zeta(x, q);
  }
};
struct Igamma {
  template <typename T>
  static T Apply(T a, T x) {
    return Eigen::numext::igamma(a, x);
  }
};
struct Igammac {
  template <typename T>
  static T Apply(T a, T x) {
    return Eigen::numext::igammac(a, x);
  }
};
struct IgammaGradA {
  template <typename T>
  static T Apply(T a, T x) {
    return Eigen::numext::igamma_der_a(a, x);
  }
};

template <typename Formula>
OpDefBuilder UnaryOp(const char* name, GradientFunction gradient) {
  return OpDefBuilder(name)
      .Inputs("x:T")
      .Outputs("y:T")
      .Attrs("T:type{bfloat16,float16,float32,float64}")
      .Shape(UnchangedShape)
      .Gradient(gradient)
      .Cpu(UnaryKernel(UnaryLoops<Formula, float, double, Float16, Bfloat16>(), kScalarFunction));
}
template <typename Formula>
OpDefBuilder BinaryOp(const char* name, const char* inputs, const char* attrs) {
  return OpDefBuilder(name)
      .Inputs(inputs)
      .Outputs("z:T")
      .Attrs(attrs)
      .Shape(BroadcastShape)
      .Cpu(BinaryKernel(BinaryLoops<Formula, float, double>(), 10 * kScalarFunction));
}

// factor e^(exponent), times the output's gradient.
absl::Status TimesExp(GradientContext& g, double factor, Output exponent) {
  const Output exp = g.Call("Exp", {exponent});
  g.SetInputGradient(0, Scaled(g, factor, g.Call("Mul", {g.OutputGradient(0), exp})));
  return absl::OkStatus();
}
// erfc' = -2/√π e^-x²
absl::Status ErfcGradient(GradientContext& g) {
  return TimesExp(g, -2 / std::sqrt(M_PI), g.Call("Neg", {g.Call("Square", {g.input(0)})}));
}
// y' = √π/2 e^y²
absl::Status ErfinvGradient(GradientContext& g) {
  return TimesExp(g, std::sqrt(M_PI) / 2, g.Call("Square", {g.output(0)}));
}
// y' = √(2π) e^(y²/2)
absl::Status NdtriGradient(GradientContext& g) {
  return TimesExp(g, std::sqrt(2 * M_PI), Scaled(g, 0.5, g.Call("Square", {g.output(0)})));
}
// lgamma' = digamma
absl::Status LgammaGradient(GradientContext& g) {
  const Output digamma = g.Call("Digamma", {g.input(0)});
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), digamma}));
  return absl::OkStatus();
}
// digamma' = polygamma of 1
absl::Status DigammaGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output next = g.Call("Polygamma", {g.Scalar(RemoveReference(x.dtype()), 1), x});
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), next}));
  return absl::OkStatus();
}

const OpRegistration erfc(UnaryOp<Erfc>("Erfc", ErfcGradient));
const OpRegistration erfinv(UnaryOp<Erfinv>("Erfinv", ErfinvGradient));
const OpRegistration ndtri(UnaryOp<Ndtri>("Ndtri", NdtriGradient));
const OpRegistration lgamma(UnaryOp<Lgamma>("Lgamma", LgammaGradient));
const OpRegistration digamma(UnaryOp<Digamma>("Digamma", DigammaGradient));

// With respect to x, the polygamma function of the next order. None with respect to the order.
absl::Status PolygammaGradient(GradientContext& g) {
  const Output a = g.input(0);
  const Output next = g.Call("AddV2", {a, g.Scalar(RemoveReference(a.dtype()), 1)});
  const Output derivative = g.Call("Polygamma", {next, g.input(1)});
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Mul", {g.OutputGradient(0), derivative}), 1, 0));
  return absl::OkStatus();
}
// With respect to q: -x zeta(x + 1, q). None with respect to x.
absl::Status ZetaGradient(GradientContext& g) {
  const Output x = g.input(0);
  const Output next = g.Call("AddV2", {x, g.Scalar(RemoveReference(x.dtype()), 1)});
  const Output derivative = g.Call("Mul", {g.Call("Neg", {x}), g.Call("Zeta", {next, g.input(1)})});
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Mul", {g.OutputGradient(0), derivative}), 1, 0));
  return absl::OkStatus();
}
// With respect to x: x^(a - 1) e^-x / Γ(a).
absl::Status IncompleteGammaGradient(GradientContext& g, double sign) {
  const Output a = g.input(0);
  const Output x = g.input(1);
  const Output less = g.Call("Sub", {a, g.Scalar(RemoveReference(a.dtype()), 1)});
  const Output power = g.Call("Sub", {g.Call("Mul", {less, g.Call("Log", {x})}), x});
  const Output density = g.Call("Exp", {g.Call("Sub", {power, g.Call("Lgamma", {a})})});
  const Output dz = Scaled(g, sign, g.OutputGradient(0));
  const Output to_a = g.Call("Mul", {dz, g.Call("IgammaGradA", {a, x})});
  g.SetInputGradient(0, g.ReduceToInput(to_a, 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Mul", {dz, density}), 1, 0));
  return absl::OkStatus();
}
absl::Status IgammaGradient(GradientContext& g) { return IncompleteGammaGradient(g, 1); }
absl::Status IgammacGradient(GradientContext& g) { return IncompleteGammaGradient(g, -1); }

constexpr char kSingleAndDouble[] = "T:type{float32,float64}";
constexpr char kReal[] = "T:type{bfloat16,float16,float32,float64}";

const OpRegistration polygamma(
    BinaryOp<Polygamma>("Polygamma", "a:T, x:T", kSingleAndDouble).Gradient(PolygammaGradient));
const OpRegistration zeta(
    BinaryOp<Zeta>("Zeta", "x:T, q:T", kSingleAndDouble).Gradient(ZetaGradient));
const OpRegistration igamma(BinaryOp<Igamma>("Igamma", "a:T, x:T", kReal).Gradient(IgammaGradient));
const OpRegistration igammac(
    BinaryOp<Igammac>("Igammac", "a:T, x:T", kReal).Gradient(IgammacGradient));
const OpRegistration igamma_grad_a(BinaryOp<IgammaGradA>("IgammaGradA", "a:T, x:T",
                                                         kSingleAndDouble));

}  // namespace
}  // namespace tandem::math
