#include "core/io/coding.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(Coding, FixedNumbersAreLittleEndian) {
  std::string bytes;
  AppendFixed32(0x01020304, &bytes);
  AppendFixed64(0x05060708090a0b0c, &bytes);
  EXPECT_EQ(bytes, std::string("\4\3\2\1\xc\xb\xa\x9\x8\x7\x6\x5"));
  Decoder decoder(bytes);
  uint32_t narrow = 0;
  uint64_t wide = 0;
  EXPECT_TRUE(decoder.ReadFixed32(&narrow));
  EXPECT_TRUE(decoder.ReadFixed64(&wide));
  EXPECT_EQ(narrow, 0x01020304u);
  EXPECT_EQ(wide, 0x05060708090a0b0cu);
  EXPECT_TRUE(decoder.empty());
}

TEST(Coding, VarintsComeBackAtEveryWidth) {
  std::string bytes;
  AppendVarint64(300, &bytes);
  EXPECT_EQ(bytes, "\xac\x02");
  for (int bits = 0; bits <= 64; ++bits) {
    const uint64_t value =
        bits == 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << bits) - 1;
    std::string encoded;
    AppendVarint64(value, &encoded);
    uint64_t decoded = ~value;
    Decoder decoder(encoded);
    ASSERT_TRUE(decoder.ReadVarint64(&decoded)) << bits;
    EXPECT_EQ(decoded, value);
    EXPECT_TRUE(decoder.empty());
    for (size_t size = 0; size < encoded.size(); ++size) {
      Decoder cut(absl::string_view(encoded).substr(0, size));
      EXPECT_FALSE(cut.ReadVarint64(&decoded)) << bits << " " << size;
      EXPECT_EQ(cut.rest().size(), size);
    }
    uint32_t narrow = 0;
    Decoder again(encoded);
    EXPECT_EQ(again.ReadVarint32(&narrow), bits <= 32) << bits;
  }
}

TEST(Coding, VarintsBeyond64BitsAreRefused) {
  uint64_t value = 0;
  EXPECT_FALSE(Decoder(std::string(9, '\xff') + "\x02").ReadVarint64(&value));
  EXPECT_FALSE(Decoder(std::string(11, '\xff')).ReadVarint64(&value));
}

TEST(Coding, ReadsDoNotPassTheEnd) {
  uint32_t narrow = 0;
  uint64_t wide = 0;
  absl::string_view bytes;
  Decoder decoder("abc");
  EXPECT_FALSE(decoder.ReadFixed32(&narrow));
  EXPECT_FALSE(decoder.ReadFixed64(&wide));
  EXPECT_FALSE(decoder.ReadBytes(4, &bytes));
  EXPECT_FALSE(decoder.ReadBytes(std::numeric_limits<uint64_t>::max(), &bytes));
  EXPECT_TRUE(decoder.ReadBytes(2, &bytes));
  EXPECT_EQ(bytes, "ab");
  EXPECT_EQ(decoder.rest(), "c");
}

}  // namespace
}  // namespace tandem
