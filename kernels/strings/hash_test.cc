// The hashes against published values; those of TensorFlow's ops are in tests/golden.
#include "kernels/strings/hash.h"

#include <string>

#include "gtest/gtest.h"

namespace tandem::strings {
namespace {

// The key and the messages of the paper's appendix: bytes that count up.
std::string CountingBytes(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

TEST(SipHash, AgreesWithThePaper) {
  const std::array<uint64_t, 2> key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(SipHash("", key), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(SipHash(CountingBytes(15), key), 0xa129ca6149be45e5u);
}

TEST(SipHash, DependsOnKeyAndLength) {
  EXPECT_NE(SipHash("a", {1, 2}), SipHash("a", {2, 1}));
  EXPECT_NE(SipHash(std::string(1, '\0'), {1, 2}), SipHash(std::string(2, '\0'), {1, 2}));
}

TEST(MurmurHash64, DependsOnSeedAndEveryByte) {
  EXPECT_NE(MurmurHash64("", 1), MurmurHash64("", 2));
  std::string text = CountingBytes(19);
  const uint64_t before = MurmurHash64(text, 7);
  for (char& byte : text) {
    byte = static_cast<char>(byte ^ 0x40);
    EXPECT_NE(MurmurHash64(text, 7), before);
    byte = static_cast<char>(byte ^ 0x40);
  }
  EXPECT_EQ(MurmurHash64(text, 7), before);
}

}  // namespace
}  // namespace tandem::strings
