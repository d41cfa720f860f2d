#include "core/tensor/element_text.h"

#include <charconv>
#include <cmath>

namespace tandem {
namespace {

// Between these numbers no power of ten is written: 100000 and 0.0001, not 1e+05 and 1e-04.
template <typename T>
constexpr T kSmallest = T(1e-4);
template <typename T>
constexpr T kLargest = std::is_same_v<T, float> ? T(1e9) : T(1e15);

template <typename T>
std::string ShortestText(T value) {
  if (std::isnan(value)) return "nan";  // Its sign tells nothing.
  char text[32];
  char* const limit = text + sizeof(text);
  const T size = std::abs(value);
  const bool plain = size == 0 || (size >= kSmallest<T> && size < kLargest<T>);
  const std::to_chars_result end = plain
                                       ? std::to_chars(text, limit, value, std::chars_format::fixed)
                                       : std::to_chars(text, limit, value);
  return std::string(text, end.ptr);
}

}  // namespace

std::string NumberText(float value) { return ShortestText(value); }
std::string NumberText(double value) { return ShortestText(value); }

}  // namespace tandem
