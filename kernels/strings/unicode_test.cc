#include "kernels/strings/unicode.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::strings {
namespace {

TEST(DecodeUtf8, InvertsAppendUtf8) {
  for (char32_t character = 0; character <= kLastCharacter; character += 37) {
    if (character >= 0xd800 && character < 0xe000) continue;
    std::string text;
    AppendUtf8(character, &text);
    const DecodedCharacter decoded = DecodeUtf8(text + "x");
    EXPECT_TRUE(decoded.is_valid);
    EXPECT_EQ(decoded.value, character);
    EXPECT_EQ(decoded.bytes, text.size());
  }
}

TEST(DecodeUtf8, TakesTheMaximalSubpartOfWhatIsNone) {
  const auto bytes = [](const std::string& text) {
    const DecodedCharacter decoded = DecodeUtf8(text);
    EXPECT_FALSE(decoded.is_valid);
    EXPECT_EQ(decoded.value, kReplacement);
    return decoded.bytes;
  };
  EXPECT_EQ(bytes("\x80"), 1u);
  EXPECT_EQ(bytes("\xff"), 1u);
  EXPECT_EQ(bytes("\xc0\x80"), 1u);   // Overlong.
  EXPECT_EQ(bytes("\xe2\x82"), 2u);   // Cut at the end,
  EXPECT_EQ(bytes("\xe2\x82x"), 2u);  // or by another character.
  EXPECT_EQ(bytes("\xf0\x9f\x98\xe2"), 3u);
  EXPECT_EQ(bytes("\xed\xa0\x80"), 1u);      // Half of a UTF-16 pair.
  EXPECT_EQ(bytes("\xf4\x90\x80\x80"), 1u);  // Beyond Unicode.
}

TEST(Characters, AreCountedByTheBytesThatBeginOne) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("a\xc3\xa4z"), 3u);
  EXPECT_EQ(CountCharacters("\x80\x80"
                            "a"),
            1u);
}

TEST(Characters, AreFoundInBothDirections) {
  const std::string text = "a\xc3\xa4z";
  EXPECT_EQ(NextCharacter(text, 0), 1u);
  EXPECT_EQ(NextCharacter(text, 1), 3u);
  EXPECT_EQ(NextCharacter(text, 3), 4u);
  EXPECT_EQ(NextCharacter(text, 4), 4u);
  EXPECT_EQ(CharacterBefore(text, 4), 3u);
  EXPECT_EQ(CharacterBefore(text, 3), 1u);
  EXPECT_EQ(CharacterBefore(text, 1), 0u);
}

TEST(Case, FollowsUnicode) {
  EXPECT_EQ(Utf8Lower("ÄÉ ẞ"), "äé ß");
  EXPECT_EQ(Utf8Upper("straße ﬁ"), "STRASSE FI");
  EXPECT_EQ(Utf8Lower("İ"), "i\xcc\x87");
}

TEST(Case, KnowsWhereASigmaIsFinal) {
  EXPECT_EQ(Utf8Lower("ΟΔΟΣ ΣΑΣ"), "οδος σας");
  EXPECT_EQ(Utf8Lower("Σ"), "σ");
  EXPECT_EQ(Utf8Lower("ΑΣ’Α"), "ασ’α");  // An apostrophe stands within the word.
}

TEST(Case, ReplacesWhatIsNoText) {
  EXPECT_EQ(Utf8Lower("A\xff"
                      "B"),
            "a\xef\xbf\xbd"
            "b");
}

}  // namespace
}  // namespace tandem::strings
