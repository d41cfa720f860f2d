// The code of activations_gpu.cc.
#include <cmath>

#include "kernels/math/loops_gpu.h"

namespace tandem {
namespace {

// Selu's constants, as activations.cc has them.
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

#define TANDEM_GPU_ACTIVATION(Name, expression) \
  struct Name {                                 \
    template <typename T>                       \
    static TANDEM_GPU_INLINE T Apply(T x) {     \
      return expression;                        \
    }                                           \
  }
TANDEM_GPU_ACTIVATION(Relu, x <= T(0) ? T(0) : x);
TANDEM_GPU_ACTIVATION(Relu6, x <= T(0) ? T(0) : x > T(6) ? T(6) : x);
TANDEM_GPU_ACTIVATION(Elu, x < T(0) ? std::expm1(x) : x);
TANDEM_GPU_ACTIVATION(Selu, x < T(0) ? T(kSeluScaleAlpha) * std::expm1(x) : T(kSeluScale) * x);
// Beyond 30 the 1 in log(1 + exp(x)) is lost in every type.
TANDEM_GPU_ACTIVATION(Softplus, x > T(30) ? x : std::log1p(std::exp(x)));
TANDEM_GPU_ACTIVATION(Softsign, x / (T(1) + std::abs(x)));
#undef TANDEM_GPU_ACTIVATION

// g is the gradient, x the input or, for Elu and Selu, the output.
#define TANDEM_GPU_ACTIVATION_GRADIENT(Name, expression) \
  struct Name {                                          \
    template <typename T>                                \
    static TANDEM_GPU_INLINE T Apply(T g, T x) {         \
      return expression;                                 \
    }                                                    \
  }
TANDEM_GPU_ACTIVATION_GRADIENT(ReluGrad, g*(x > T(0) ? T(1) : T(0)));
TANDEM_GPU_ACTIVATION_GRADIENT(Relu6Grad, g*(x > T(0) && x < T(6) ? T(1) : T(0)));
TANDEM_GPU_ACTIVATION_GRADIENT(EluGrad, x < T(0) ? (x + T(1)) * g : g);
TANDEM_GPU_ACTIVATION_GRADIENT(SeluGrad, g*(x < T(0) ? x + T(kSeluScaleAlpha) : T(kSeluScale)));
TANDEM_GPU_ACTIVATION_GRADIENT(SoftplusGrad, g / (std::exp(-x) + T(1)));
TANDEM_GPU_ACTIVATION_GRADIENT(SoftsignGrad, g / ((T(1) + std::abs(x)) * (T(1) + std::abs(x))));
#undef TANDEM_GPU_ACTIVATION_GRADIENT

}  // namespace

TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Relu, Relu)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Relu6, Relu6)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Elu, Elu)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Selu, Selu)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Softplus, Softplus)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Softsign, Softsign)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, ReluGrad, ReluGrad)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, Relu6Grad, Relu6Grad)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, EluGrad, EluGrad)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, SeluGrad, SeluGrad)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, SoftplusGrad, SoftplusGrad)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, SoftsignGrad, SoftsignGrad)

}  // namespace tandem
