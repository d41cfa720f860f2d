// Loops over contiguous memory, made from formulas: for .cc files only.
//
// A formula is a struct with a static Apply for an element:
//
//   struct Square { template <typename T> static T Apply(T x) { return x * x; } };
//   UnaryLoops<Square, float, double, Float16>()   → a loop for each type
//
// or, where Eigen has vector code for a function, a struct that names Eigen's functor; see
// PacketLoop.
//
// Each element gives the same bits wherever it stands, so that the split over threads does not
// show in a result: plain loops are the compiler's to vectorize without reassociation, and
// PacketLoop sends the last few elements through the same vector code as the others.
#ifndef TANDEM_KERNELS_MATH_LOOPS_H_
#define TANDEM_KERNELS_MATH_LOOPS_H_

#include <algorithm>
#include <complex>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/common/half.h"
#include "kernels/math/elementwise.h"
#include "kernels/math/formulas.h"

namespace tandem::math {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
// The same bits without a sign, where an op does not care: signed and unsigned types share loops.
template <typename T, bool = kIsInt<T>>
struct UnsignedOf {
  using Type = T;
};
template <typename T>
struct UnsignedOf<T, true> {
  using Type = std::make_unsigned_t<T>;
};
template <typename T>
using Unsigned = typename UnsignedOf<T>::Type;

template <typename Op, typename T>
void PlainUnary(const void* x, void* y, int64_t n) {
  using R = decltype(Op::Apply(T()));
  const T* const from = static_cast<const T*>(x);
  R* const to = static_cast<R*>(y);
  // Element i of `to` may be element i of `from`, and no other.
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = Op::Apply(from[i]);
}

template <typename Op, typename T>
bool PlainBinary(const void* x, const void* y, void* z, int64_t n) {
  using R = decltype(Op::Apply(T(), T()));
  const T* const a = static_cast<const T*>(x);
  const T* const b = static_cast<const T*>(y);
  R* const to = static_cast<R*>(z);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = Op::Apply(a[i], b[i]);
  return true;
}

// Loops for float16 and bfloat16 out of one for float. The result is of R when that is not a float
// (a comparison).
template <typename H, UnaryLoop kLoop, typename R>
void HalfUnary(const void* x, void* y, int64_t n) {
  float in[kHalfBlock];
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t size = std::min(kHalfBlock, n - i);
    ToFloat(static_cast<const H*>(x) + i, in, size);
    if constexpr (std::is_same_v<R, float>) {
      kLoop(in, in, size);
      FromFloat(in, static_cast<H*>(y) + i, size);
    } else {
      kLoop(in, static_cast<R*>(y) + i, size);
    }
  }
}

template <typename H, BinaryLoop kLoop, typename R>
bool HalfBinary(const void* x, const void* y, void* z, int64_t n) {
  float a[kHalfBlock];
  float b[kHalfBlock];
  bool ok = true;
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t size = std::min(kHalfBlock, n - i);
    ToFloat(static_cast<const H*>(x) + i, a, size);
    ToFloat(static_cast<const H*>(y) + i, b, size);
    if constexpr (std::is_same_v<R, float>) {
      ok = kLoop(a, b, a, size) && ok;
      FromFloat(a, static_cast<H*>(z) + i, size);
    } else {
      ok = kLoop(a, b, static_cast<R*>(z) + i, size) && ok;
    }
  }
  return ok;
}

template <typename Op, typename T>
TypedUnaryLoop OneUnaryLoop() {
  if constexpr (kIsHalf<T>) {
    return {DataTypeOf<T>(), HalfUnary<T, PlainUnary<Op, float>, decltype(Op::Apply(1.f))>};
  } else {
    return {DataTypeOf<T>(), PlainUnary<Op, T>};
  }
}

template <typename Op, typename T>
TypedBinaryLoop OneBinaryLoop() {
  if constexpr (kIsHalf<T>) {
    return {DataTypeOf<T>(), HalfBinary<T, PlainBinary<Op, float>, decltype(Op::Apply(1.f, 1.f))>};
  } else {
    return {DataTypeOf<T>(), PlainBinary<Op, T>};
  }
}

template <typename Op, typename... Ts>
std::vector<TypedUnaryLoop> UnaryLoops() {
  return {OneUnaryLoop<Op, Ts>()...};
}
template <typename Op, typename... Ts>
std::vector<TypedBinaryLoop> BinaryLoops() {
  return {OneBinaryLoop<Op, Ts>()...};
}

// The same for formulas to which a sign does not matter.
template <typename Op, typename... Ts>
std::vector<TypedUnaryLoop> SignlessUnaryLoops() {
  return {TypedUnaryLoop{DataTypeOf<Ts>(), PlainUnary<Op, Unsigned<Ts>>}...};
}
template <typename Op, typename... Ts>
std::vector<TypedBinaryLoop> SignlessBinaryLoops() {
  return {TypedBinaryLoop{DataTypeOf<Ts>(), PlainBinary<Op, Unsigned<Ts>>}...};
}

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_LOOPS_H_
