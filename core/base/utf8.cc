#include "core/base/utf8.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tandem {

size_t Utf8CharacterBytes(absl::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, halves of a UTF-16 pair, beyond Unicode.
  const uint8_t second = byte(1);
  const bool bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                   (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return bad ? 0 : size;
}

std::string QuotedText(absl::string_view text) {
  for (absl::string_view rest = text; !rest.empty();) {
    const size_t size = Utf8CharacterBytes(rest);
    // U+0080 to U+009F are control characters, which a terminal may obey.
    const bool is_control = size == 2 && rest[0] == '\xc2' && static_cast<uint8_t>(rest[1]) < 0xa0;
    if (size == 0 || is_control) return absl::StrCat("\"", absl::CHexEscape(text), "\"");
    rest.remove_prefix(size);
  }
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), "\"");
}

}  // namespace tandem
