// The code of binary_gpu.cc.
#include "kernels/math/loops_gpu.h"

namespace tandem::math {
namespace {

struct Div {
  template <typename T>
  static TANDEM_GPU_INLINE T Apply(T x, T y) {
    return x / y;
  }
};
struct DivNoNan {
  template <typename T>
  static TANDEM_GPU_INLINE T Apply(T x, T y) {
    return y == T(0) ? T(0) : x / y;
  }
};
struct Pow {
  template <typename T>
  static TANDEM_GPU_INLINE T Apply(T x, T y) {
    return std::pow(x, y);
  }
};
struct SigmoidGrad {
  template <typename T>
  static TANDEM_GPU_INLINE T Apply(T y, T dy) {
    return dy * y * (T(1) - y);
  }
};

}  // namespace

TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Add, Add)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Sub, Sub)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Mul, Mul)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Maximum, Maximum)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, Minimum, Minimum)
TANDEM_GPU_NUMBERS(TANDEM_GPU_BINARY, SquaredDifference, SquaredDifference)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, RealDiv, Div)
TANDEM_GPU_FLOATS(TANDEM_GPU_BINARY, DivNoNan, DivNoNan)
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
