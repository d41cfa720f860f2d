#include "core/io/wav.h"

#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

int16_t SampleOf(const std::string& file, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(file[at]); };
  return static_cast<int16_t>(byte(44 + 2 * i) | byte(45 + 2 * i) << 8);
}

TEST(Wav, HasTheHeaderOfPlainSixteenBitSound) {
  const auto file = EncodeWav({0, 0.5f, -0.5f, 0, 0, 0}, /*channels=*/2, /*rate=*/8000);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string header =
      std::string("RIFF") + std::string("\x30\0\0\0", 4) + "WAVEfmt " +
      std::string("\x10\0\0\0\x01\0\x02\0\x40\x1f\0\0\0\x7d\0\0\x04\0\x10\0", 20) + "data" +
      std::string("\x0c\0\0\0", 4);
  EXPECT_EQ(file->substr(0, 44), header);
  EXPECT_EQ(file->size(), 44u + 12u);
}

TEST(Wav, SamplesAreRoundedAndCutOffAtFullScale) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> samples = {0,
                                      0.5f,
                                      -0.5f,
                                      1,
                                      -1,
                                      3,
                                      -3,
                                      infinity,
                                      -infinity,
                                      std::numeric_limits<float>::quiet_NaN(),
                                      0.6f / 32768,
                                      -0.6f / 32768};
  const auto file = EncodeWav(samples, 1, 44100);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<int16_t> expected = {0,      16384, -16384, 32767, -32768, 32767,
                                         -32768, 32767, -32768, 0,     1,      -1};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(SampleOf(*file, i), expected[i]) << i;
}

TEST(Wav, WhatNoFileCanHaveIsRefused) {
  const std::vector<float> samples(6);
  const auto code = [&](int64_t channels, int64_t rate) {
    return EncodeWav(samples, channels, rate).status().code();
  };
  EXPECT_EQ(code(3, 1), absl::StatusCode::kOk);
  EXPECT_EQ(code(4, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(0, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(1 << 16, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(1, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(1, int64_t{1} << 32), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeWav({}, 1, 1)->size(), 44u);
}

}  // namespace
}  // namespace tandem
