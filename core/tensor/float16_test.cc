#include "core/tensor/float16.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace tandem {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// What binary16 means, from its definition.
double ValueOfHalf(int bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}
bool IsHalfNan(int bits) { return (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0; }

TEST(Float16, EveryPatternBecomesItsValueAndComesBack) {
  for (int i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = static_cast<float>(Float16::FromBits(bits));
    const float reference = float16_internal::HalfBitsToFloat(bits);
    ASSERT_EQ(BitsOf(value), BitsOf(reference)) << i;
    if (IsHalfNan(i)) {
      ASSERT_TRUE(std::isnan(value)) << i;
      // Quiet, with sign and payload.
      ASSERT_EQ(Float16(value).bits, bits | 0x200) << i;
      ASSERT_EQ(float16_internal::FloatToHalfBits(value), bits | 0x200) << i;
      continue;
    }
    if ((i & 0x7fff) == 0x7c00) {
      ASSERT_TRUE(std::isinf(value)) << i;
    } else {
      ASSERT_EQ(static_cast<double>(value), ValueOfHalf(i)) << i;
    }
    ASSERT_EQ(std::signbit(value), (i & 0x8000) != 0) << i;
    ASSERT_EQ(Float16(value).bits, bits) << i;
    ASSERT_EQ(float16_internal::FloatToHalfBits(value), bits) << i;
  }
}

void ExpectRounds(float value, int expected) {
  EXPECT_EQ(Float16(value).bits, expected) << value;
  EXPECT_EQ(float16_internal::FloatToHalfBits(value), expected) << value;
  EXPECT_EQ(Float16(-value).bits, expected | 0x8000) << value;
  EXPECT_EQ(float16_internal::FloatToHalfBits(-value), expected | 0x8000) << value;
}

TEST(Float16, RoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (int low = 0; low < 0x7c00; ++low) {
    const int high = low + 1;
    // Half of all numbers between neighbours lie on each side of the middle. Above the largest
    // finite one, infinity stands for 65536.
    const double middle = (ValueOfHalf(low) + ValueOfHalf(high)) / 2;
    const auto tie = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(tie), middle);
    ExpectRounds(tie, low % 2 == 0 ? low : high);
    ExpectRounds(std::nextafter(tie, 0.0f), low);
    ExpectRounds(std::nextafter(tie, infinity), high);
    if (HasFailure()) FAIL() << "between " << low << " and " << high;
  }
  ExpectRounds(std::numeric_limits<float>::max(), 0x7c00);
  ExpectRounds(std::numeric_limits<float>::denorm_min(), 0);
}

TEST(Float16, HardwareAndReferenceAgreeOverAllExponents) {
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 10007) {  // A prime: all low bits occur.
    const float value = FromBits(static_cast<uint32_t>(bits));
    ASSERT_EQ(Float16(value).bits, float16_internal::FloatToHalfBits(value)) << bits;
  }
}

TEST(Bfloat16, EveryPatternIsTheUpperHalfOfItsFloatAndComesBack) {
  for (int i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = static_cast<float>(Bfloat16::FromBits(bits));
    ASSERT_EQ(BitsOf(value), static_cast<uint32_t>(i) << 16);
    ASSERT_EQ(Bfloat16(value).bits, std::isnan(value) ? bits | 0x40 : bits) << i;
  }
}

TEST(Bfloat16, RoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  for (uint32_t low = 0; low < 0x7f80; ++low) {
    const uint32_t tie = low << 16 | 0x8000u;
    ASSERT_EQ(Bfloat16(FromBits(tie)).bits, low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(Bfloat16(FromBits(tie - 1)).bits, low);
    ASSERT_EQ(Bfloat16(FromBits(tie + 1)).bits, low + 1);
    ASSERT_EQ(Bfloat16(FromBits(0x80000000u | (tie + 1))).bits, 0x8000u | (low + 1));
  }
}

TEST(Bfloat16, ANanWhoseUpperHalfLooksLikeInfinityStaysANan) {
  const Bfloat16 nan(FromBits(0x7f800001u));
  EXPECT_TRUE(std::isnan(static_cast<float>(nan)));
}

TEST(Halves, CompareByValue) {
  EXPECT_TRUE(Float16(0.0f) == Float16(-0.0f));
  EXPECT_TRUE(Float16(1) != Float16(2.0));
  EXPECT_TRUE(Float16(-1) < Float16(0.5));
  const Float16 nan(std::nanf(""));
  EXPECT_FALSE(nan == nan);
  EXPECT_TRUE(Bfloat16(0.0f) == Bfloat16(-0.0f));
  EXPECT_TRUE(Bfloat16(3) == Bfloat16(3.0));
  EXPECT_TRUE(Bfloat16(-1) < Bfloat16(0.5));
}

}  // namespace
}  // namespace tandem
