#include "kernels/strings/encoding.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/kernel.h"

namespace tandem::strings {
namespace {

bool IsBigEndian(Encoding encoding) {
  return encoding == Encoding::kUtf16Be || encoding == Encoding::kUtf32Be;
}

// `size` bytes as a number. REQUIRES: they are there.
uint32_t Unit(absl::string_view text, size_t size, bool big_endian) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<uint8_t>(text[big_endian ? i : size - 1 - i]);
    value = (value << 8) | byte;
  }
  return value;
}

void AppendUnit(uint32_t value, size_t size, bool big_endian, std::string* text) {
  for (size_t i = 0; i < size; ++i) {
    const size_t shift = 8 * (big_endian ? size - 1 - i : i);
    text->push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

bool IsHighHalf(uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool IsLowHalf(uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

DecodedCharacter Bad(size_t bytes) { return {kReplacement, bytes, false}; }

DecodedCharacter DecodeUtf16(absl::string_view text, bool big_endian) {
  if (text.size() < 2) return Bad(text.size());
  const uint32_t first = Unit(text, 2, big_endian);
  if (!IsHighHalf(first) && !IsLowHalf(first)) return {first, 2, true};
  if (IsLowHalf(first)) return Bad(2);
  if (text.size() < 4) return Bad(text.size());
  const uint32_t second = Unit(text.substr(2), 2, big_endian);
  if (!IsLowHalf(second)) return Bad(2);
  return {0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 4, true};
}

DecodedCharacter DecodeUtf32(absl::string_view text, bool big_endian) {
  if (text.size() < 4) return Bad(text.size());
  const uint32_t value = Unit(text, 4, big_endian);
  return IsCharacter(value) ? DecodedCharacter{value, 4, true} : Bad(4);
}

}  // namespace

absl::StatusOr<Encoding> ParseEncoding(absl::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '-' && c != '_') plain.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
  }
  static constexpr std::pair<absl::string_view, Encoding> kNames[] = {
      {"utf8", Encoding::kUtf8},       {"utf16be", Encoding::kUtf16Be},
      {"utf16le", Encoding::kUtf16Le}, {"utf32be", Encoding::kUtf32Be},
      {"utf32le", Encoding::kUtf32Le}, {"iso88591", Encoding::kLatin1},
      {"latin1", Encoding::kLatin1},   {"usascii", Encoding::kAscii},
      {"ascii", Encoding::kAscii}};
  for (const auto& [known, encoding] : kNames) {
    if (plain == known) return encoding;
  }
  return errors::InvalidArgument("the encoding ", QuotedText(name), " is not known; UTF-8, ",
                                 "UTF-16-BE, UTF-16-LE, UTF-32-BE, UTF-32-LE, ISO-8859-1 and ",
                                 "US-ASCII are");
}

DecodedCharacter Decode(Encoding encoding, absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  switch (encoding) {
    case Encoding::kUtf8:
      return DecodeUtf8(text);
    case Encoding::kUtf16Be:
    case Encoding::kUtf16Le:
      return DecodeUtf16(text, IsBigEndian(encoding));
    case Encoding::kUtf32Be:
    case Encoding::kUtf32Le:
      return DecodeUtf32(text, IsBigEndian(encoding));
    case Encoding::kLatin1:
      return {first, 1, true};
    case Encoding::kAscii:
      return first < 0x80 ? DecodedCharacter{first, 1, true} : Bad(1);
  }
  return Bad(1);
}

void Encode(Encoding encoding, char32_t character, std::string* text) {
  const bool big_endian = IsBigEndian(encoding);
  switch (encoding) {
    case Encoding::kUtf16Be:
    case Encoding::kUtf16Le:
      if (character < 0x10000) {
        AppendUnit(character, 2, big_endian, text);
      } else {
        AppendUnit(0xd800 + ((character - 0x10000) >> 10), 2, big_endian, text);
        AppendUnit(0xdc00 + ((character - 0x10000) & 0x3ff), 2, big_endian, text);
      }
      return;
    case Encoding::kUtf32Be:
    case Encoding::kUtf32Le:
      AppendUnit(character, 4, big_endian, text);
      return;
    default:
      AppendUtf8(character, text);
  }
}

absl::StatusOr<BadCharacters> BadCharacters::Read(const KernelInit& init) {
  BadCharacters bad;
  const std::string& policy = init.Attr<std::string>("errors");
  bad.policy_ = policy == "strict"   ? Policy::kStrict
                : policy == "ignore" ? Policy::kIgnore
                                     : Policy::kReplace;
  const int64_t replacement = init.Attr<int64_t>("replacement_char");
  if (!IsCharacter(replacement)) {
    return errors::InvalidArgument("replacement_char is ", replacement,
                                   ", which is no character of Unicode");
  }
  bad.replacement_ = static_cast<char32_t>(replacement);
  if (init.op().FindAttr("replace_control_characters") != nullptr) {
    bad.controls_ = init.Attr<bool>("replace_control_characters");
  }
  return bad;
}

}  // namespace tandem::strings
