// The code of binary_gpu.cc.
#include <cmath>

#include "kernels/math/loops_gpu.h"

namespace tandem::math {
namespace {

struct Pow {
  template <typename T>
  static TANDEM_GPU_INLINE T Apply(T x, T y) {
    return std::pow(x, y);
  }
};
}  // namespace

TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Add, Add)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Sub, Sub)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Mul, Mul)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Maximum, Maximum)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Minimum, Minimum)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, SquaredDifference, SquaredDifference)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, RealDiv, Quotient)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, DivNoNan, QuotientOrZero)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, Pow, Pow)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Equal, Equal)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, NotEqual, NotEqual)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Less, Less)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, LessEqual, LessEqual)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Greater, Greater)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, GreaterEqual, GreaterEqual)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, SqrtGrad, SqrtGrad)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, RsqrtGrad, RsqrtGrad)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, TanhGrad, TanhGrad)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, SigmoidGrad, SigmoidGrad)

}  // namespace tandem::math
