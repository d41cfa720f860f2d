#include "kernels/state/combine.h"

#include <complex>
#include <type_traits>

namespace tandem::state {
namespace {

template <typename T, bool kSubtract>
T Combined(T a, T b) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    const auto x = static_cast<float>(a);
    const auto y = static_cast<float>(b);
    return static_cast<T>(kSubtract ? x - y : x + y);
  } else if constexpr (std::is_integral_v<T>) {
    // Unsigned, since signed types do not wrap around by themselves.
    using U = std::make_unsigned_t<T>;
    const auto x = static_cast<U>(a);
    const auto y = static_cast<U>(b);
    return static_cast<T>(static_cast<U>(kSubtract ? x - y : x + y));
  } else {
    return kSubtract ? a - b : a + b;
  }
}

template <typename T, bool kSubtract>
void Combine(void* to, const void* a, const void* b, bool b_is_scalar, int64_t n) {
  T* const out = static_cast<T*>(to);
  const T* const x = static_cast<const T*>(a);
  const T* const y = static_cast<const T*>(b);
  if (b_is_scalar) {
    const T value = y[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Combined<T, kSubtract>(x[i], value);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Combined<T, kSubtract>(x[i], y[i]);
  }
}

template <bool kSubtract>
CombineFunction Find(DataType dtype) {
  switch (dtype) {
#define TANDEM_CASE_(T) \
  case DataTypeOf<T>(): \
    return Combine<T, kSubtract>;
    TANDEM_CASE_(float)
    TANDEM_CASE_(double)
    TANDEM_CASE_(Float16)
    TANDEM_CASE_(Bfloat16)
    TANDEM_CASE_(int8_t)
    TANDEM_CASE_(int16_t)
    TANDEM_CASE_(int32_t)
    TANDEM_CASE_(int64_t)
    TANDEM_CASE_(uint8_t)
    TANDEM_CASE_(uint16_t)
    TANDEM_CASE_(uint32_t)
    TANDEM_CASE_(uint64_t)
    TANDEM_CASE_(std::complex<float>)
    TANDEM_CASE_(std::complex<double>)
#undef TANDEM_CASE_
    default:
      return nullptr;
  }
}

}  // namespace

CombineFunction FindCombineFunction(DataType dtype, Combination combination) {
  return combination == Combination::kAdd ? Find<false>(dtype) : Find<true>(dtype);
}

}  // namespace tandem::state
