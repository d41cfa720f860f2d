#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using Ints = std::vector<int64_t>;

AttrMap Attrs(int64_t size, int64_t stride, const char* padding, const char* format = "NHWC") {
  const bool last = std::string(format) == "NHWC";
  const Ints ksize = last ? Ints{1, size, size, 1} : Ints{1, 1, size, size};
  const Ints strides = last ? Ints{1, stride, stride, 1} : Ints{1, 1, stride, stride};
  return {{"ksize", ksize}, {"strides", strides}, {"padding", padding}, {"data_format", format}};
}

Tensor Image(int64_t height, int64_t width, std::initializer_list<float> values) {
  return Tensor::FromValues<float>({1, height, width, 1}, values);
}

TEST(MaxPool, TakesTheLargestOfEachWindow) {
  const Tensor x = Image(2, 4, {1, 5, 2, 0, 3, 4, -1, 7});
  auto y = RunOp("MaxPool", {x}, Attrs(2, 2, "VALID"));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].Elements<float>(), ElementsAre(5, 7));
  y = RunOp("MaxPool", {x}, Attrs(2, 1, "SAME"));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].Elements<float>(), ElementsAre(5, 5, 7, 7, 4, 4, 7, 7));
}

TEST(MaxPoolGrad, GivesAllToTheFirstOfEqualElements) {
  const Tensor x = Image(2, 4, {1, 1, 0, 2, 1, 1, 2, 0});
  const Tensor y = Image(1, 2, {1, 2});
  const Tensor dy = Image(1, 2, {10, 20});
  const auto dx = RunOp("MaxPoolGrad", {x, y, dy}, Attrs(2, 2, "VALID"));
  ASSERT_TRUE(dx.ok()) << dx.status();
  EXPECT_THAT((*dx)[0].Elements<float>(), ElementsAre(10, 0, 0, 20, 0, 0, 0, 0));
}

TEST(MaxPoolGrad, AddsUpWhereWindowsOverlapAndLeavesZerosBetweenThem) {
  const Tensor x = Image(1, 5, {0, 3, 1, 2, 9});
  const AttrMap overlapping = {
      {"ksize", Ints{1, 1, 3, 1}}, {"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}};
  auto dx = RunOp("MaxPoolGrad", {x, Image(1, 3, {3, 3, 9}), Image(1, 3, {1, 2, 4})}, overlapping);
  ASSERT_TRUE(dx.ok()) << dx.status();
  EXPECT_THAT((*dx)[0].Elements<float>(), ElementsAre(0, 3, 0, 0, 4));
  const Tensor square =
      Image(5, 5, {1, 2, 9, 1, 2, 4, 3, 9, 3, 4, 9, 9, 9, 9, 9, 5, 0, 9, 0, 6, 0, 0, 9, 0, 0});
  dx = RunOp("MaxPoolGrad", {square, Image(2, 2, {4, 4, 5, 6}), Image(2, 2, {1, 2, 3, 4})},
             Attrs(2, 3, "VALID"));
  ASSERT_TRUE(dx.ok()) << dx.status();
  std::vector<float> wanted(25);
  wanted[5] = 1;
  wanted[9] = 2;
  wanted[15] = 3;
  wanted[19] = 4;
  EXPECT_THAT((*dx)[0].Elements<float>(), ::testing::ElementsAreArray(wanted));
}

// Channels in numbers that fill no vector, against channels one by one.
TEST(MaxPool, ManyChannelsAreTheSameAsOneByOne) {
  constexpr int64_t kChannels = 263;
  constexpr int64_t kSize = 6;
  Tensor x(kFloat32, {1, kSize, kSize, kChannels});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.MutableElements<float>()[static_cast<size_t>(i)] = static_cast<float>(i * 7919 % 1013);
  }
  for (const auto& attrs : {Attrs(2, 2, "VALID"), Attrs(3, 2, "SAME")}) {
    const auto y = RunOp("MaxPool", {x}, attrs);
    ASSERT_TRUE(y.ok()) << y.status();
    const auto dx = RunOp("MaxPoolGrad", {x, (*y)[0], (*y)[0]}, attrs);
    ASSERT_TRUE(dx.ok()) << dx.status();
    for (const int64_t channel : {int64_t{0}, int64_t{8}, kChannels - 1}) {
      const auto pick = [&](const Tensor& from) {
        Tensor one(kFloat32, {1, from.shape().dim(1), from.shape().dim(2), 1});
        for (int64_t i = 0; i < one.num_elements(); ++i) {
          one.MutableElements<float>()[static_cast<size_t>(i)] =
              from.Elements<float>()[static_cast<size_t>(i * kChannels + channel)];
        }
        return one;
      };
      const auto y1 = RunOp("MaxPool", {pick(x)}, attrs);
      ASSERT_TRUE(y1.ok()) << y1.status();
      EXPECT_EQ((*y1)[0].Elements<float>(), pick((*y)[0]).Elements<float>());
      const auto dx1 = RunOp("MaxPoolGrad", {pick(x), (*y1)[0], (*y1)[0]}, attrs);
      ASSERT_TRUE(dx1.ok()) << dx1.status();
      EXPECT_EQ((*dx1)[0].Elements<float>(), pick((*dx)[0]).Elements<float>());
    }
  }
}

TEST(MaxPoolGradGrad, PicksTheGradientOfTheLargest) {
  const Tensor x = Image(2, 2, {1, 5, 5, 2});
  const auto y = RunOp("MaxPoolGradGrad", {x, Image(1, 1, {5}), Image(2, 2, {10, 20, 30, 40})},
                       Attrs(2, 2, "VALID"));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].Elements<float>(), ElementsAre(20));
}

