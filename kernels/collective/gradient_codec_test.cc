#include "kernels/collective/gradient_codec.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using Floats = std::vector<float>;

GradientCodec Codec(const std::string& name) {
  const absl::StatusOr<GradientCodec> codec = GradientCodec::Parse(name);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return *codec;
}

std::vector<char> Encode(const GradientCodec& codec, const Floats& gradient, Floats& residual) {
  std::vector<char> payload(
      static_cast<size_t>(codec.PayloadBytes(static_cast<int64_t>(gradient.size()))));
  codec.Encode(gradient, absl::MakeSpan(residual), absl::MakeSpan(payload));
  return payload;
}

Floats Decode(const GradientCodec& codec, const std::vector<char>& payload, size_t size) {
  Floats sum(size, 0.0f);
  const absl::Status status = codec.DecodeAdd(payload, absl::MakeSpan(sum));
  EXPECT_TRUE(status.ok()) << status;
  return sum;
}

Floats RandomValues(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  Floats values(size);
  for (float& value : values) value = draw(random);
  return values;
}

class AnyCodec : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Codecs, AnyCodec,
                         ::testing::Values("float16", "bfloat16", "2bit", "topk:0.1"));

TEST_P(AnyCodec, LosesNothingBetweenPayloadAndResidual) {
  const GradientCodec codec = Codec(GetParam());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{3}, size_t{4}, size_t{1001}}) {
    SCOPED_TRACE(size);
    const Floats gradient = RandomValues(size, 1);
    const Floats before = RandomValues(size, 2);
    Floats residual = before;
    const Floats decoded = Decode(codec, Encode(codec, gradient, residual), size);
    for (size_t i = 0; i < size; ++i) {
      EXPECT_NEAR(decoded[i] + residual[i], gradient[i] + before[i], 1e-6);
    }
  }
}

TEST_P(AnyCodec, WhatIsSentInManyStepsIsTheirSum) {
  const GradientCodec codec = Codec(GetParam());
  constexpr size_t kSize = 200;
  constexpr int kSteps = 400;
  const Floats gradient = RandomValues(kSize, 3);
  Floats residual(kSize, 0.0f);
  Floats sum(kSize, 0.0f);
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(codec.DecodeAdd(Encode(codec, gradient, residual), absl::MakeSpan(sum)).ok());
  }
  // What is left does not grow with the steps.
  for (size_t i = 0; i < kSize; ++i) EXPECT_NEAR(sum[i] / kSteps, gradient[i], 0.2);
}

TEST_P(AnyCodec, AnElementThatIsNotFiniteIsNoticedAndForgotten) {
  const GradientCodec codec = Codec(GetParam());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Floats gradient = RandomValues(20, 4);
    gradient[7] = bad;
    Floats residual = RandomValues(20, 5);
    for (const float value : Decode(codec, Encode(codec, gradient, residual), 20)) {
      EXPECT_TRUE(std::isnan(value));
    }
    EXPECT_EQ(residual, Floats(20, 0.0f));
  }
}

TEST_P(AnyCodec, RefusesPayloadsOfAnotherSize) {
  const GradientCodec codec = Codec(GetParam());
  Floats residual(50, 0.0f);
  std::vector<char> payload = Encode(codec, RandomValues(50, 6), residual);
  payload.pop_back();
  Floats sum(50, 0.0f);
  EXPECT_EQ(codec.DecodeAdd(payload, absl::MakeSpan(sum)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(sum, Floats(50, 0.0f));
}

TEST(GradientCodec, Sizes) {
  EXPECT_EQ(Codec("float16").PayloadBytes(1000), 2000);
  EXPECT_EQ(Codec("bfloat16").PayloadBytes(1000), 2000);
  EXPECT_EQ(Codec("2bit").PayloadBytes(1000), 4 + 250);
  EXPECT_EQ(Codec("2bit").PayloadBytes(1001), 4 + 251);
  EXPECT_EQ(Codec("topk:0.01").PayloadBytes(1000), 10 * 8);
  EXPECT_EQ(Codec("topk:0.001").PayloadBytes(10), 8);
  EXPECT_EQ(Codec("topk:1").PayloadBytes(0), 0);
}

TEST(GradientCodec, TwoBitTakesTheMeanOfTheLargeOnes) {
  // Elements beyond half the largest count, which is less than 1.25 times the root of 16/3.
  Floats residual(6, 0.0f);
  const GradientCodec codec = Codec("2bit");
  const Floats gradient = {4, -2, 1, -1, 3, -1};
  const Floats decoded = Decode(codec, Encode(codec, gradient, residual), 6);
  EXPECT_EQ(decoded, Floats({3.5, 0, 0, 0, 3.5, 0}));
  EXPECT_EQ(residual, Floats({0.5, -2, 1, -1, -0.5, -1}));
  // Equal magnitudes all count; zeros never.
  Floats none(2, 0.0f);
  EXPECT_EQ(Decode(codec, Encode(codec, {-5, 5}, none), 2), Floats({-5, 5}));
  EXPECT_EQ(Decode(codec, Encode(codec, {0, 0}, none), 2), Floats({0, 0}));
}

TEST(GradientCodec, TopKTakesTheLargestAndOfEqualOnesTheFirst) {
  Floats residual(5, 0.0f);
  const GradientCodec codec = Codec("topk:0.4");
  EXPECT_EQ(Decode(codec, Encode(codec, {1, -3, 2, -2, 0}, residual), 5), Floats({0, -3, 2, 0, 0}));
  EXPECT_EQ(residual, Floats({1, 0, 0, -2, 0}));
}

TEST(GradientCodec, TopKRefusesElementsThatAreNotThere) {
  const GradientCodec codec = Codec("topk:0.5");
  Floats residual(4, 0.0f);
  std::vector<char> payload = Encode(codec, {1, 2, 3, 4}, residual);
  payload[0] = 4;
  Floats sum(4, 0.0f);
  const absl::Status status = codec.DecodeAdd(payload, absl::MakeSpan(sum));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(sum, Floats(4, 0.0f));
}

TEST(GradientCodec, NamesWhatThereIs) {
  for (const char* const name : {"", "1bit", "topk", "topk:", "topk:0", "topk:1.5", "topk:x"}) {
    const auto codec = GradientCodec::Parse(name);
    EXPECT_EQ(codec.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_TRUE(absl::StrContains(codec.status().message(), "topk:0.01")) << codec.status();
  }
}

}  // namespace
}  // namespace tandem
