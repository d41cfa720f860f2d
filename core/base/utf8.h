// Which bytes are UTF-8, and strings as people read them.
#ifndef TANDEM_CORE_BASE_UTF8_H_
#define TANDEM_CORE_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem {

// The bytes of the character in UTF-8 that `text` begins with; 0 when it begins with none: it is
// empty, cut, overlong, half of a UTF-16 pair or beyond Unicode.
size_t Utf8CharacterBytes(absl::string_view text);

// Between quotes: characters as they are, but quotes, backslashes and control characters escaped as
// in C; all bytes that are no characters likewise if there are any ("\x89PNG"), since then it is no
// text.
std::string QuotedText(absl::string_view text);

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_UTF8_H_
