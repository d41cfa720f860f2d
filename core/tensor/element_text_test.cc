#include "core/tensor/element_text.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(ElementText, NumbersHaveTheDigitsThatTheyNeed) {
  EXPECT_EQ(ElementText(0.1f), "0.1");
  EXPECT_EQ(ElementText(1.0f / 3), "0.33333334");
  EXPECT_EQ(ElementText(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(ElementText(16777216.0f), "16777216");
  EXPECT_EQ(ElementText(100000.0f), "100000");
  EXPECT_EQ(ElementText(123456789012345.0), "123456789012345");
  EXPECT_EQ(ElementText(1e15), "1e+15");
  EXPECT_EQ(ElementText(1e9f), "1e+09");
  EXPECT_EQ(ElementText(0.0001f), "0.0001");
  EXPECT_EQ(ElementText(0.00001), "1e-05");
  EXPECT_EQ(ElementText(-0.0f), "-0");
  EXPECT_EQ(ElementText(Float16(0.1f)), NumberText(static_cast<float>(Float16(0.1f))));
  EXPECT_EQ(ElementText(std::complex<float>(1.5f, -0.1f)), "(1.5,-0.1)");
}

TEST(ElementText, EveryFloatReadsBackExactly) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t bits = static_cast<uint32_t>(random());
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value)) continue;
    EXPECT_EQ(std::strtof(ElementText(value).c_str(), nullptr), value) << bits;
  }
  for (const double value : {5e-324, 1e23, 9007199254740993.0, 0.1 + 0.2}) {
    EXPECT_EQ(std::strtod(ElementText(value).c_str(), nullptr), value);
  }
}

TEST(ElementText, WhatIsNotFiniteHasOneSpelling) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ElementText(kNan), "nan");
  EXPECT_EQ(ElementText(-kNan), "nan");
  EXPECT_EQ(ElementText(std::numeric_limits<float>::infinity()), "inf");
  EXPECT_EQ(ElementText(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(ElementText, IntegersAreWrittenInFull) {
  EXPECT_EQ(ElementText(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(ElementText(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(ElementText(int8_t{65}), "65");
  EXPECT_EQ(ElementText(uint8_t{200}), "200");
  EXPECT_EQ(ElementText(true), "true");
}

TEST(ElementText, TensorsShowThemAll) {
  EXPECT_EQ(Tensor::FromValues<float>(Shape({2}), {1.0f / 3, 2.5e6f}).DebugString(),
            "float32[2] = 0.33333334 2500000");
  EXPECT_EQ(Tensor::Scalar<std::string>("grün").DebugString(), "string[] = \"grün\"");
}

}  // namespace
}  // namespace tandem
