// The elements of tensors as text: in messages, in what programs print, and as JSON.
#ifndef TANDEM_CORE_TENSOR_ELEMENT_TEXT_H_
#define TANDEM_CORE_TENSOR_ELEMENT_TEXT_H_

#include <complex>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "core/tensor/dtype.h"

namespace tandem {

// As many digits as it takes to read the same number back; "nan", "inf", "-inf".
std::string NumberText(float value);
std::string NumberText(double value);

// Whether somebody has written NumberText for it: the floating-point types.
template <typename T>
inline constexpr bool kIsFloatingPoint =
    std::is_floating_point_v<T> || std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

template <typename T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// T: any element type of a tensor. Numbers of 16 bits have the digits of the float of their value,
// complex ones are "(1,-2)", strings are quoted (QuotedText), handles and variants say what they
// are.
template <typename T>
std::string ElementText(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return absl::StrCat(+value);  // Bytes are numbers, too.
  } else if constexpr (std::is_floating_point_v<T>) {
    return NumberText(value);
  } else if constexpr (kIsFloatingPoint<T>) {
    return NumberText(static_cast<float>(value));
  } else if constexpr (kIsComplex<T>) {
    return absl::StrCat("(", NumberText(value.real()), ",", NumberText(value.imag()), ")");
  } else if constexpr (std::is_same_v<T, std::string>) {
    return QuotedText(value);
  } else {
    return value.DebugString();
  }
}

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_ELEMENT_TEXT_H_
