// Ops on text where the cases of tests/golden do not reach: limits, messages, and shapes that are
// known before a run.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::strings {
namespace {

using ::tandem::testing::RunOp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Words(std::initializer_list<std::string> words) {
  return Tensor::Vector<std::string>(words);
}

absl::Status Error(const std::string& op, std::vector<Tensor> inputs, AttrMap attrs = {}) {
  return RunOp(op, std::move(inputs), std::move(attrs)).status();
}

TEST(AsString, RefusesWidthsThatTakeAllMemory) {
  const absl::Status status =
      Error("AsString", {Tensor::Vector<int32_t>({1, 2})}, {{"width", int64_t{2'000'000'000}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("2000000000"));
}

TEST(AsString, WritesLongTexts) {
  const auto text = RunOp("AsString", {Tensor::Scalar<double>(1)}, {{"precision", 100}});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ((*text)[0].ScalarValue<std::string>(), "1." + std::string(100, '0'));
}

TEST(StringToNumber, SaysWhichElementIsNone) {
  const absl::Status status =
      Error("StringToNumber", {Words({"1", "two"})}, {{"out_type", kInt32}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("element 1, \"two\""));
}

TEST(Substr, BroadcastsOverAnyNumberOfDimensions) {
  const auto parts = RunOp("Substr", {Tensor::FromValues<std::string>({1, 1, 2}, {"ab", "cd"}),
                                      Tensor::FromValues<int32_t>({1, 2, 1}, {0, 1}),
                                      Tensor::FromValues<int32_t>({1, 2, 1}, {1, 1})});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ((*parts)[0].shape(), Shape({1, 2, 2}));
  EXPECT_THAT((*parts)[0].Elements<std::string>(), ElementsAre("a", "c", "b", "d"));
}

TEST(Substr, SurvivesTheLargestNumbers) {
  for (const char* unit : {"BYTE", "UTF8_CHAR"}) {
    EXPECT_EQ(Error("Substr",
                    {Words({"abc"}), Tensor::Scalar<int64_t>(INT64_MIN),
                     Tensor::Scalar<int64_t>(INT64_MAX)},
                    {{"unit", unit}})
                  .code(),
              absl::StatusCode::kInvalidArgument);
    const auto parts = RunOp(
        "Substr", {Words({"abc"}), Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(INT64_MAX)},
        {{"unit", unit}});
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_THAT((*parts)[0].Elements<std::string>(), ElementsAre("bc"));
  }
}

TEST(UnsortedSegmentJoin, RefusesNumbersThatTakeAllMemory) {
  const absl::Status status = Error(
      "UnsortedSegmentJoin",
      {Words({"a"}), Tensor::Vector<int64_t>({0}), Tensor::Scalar<int64_t>(int64_t{1} << 50)});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(RegexReplace, SaysWhatIsWrongWithThePattern) {
  const absl::Status status =
      Error("RegexReplace",
            {Words({"a"}), Tensor::Scalar<std::string>("a)"), Tensor::Scalar<std::string>("")});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("\"a)\""));
}

TEST(StringNGrams, RefusesWidthsThatTakeAllMemory) {
  const absl::Status status = Error("StringNGrams", {Words({"a"}), Tensor::Vector<int64_t>({0, 1})},
                                    {{"separator", ""},
                                     {"ngram_widths", std::vector<int64_t>{int64_t{1} << 40}},
                                     {"left_pad", "x"},
                                     {"right_pad", "x"},
                                     {"pad_width", -1},
                                     {"preserve_short_sequences", false}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::strings
