// Characters in UTF-8, one at a time, where bytes that are none are replaced.
#ifndef TANDEM_KERNELS_STRINGS_UNICODE_H_
#define TANDEM_KERNELS_STRINGS_UNICODE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::strings {

// U+FFFD, what stands for bytes that are no character.
inline constexpr char32_t kReplacement = 0xfffd;
inline constexpr char32_t kLastCharacter = 0x10ffff;

struct DecodedCharacter {
  char32_t value = kReplacement;
  size_t bytes = 0;
  bool is_valid = false;
};

// The character that `text` begins with. Bytes that are none count as one replacement for as many
// of them as begin a character (Unicode's "maximal subpart"), else for one.
// REQUIRES: `text` is not empty.
DecodedCharacter DecodeUtf8(absl::string_view text);
// REQUIRES: a character of Unicode, no half of a UTF-16 pair.
void AppendUtf8(char32_t character, std::string* text);

// True for bytes that go on with a character that began before.
inline bool IsTrailingByte(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Where the character after the one at `position` begins: what goes on with a character belongs to
// it, whatever it is; the size of `text` after the last.
size_t NextCharacter(absl::string_view text, size_t position);
// Where the character that ends at `position` begins. REQUIRES: position > 0.
size_t CharacterBefore(absl::string_view text, size_t position);
// How many bytes begin a character.
size_t CountCharacters(absl::string_view text);

// All of `text` in lower or upper case, by the rules of Unicode that hold in every language.
std::string Utf8Lower(absl::string_view text);
std::string Utf8Upper(absl::string_view text);

}  // namespace tandem::strings

#endif  // TANDEM_KERNELS_STRINGS_UNICODE_H_
