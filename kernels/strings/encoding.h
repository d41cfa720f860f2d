// Text in the encodings of Unicode, read and written a character at a time.
#ifndef TANDEM_KERNELS_STRINGS_ENCODING_H_
#define TANDEM_KERNELS_STRINGS_ENCODING_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/op/attr_value.h"
#include "kernels/strings/unicode.h"

namespace tandem {
class KernelInit;
}  // namespace tandem

namespace tandem::strings {

enum class Encoding { kUtf8, kUtf16Be, kUtf16Le, kUtf32Be, kUtf32Le, kLatin1, kAscii };

// By name ("UTF-8", "utf-16-be", "ISO-8859-1"), in any case, with or without hyphens.
// InvalidArgument: no encoding that is known here.
absl::StatusOr<Encoding> ParseEncoding(absl::string_view name);

// The character that `text` begins with, and how many bytes it takes; see DecodeUtf8.
// REQUIRES: `text` is not empty.
DecodedCharacter Decode(Encoding encoding, absl::string_view text);
// REQUIRES: a character of Unicode, and an encoding that has it (every UTF has).
void Encode(Encoding encoding, char32_t character, std::string* text);

inline bool IsCharacter(int64_t value) {
  return value >= 0 && value <= kLastCharacter && (value < 0xd800 || value > 0xdfff);
}

// What ops do with bytes that are no character, and with control characters.
class BadCharacters {
 public:
  // Reads the attributes errors, replacement_char and, where the op has it,
  // replace_control_characters. InvalidArgument: the replacement is no character.
  static absl::StatusOr<BadCharacters> Read(const KernelInit& init);

  bool IsBad(const DecodedCharacter& character) const {
    return !character.is_valid || (controls_ && character.value < 0x20);
  }
  bool is_strict() const { return policy_ == Policy::kStrict; }
  bool replaces() const { return policy_ == Policy::kReplace; }
  char32_t replacement() const { return replacement_; }

 private:
  enum class Policy { kStrict, kReplace, kIgnore };
  Policy policy_ = Policy::kReplace;
  char32_t replacement_ = kReplacement;
  bool controls_ = false;  // Control characters are bad, too.
};

}  // namespace tandem::strings

#endif  // TANDEM_KERNELS_STRINGS_ENCODING_H_
