// The code of unary_gpu.cc.
#include <cmath>

#include "kernels/math/loops_gpu.h"

namespace tandem::math {
namespace {

// Functions for which the CPU has vector code of its own.
#define TANDEM_GPU_FORMULA(Name, expression) \
  struct Name {                              \
    template <typename T>                    \
    static TANDEM_GPU_INLINE T Apply(T x) {  \
      return expression;                     \
    }                                        \
  }
TANDEM_GPU_FORMULA(Exp, std::exp(x));
TANDEM_GPU_FORMULA(Expm1, std::expm1(x));
TANDEM_GPU_FORMULA(Log, std::log(x));
TANDEM_GPU_FORMULA(Log1p, std::log1p(x));
TANDEM_GPU_FORMULA(Sin, std::sin(x));
TANDEM_GPU_FORMULA(Cos, std::cos(x));
TANDEM_GPU_FORMULA(Tanh, std::tanh(x));
TANDEM_GPU_FORMULA(Erf, std::erf(x));
TANDEM_GPU_FORMULA(Sigmoid, T(1) / (T(1) + std::exp(-x)));
#undef TANDEM_GPU_FORMULA

}  // namespace

TANDEM_GPU_NUMBERS(TANDEM_GPU_UNARY, Neg, Neg)
TANDEM_GPU_NUMBERS(TANDEM_GPU_UNARY, Abs, Abs)
TANDEM_GPU_NUMBERS(TANDEM_GPU_UNARY, Sign, Sign)
TANDEM_GPU_NUMBERS(TANDEM_GPU_UNARY, Square, Square)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Sqrt, Sqrt)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Rsqrt, Rsqrt)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Reciprocal, Reciprocal)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Floor, Floor)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Ceil, Ceil)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Rint, Rint)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, IsNan, IsNan)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, IsInf, IsInf)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, IsFinite, IsFinite)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Exp, Exp)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Expm1, Expm1)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Log, Log)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Log1p, Log1p)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Sin, Sin)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Cos, Cos)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Tanh, Tanh)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Erf, Erf)
TANDEM_GPU_FLOATS(TANDEM_GPU_UNARY, Sigmoid, Sigmoid)

}  // namespace tandem::math
