#include "kernels/nn/window.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<WindowAttrs> Parse(const std::string& padding, std::vector<int64_t> strides,
                                  std::vector<int64_t> dilations = {1, 1, 1, 1},
                                  std::vector<int64_t> pads = {},
                                  const std::string& format = "NHWC") {
  return WindowAttrs::Parse(format, padding, strides, &dilations, &pads,
                            absl::StatusCode::kUnimplemented);
}

TEST(Window, SamePaddingPutsTheOddElementAfter) {
  const auto attrs = Parse("SAME", {1, 2, 2, 1});
  ASSERT_TRUE(attrs.ok());
  const auto d = attrs->Along(0, 6, 3);
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(d->output, 3);
  EXPECT_EQ(d->pad_before, 0);
  EXPECT_EQ(d->pad_after, 1);
}

TEST(Window, DilationWidensTheWindow) {
  const auto attrs = Parse("VALID", {1, 1, 1, 1}, {1, 3, 1, 1});
  ASSERT_TRUE(attrs.ok());
  EXPECT_EQ(attrs->Along(0, 7, 3)->output, 1);
  EXPECT_EQ(attrs->Along(1, 7, 3)->output, 5);
  EXPECT_EQ(attrs->Along(0, 5, 3).status().code(), absl::StatusCode::kInvalidArgument);
}

// As TensorFlow's division rounds: kernels answer nothing, shape functions an error.
TEST(Window, AWindowTooLargeByLessThanAStrideHasNoOutput) {
  const auto attrs = Parse("VALID", {1, 1, 3, 1});
  ASSERT_TRUE(attrs.ok());
  EXPECT_EQ(attrs->Along(0, 4, 5)->output, 0);
  EXPECT_EQ(attrs->Along(0, 3, 5).status().code(), absl::StatusCode::kInvalidArgument);
  for (const int64_t input : {0, 1, 2, 3, 4}) EXPECT_EQ(attrs->Along(1, input, 5)->output, 0);
  EXPECT_EQ(attrs->Along(1, 5, 5)->output, 1);
  EXPECT_EQ(attrs->Along(1, 0, 6).status().code(), absl::StatusCode::kInvalidArgument);
  for (const int64_t input : {0, 4}) {
    EXPECT_EQ(attrs->OutputSize(1, input, 5).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(*attrs->OutputSize(1, 5, 5), 1);
}

TEST(Window, ReadsExplicitPaddingInEitherLayout) {
  const auto nhwc = Parse("EXPLICIT", {1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 1, 2, 3, 4, 0, 0});
  const auto nchw = Parse("EXPLICIT", {1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0, 1, 2, 3, 4}, "NCHW");
  ASSERT_TRUE(nhwc.ok());
  ASSERT_TRUE(nchw.ok());
  for (const auto& attrs : {*nhwc, *nchw}) {
    EXPECT_THAT(attrs.pads[0], ElementsAre(1, 2));
    EXPECT_THAT(attrs.pads[1], ElementsAre(3, 4));
    EXPECT_EQ(attrs.Along(1, 5, 3)->output, 10);
  }
}

TEST(Window, RefusesWhatTensorFlowRefuses) {
  EXPECT_EQ(Parse("SAME", {2, 1, 1, 1}).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Parse("SAME", {1, 0, 1, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse("SAME", {1, 1, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse("EXPLICIT", {1, 1, 1, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  const auto negative = Parse("EXPLICIT", {1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, -1, 0, 0, 0, 0, 0});
  EXPECT_EQ(negative.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(negative.status().message()), HasSubstr("-1"));
  EXPECT_EQ(ParseDataFormat("NCHW_VECT_C").status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Window, OutputSizeIsUnknownWhereItsCauseIs) {
  const auto same = Parse("SAME", {1, 2, 2, 1});
  EXPECT_EQ(*same->OutputSize(0, -1, 3), -1);
  EXPECT_EQ(*same->OutputSize(0, 5, -1), 3);  // Does not depend on the window.
  const auto valid = Parse("VALID", {1, 2, 2, 1});
  EXPECT_EQ(*valid->OutputSize(0, 5, -1), -1);
}

TEST(TransposeImages, MovesChannelsLast) {
  const int32_t from[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  int32_t to[12];
  TransposeImages(from, to, 2, 2, 3, sizeof(int32_t));
  EXPECT_THAT(to, ElementsAre(1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12));
}

}  // namespace
}  // namespace tandem