TEST(MaxPool, RefusesPaddingThatFillsAWindow) {
  AttrMap attrs = Attrs(2, 1, "EXPLICIT");
  attrs["explicit_paddings"] = Ints{0, 0, 2, 0, 0, 0, 0, 0};
  EXPECT_EQ(RunOp("MaxPool", {Image(2, 2, {1, 2, 3, 4})}, attrs).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(AvgPool, DividesByTheElementsThatAWindowHas) {
  const Tensor x = Image(1, 3, {1, 2, 4});
  auto y = RunOp("AvgPool", {x}, Attrs(2, 1, "SAME"));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].Elements<float>(), ElementsAre(1.5, 3, 4));
  const auto dx =
      RunOp("AvgPoolGrad", {Tensor::Vector<int32_t>({1, 1, 3, 1}), x}, Attrs(2, 1, "SAME"));
  ASSERT_TRUE(dx.ok()) << dx.status();
  EXPECT_THAT((*dx)[0].Elements<float>(), ElementsAre(0.5, 1.5, 5));
}

TEST(AvgPoolGrad, RefusesSizesThatAreNoShape) {
  const Tensor dy = Image(1, 1, {1});
  for (const bool constant : {true, false}) {
    EXPECT_EQ(RunOp("AvgPoolGrad", {Tensor::Vector<int32_t>({1, -2, 2, 1}), dy},
                    Attrs(2, 1, "VALID"), constant)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument)
        << constant;
  }
}

// A window that is too large by one row: TensorFlow's kernels answer an empty tensor, and zeros for
// gradients.
TEST(Windows, WithoutRoomMakeEmptyImages) {
  const Tensor x = Tensor::Zeros(kFloat32, {1, 2, 4, 2});
  const Ints ones = {1, 1, 1, 1};
  const AttrMap pool = {{"ksize", Ints{1, 3, 3, 1}}, {"strides", ones}, {"padding", "VALID"}};
  const AttrMap conv = {{"strides", ones}, {"padding", "VALID"}};
  const Tensor filter = Tensor::Zeros(kFloat32, {3, 3, 2, 2});
  const Tensor empty = Tensor::Zeros(kFloat32, {1, 0, 2, 2});
  const auto shape_of = [](const char* op, std::vector<Tensor> inputs, AttrMap attrs) {
    const auto y = RunOp(op, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(y.ok()) << op << ": " << y.status();
    return y.ok() ? (*y)[0].shape() : Shape();
  };
  EXPECT_EQ(shape_of("MaxPool", {x}, pool), empty.shape());
  EXPECT_EQ(shape_of("AvgPool", {x}, pool), empty.shape());
  EXPECT_EQ(shape_of("Conv2D", {x, filter}, conv), empty.shape());
  EXPECT_EQ(shape_of("DepthwiseConv2dNative", {x, Tensor::Zeros(kFloat32, {3, 3, 2, 1})}, conv),
            empty.shape());
  EXPECT_EQ(shape_of("MaxPoolGrad", {x, empty, empty}, pool), x.shape());
  const Tensor sizes = Tensor::Vector<int32_t>({1, 2, 4, 2});
  EXPECT_EQ(shape_of("AvgPoolGrad", {sizes, empty}, pool), x.shape());
  EXPECT_EQ(shape_of("Conv2DBackpropInput", {sizes, filter, empty}, conv), x.shape());
  EXPECT_EQ(
      shape_of("Conv2DBackpropFilter", {x, Tensor::Vector<int32_t>({3, 3, 2, 2}), empty}, conv),
      filter.shape());
  const Ints five = {1, 1, 1, 1, 1};
  const Tensor volume = Tensor::Zeros(kFloat32, {1, 2, 2, 2, 1});
  EXPECT_EQ(shape_of("MaxPool3D", {volume},
                     {{"ksize", Ints{1, 3, 1, 1, 1}}, {"strides", five}, {"padding", "VALID"}}),
            Shape({1, 0, 2, 2, 1}));
  EXPECT_EQ(shape_of("Conv3D", {volume, Tensor::Zeros(kFloat32, {3, 1, 1, 1, 2})},
                     {{"strides", five}, {"padding", "VALID"}}),
            Shape({1, 0, 2, 2, 2}));
}

}  // namespace
}  // namespace tandem::testing
