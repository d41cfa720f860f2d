#include "kernels/array/add_elements.h"

#include <complex>
#include <string>
#include <type_traits>

namespace tandem::array {
namespace {

template <typename T>
void Add(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t count) {
  const auto add = [](T& a, const T& b) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
      a = static_cast<T>(static_cast<float>(a) + static_cast<float>(b));
    } else if constexpr (std::is_same_v<T, bool>) {
      a = a || b;
    } else if constexpr (std::is_integral_v<T>) {
      // Wraps around, which signed types do not do by themselves.
      using U = std::make_unsigned_t<T>;
      a = static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      a += b;
    }
  };
  if (to_stride == 1 && from_stride == 1) {
    for (int64_t i = 0; i < count; ++i) add(to[i], from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) add(to[i * to_stride], from[i * from_stride]);
  }
}

}  // namespace

void AddElements(DataType dtype, void* to, int64_t to_stride, const void* from, int64_t from_stride,
                 int64_t count) {
  switch (dtype) {
#define TANDEM_CASE_(T) \
  case DataTypeOf<T>(): \
    return Add(static_cast<T*>(to), to_stride, static_cast<const T*>(from), from_stride, count);
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
    TANDEM_CASE_(bool)
    TANDEM_CASE_(std::string)
#undef TANDEM_CASE_
    default:
      return;
  }
}

}  // namespace tandem::array
