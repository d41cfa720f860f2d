#include "kernels/strings/unicode.h"

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "core/base/utf8.h"
#include "kernels/strings/case_tables.h"

namespace tandem::strings {
namespace {

uint8_t ByteAt(absl::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// How many bytes of `text`, which begins with no character, could begin one: at least 1.
size_t MaximalSubpart(absl::string_view text) {
  const uint8_t first = ByteAt(text, 0);
  if (first < 0xc2 || first > 0xf4 || text.size() < 2) return 1;
  const uint8_t second = ByteAt(text, 1);
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (first < 0xe0 || second < low || second > high) return 1;
  const size_t whole = first >= 0xf0 ? 4 : 3;
  size_t bytes = 2;
  while (bytes < whole && bytes < text.size() && IsTrailingByte(text[bytes])) ++bytes;
  return bytes;
}

struct CaseTables {
  absl::Span<const CaseRun> runs;
  absl::Span<const CaseText> texts;
};

void AppendChanged(const CaseTables& tables, char32_t character, std::string* text) {
  const auto special = std::lower_bound(
      tables.texts.begin(), tables.texts.end(), character,
      [](const CaseText& entry, char32_t wanted) { return entry.character < wanted; });
  if (special != tables.texts.end() && special->character == character) {
    text->append(special->text);
    return;
  }
  const auto run =
      std::lower_bound(tables.runs.begin(), tables.runs.end(), character,
                       [](const CaseRun& entry, char32_t wanted) { return entry.last < wanted; });
  if (run != tables.runs.end() && character >= run->first &&
      (character - run->first) % run->step == 0) {
    character = static_cast<char32_t>(static_cast<int64_t>(character) + run->difference);
  }
  AppendUtf8(character, text);
}

bool IsIn(absl::Span<const CharacterRange> ranges, char32_t character) {
  const auto range = std::lower_bound(
      ranges.begin(), ranges.end(), character,
      [](const CharacterRange& entry, char32_t wanted) { return entry.last < wanted; });
  return range != ranges.end() && character >= range->first;
}

// Whether `text` begins with a cased letter, but for what case ignores.
bool CasedFollows(absl::string_view text) {
  while (!text.empty()) {
    const DecodedCharacter next = DecodeUtf8(text);
    if (!IsIn({kIgnoredByCase, kIgnoredByCaseSize}, next.value)) {
      return IsIn({kCased, kCasedSize}, next.value);
    }
    text.remove_prefix(next.bytes);
  }
  return false;
}

}  // namespace

DecodedCharacter DecodeUtf8(absl::string_view text) {
  DecodedCharacter decoded;
  decoded.bytes = Utf8CharacterBytes(text);
  decoded.is_valid = decoded.bytes > 0;
  const uint8_t first = ByteAt(text, 0);
  switch (decoded.bytes) {
    case 0:
      decoded.bytes = MaximalSubpart(text);
      return decoded;
    case 1:
      decoded.value = first;
      return decoded;
    case 2:
      decoded.value = first & 0x1fu;
      break;
    case 3:
      decoded.value = first & 0x0fu;
      break;
    default:
      decoded.value = first & 0x07u;
      break;
  }
  for (size_t i = 1; i < decoded.bytes; ++i) {
    decoded.value = (decoded.value << 6) | (ByteAt(text, i) & 0x3fu);
  }
  return decoded;
}

void AppendUtf8(char32_t character, std::string* text) {
  const auto append = [text](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  const auto trailing = [&](int shift) { append(0x80u | ((character >> shift) & 0x3fu)); };
  if (character < 0x80) {
    append(character);
  } else if (character < 0x800) {
    append(0xc0u | (character >> 6));
    trailing(0);
  } else if (character < 0x10000) {
    append(0xe0u | (character >> 12));
    trailing(6);
    trailing(0);
  } else {
    append(0xf0u | (character >> 18));
    trailing(12);
    trailing(6);
    trailing(0);
  }
}

size_t NextCharacter(absl::string_view text, size_t position) {
  if (position < text.size()) ++position;
  while (position < text.size() && IsTrailingByte(text[position])) ++position;
  return position;
}

size_t CharacterBefore(absl::string_view text, size_t position) {
  --position;
  while (position > 0 && IsTrailingByte(text[position])) --position;
  return position;
}

size_t CountCharacters(absl::string_view text) {
  const auto count =
      std::count_if(text.begin(), text.end(), [](char byte) { return !IsTrailingByte(byte); });
  return static_cast<size_t>(count);
}

std::string Utf8Lower(absl::string_view text) {
  constexpr char32_t kSigma = 0x3a3;
  constexpr char32_t kFinalSigma = 0x3c2;
  const CaseTables tables{{kLowerRuns, kLowerRunsSize}, {kLowerTexts, kLowerTextsSize}};
  std::string lower;
  lower.reserve(text.size());
  bool after_cased = false;
  while (!text.empty()) {
    const DecodedCharacter next = DecodeUtf8(text);
    text.remove_prefix(next.bytes);
    if (next.value == kSigma && after_cased && !CasedFollows(text)) {
      AppendUtf8(kFinalSigma, &lower);
    } else {
      AppendChanged(tables, next.value, &lower);
    }
    if (!IsIn({kIgnoredByCase, kIgnoredByCaseSize}, next.value)) {
      after_cased = IsIn({kCased, kCasedSize}, next.value);
    }
  }
  return lower;
}

std::string Utf8Upper(absl::string_view text) {
  const CaseTables tables{{kUpperRuns, kUpperRunsSize}, {kUpperTexts, kUpperTextsSize}};
  std::string upper;
  upper.reserve(text.size());
  while (!text.empty()) {
    const DecodedCharacter next = DecodeUtf8(text);
    text.remove_prefix(next.bytes);
    AppendChanged(tables, next.value, &upper);
  }
  return upper;
}

}  // namespace tandem::strings
