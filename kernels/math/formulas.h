// Formulas of elementwise ops that are plain arithmetic, for the CPU's loops (math/loops.h) and for
// code for GPUs alike. Both compute float16 and bfloat16 in float.
//
// Functions with vector code of their own on the CPU (exp and its kin) are not here.
#ifndef TANDEM_KERNELS_MATH_FORMULAS_H_
#define TANDEM_KERNELS_MATH_FORMULAS_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__CUDACC__)
#define TANDEM_FORMULA_FUNCTION __host__ __device__
#else
#define TANDEM_FORMULA_FUNCTION
#endif
#define TANDEM_FORMULA TANDEM_FORMULA_FUNCTION static

namespace tandem::math {

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<std::complex<T>> = true;
template <typename T>
inline constexpr bool kIsInt = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// The type in which arithmetic of T wraps around without undefined behaviour: unsigned, and at
// least as wide as int, into which narrower types would be promoted.
template <typename T, bool = kIsInt<T>>
struct WrappingOf {
  using Type = T;
};
template <typename T>
struct WrappingOf<T, true> {
  using Type =
      std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
};
template <typename T>
using Wrapping = typename WrappingOf<T>::Type;

// a b without the detour for infinities that the language prescribes; as Eigen does it.
template <typename T>
std::complex<T> Multiply(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <typename T>
TANDEM_FORMULA_FUNCTION T Multiply(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}

template <typename T>
TANDEM_FORMULA_FUNCTION T Conjugated(T x) {
  if constexpr (kIsComplex<T>) {
    return std::conj(x);
  } else {
    return x;
  }
}

// --- One input -----------------------------------------------------------------------------------

struct Neg {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    return static_cast<T>(-static_cast<Wrapping<T>>(x));
  }
};

struct Abs {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    if constexpr (kIsInt<T>) {
      return x < 0 ? Neg::Apply(x) : x;
    } else {
      return std::abs(x);
    }
  }
};

// -1, 0 or 1; NaN for NaN. For complex numbers x / |x|.
struct Sign {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    if constexpr (kIsComplex<T>) {
      const auto length = std::abs(x);
      return length == 0 ? T(0) : x / length;
    } else if constexpr (std::is_floating_point_v<T>) {
      return x > 0 ? T(1) : (x < 0 ? T(-1) : x);
    } else {
      return static_cast<T>((x > 0) - (x < 0));
    }
  }
};

struct Square {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    return Multiply(x, x);
  }
};

struct Sqrt {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    return std::sqrt(x);
  }
};

struct Rsqrt {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    return T(1) / std::sqrt(x);
  }
};

struct Reciprocal {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    if constexpr (kIsComplex<T>) {
      // No infinity: it would have no direction.
      constexpr auto kNan = std::numeric_limits<typename T::value_type>::quiet_NaN();
      if (x == T(0)) return {kNan, kNan};
    }
    return T(1) / x;
  }
};

struct Floor {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    return std::floor(x);
  }
};

struct Ceil {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    return std::ceil(x);
  }
};

// Halves go to the even neighbour.
struct Rint {
  template <typename T>
  TANDEM_FORMULA T Apply(T x) {
    if constexpr (kIsInt<T>) {
      return x;
    } else {
      return std::rint(x);
    }
  }
};

struct IsNan {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x) {
    return x != x;
  }
};

struct IsInf {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x) {
    return std::abs(x) == std::numeric_limits<T>::infinity();
  }
};

struct IsFinite {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x) {
    return std::abs(x) <= std::numeric_limits<T>::max();
  }
};

// --- Two inputs ----------------------------------------------------------------------------------

// All integers wrap around.
struct Add {
  template <typename T>
  TANDEM_FORMULA T Apply(T x, T y) {
    return static_cast<T>(static_cast<Wrapping<T>>(x) + static_cast<Wrapping<T>>(y));
  }
};

struct Sub {
  template <typename T>
  TANDEM_FORMULA T Apply(T x, T y) {
    return static_cast<T>(static_cast<Wrapping<T>>(x) - static_cast<Wrapping<T>>(y));
  }
};

struct Mul {
  template <typename T>
  TANDEM_FORMULA T Apply(T x, T y) {
    return Multiply(x, y);
  }
};

struct Quotient {
  template <typename T>
  TANDEM_FORMULA T Apply(T x, T y) {
    return x / y;
  }
};

struct QuotientOrZero {
  template <typename T>
  TANDEM_FORMULA T Apply(T x, T y) {
    return y == T(0) ? T(0) : x / y;
  }
};

struct SquaredDifference {
  template <typename T>
  TANDEM_FORMULA T Apply(T x, T y) {
    const T difference = Sub::Apply(x, y);
    return Multiply(difference, Conjugated(difference));
  }
};

// NaN when either is.
struct Maximum {
  template <typename T>
  TANDEM_FORMULA T Apply(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) {
      const T larger = x > y ? x : y;  // y when x is NaN.
      return x != x ? x : larger;
    } else {
      return x > y ? x : y;
    }
  }
};

struct Minimum {
  template <typename T>
  TANDEM_FORMULA T Apply(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) {
      const T smaller = x < y ? x : y;
      return x != x ? x : smaller;
    } else {
      return x < y ? x : y;
    }
  }
};

struct Equal {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x, T y) {
    return x == y;
  }
};

struct NotEqual {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x, T y) {
    return x != y;
  }
};

struct Less {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x, T y) {
    return x < y;
  }
};

struct LessEqual {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x, T y) {
    return x <= y;
  }
};

struct Greater {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x, T y) {
    return x > y;
  }
};

struct GreaterEqual {
  template <typename T>
  TANDEM_FORMULA bool Apply(T x, T y) {
    return x >= y;
  }
};

// --- Gradients, from the output y and the gradient dy --------------------------------------------

// y = √x:  dx = dy / (2 y)
struct SqrtGrad {
  template <typename T>
  TANDEM_FORMULA T Apply(T y, T dy) {
    return T(0.5f) * dy / Conjugated(y);
  }
};

// y = x^-½:  dx = -½ dy y³
struct RsqrtGrad {
  template <typename T>
  TANDEM_FORMULA T Apply(T y, T dy) {
    const T conjugate = Conjugated(y);
    return Multiply(Multiply(T(-0.5f) * dy, conjugate), Multiply(conjugate, conjugate));
  }
};

// y = tanh x:  dx = dy (1 - y²)
struct TanhGrad {
  template <typename T>
  TANDEM_FORMULA T Apply(T y, T dy) {
    return Multiply(dy, T(1) - Multiply(y, y));
  }
};

// y = sigmoid x:  dx = dy y (1 - y)
struct SigmoidGrad {
  template <typename T>
  TANDEM_FORMULA T Apply(T y, T dy) {
    return Multiply(Multiply(dy, y), T(1) - y);
  }
};

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_FORMULAS_H_
