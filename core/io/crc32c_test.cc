#include "core/io/crc32c.h"

#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace tandem {
namespace {

// One bit at a time, from the definition.
uint32_t SlowCrc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

std::string RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

TEST(Crc32c, GivesTheKnownValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32c, MaskingIsThatOfRecordFilesAndIsUndone) {
  EXPECT_EQ(MaskCrc32c(0xe3069283u), 0xc78ab0e5u);
  EXPECT_EQ(MaskCrc32c(0), 0xa282ead8u);
  for (const uint32_t crc : {0u, 1u, 0x80000000u, 0xffffffffu, 0xe3069283u}) {
    EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(crc)), crc);
  }
}

TEST(Crc32c, EveryLengthAndAlignmentMatchesTheDefinition) {
  const std::string bytes = RandomBytes(10000, 1);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (const size_t size : {0, 1, 7, 8, 9, 63, 255, 1024, 3071, 3072, 3073, 6144, 9991}) {
      const absl::string_view piece = absl::string_view(bytes).substr(begin, size);
      const uint32_t expected = SlowCrc32c(piece);
      EXPECT_EQ(Crc32c(piece), expected) << begin << " " << size;
      EXPECT_EQ(internal::ExtendCrc32cByTable(0, piece.data(), piece.size()), expected)
          << begin << " " << size;
    }
  }
}

TEST(Crc32c, ExtendingAndCombiningEqualTheSumOfTheWhole) {
  const std::string bytes = RandomBytes(20000, 2);
  const absl::string_view whole = bytes;
  for (const size_t cut : {0, 1, 8, 1000, 4096, 12345, 20000}) {
    const absl::string_view a = whole.substr(0, cut);
    const absl::string_view b = whole.substr(cut);
    EXPECT_EQ(ExtendCrc32c(Crc32c(a), b), Crc32c(whole)) << cut;
    EXPECT_EQ(CombineCrc32c(Crc32c(a), Crc32c(b), b.size()), Crc32c(whole)) << cut;
  }
}

TEST(Crc32c, CombinesLengthsBeyond32Bits) {
  // Zeros appended in two steps and in one.
  const uint32_t crc = Crc32c("abc");
  const uint64_t size = uint64_t{3} << 33;
  const uint32_t half = CombineCrc32c(crc, 0, size / 2);
  EXPECT_EQ(CombineCrc32c(half, 0, size / 2), CombineCrc32c(crc, 0, size));
}

}  // namespace
}  // namespace tandem
