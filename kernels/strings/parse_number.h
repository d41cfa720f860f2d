// Numbers in text, as TensorFlow's ops read them.
#ifndef TANDEM_KERNELS_STRINGS_PARSE_NUMBER_H_
#define TANDEM_KERNELS_STRINGS_PARSE_NUMBER_H_

#include <type_traits>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace tandem::strings {

// Whether all of `text` but blanks around it is a number of type T: a whole one that fits, or for
// float and double any number, "inf" and "nan" (a number too large becomes an infinity). `value` is
// unspecified when it is not.
template <typename T>
bool ParseNumber(absl::string_view text, T* value) {
  if constexpr (std::is_same_v<T, float>) {
    return absl::SimpleAtof(text, value);
  } else if constexpr (std::is_same_v<T, double>) {
    return absl::SimpleAtod(text, value);
  } else {
    return absl::SimpleAtoi(text, value);
  }
}

}  // namespace tandem::strings

#endif  // TANDEM_KERNELS_STRINGS_PARSE_NUMBER_H_
