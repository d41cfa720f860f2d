#include "core/base/utf8.h"

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(Utf8, ACharacterHasOneToFourBytes) {
  EXPECT_EQ(Utf8CharacterBytes("a…"), 1u);
  EXPECT_EQ(Utf8CharacterBytes("ü!"), 2u);
  EXPECT_EQ(Utf8CharacterBytes("…"), 3u);
  EXPECT_EQ(Utf8CharacterBytes("\xf0\x9f\x98\x80"), 4u);
}

TEST(Utf8, OtherBytesBeginNoCharacter) {
  for (const char* text :
       {"", "\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xff"}) {
    EXPECT_EQ(Utf8CharacterBytes(text), 0u) << text;
  }
}

TEST(Utf8, TextIsQuotedAsItStands) {
  EXPECT_EQ(QuotedText("grün … 日本"), "\"grün … 日本\"");
  EXPECT_EQ(QuotedText("a\"b\\\n\x1b"), R"("a\"b\\\n\x1b")");
  EXPECT_EQ(QuotedText(""), "\"\"");
}

TEST(Utf8, BytesThatAreNoTextAreEscaped) {
  EXPECT_EQ(QuotedText("\x89PNG ü"), R"("\x89PNG \xc3\xbc")");
  EXPECT_EQ(QuotedText("\xc2\x9b"
                       "2J"),
            R"("\xc2\x9b\x32J")");
}

}  // namespace
}  // namespace tandem
