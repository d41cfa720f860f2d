// Images against what one can work out by hand, and what is refused; values of all kinds are
// compared with TensorFlow's in tests/golden.
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Row(std::initializer_list<float> values) {
  return Tensor::FromValues<float>({1, 1, static_cast<int64_t>(values.size()), 1}, values);
}
Tensor Size(int32_t height, int32_t width) { return Tensor::Vector<int32_t>({height, width}); }

TEST(Resize, ThreeWaysToSeePixels) {
  const Tensor x = Row({0, 10});
  const auto resized = [&](const char* op, AttrMap attrs) {
    const auto y = RunOp(op, {x, Size(1, 4)}, std::move(attrs));
    EXPECT_TRUE(y.ok()) << y.status();
    const auto values = (*y)[0].Elements<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_THAT(resized("ResizeBilinear", {}), ElementsAre(0, 5, 10, 10));
  EXPECT_THAT(resized("ResizeBilinear", {{"half_pixel_centers", true}}),
              ElementsAre(0, 2.5, 7.5, 10));
  EXPECT_THAT(resized("ResizeNearestNeighbor", {}), ElementsAre(0, 0, 10, 10));
  EXPECT_THAT(resized("ResizeNearestNeighbor", {{"align_corners", true}}),
              ElementsAre(0, 0, 10, 10));
}

TEST(Resize, AnAreaIsAMean) {
  const auto y = RunOp("ResizeArea", {Row({1, 2, 3, 4, 5, 6}), Size(1, 4)});
  ASSERT_TRUE(y.ok()) << y.status();
  const auto values = (*y)[0].Elements<float>();
  ASSERT_EQ(values.size(), 4u);
  // One and a half pixels each.
  EXPECT_FLOAT_EQ(values[0], 2.0f / 1.5f);
  EXPECT_FLOAT_EQ(values[3], (0.5f * 5 + 6) / 1.5f);
}

TEST(Resize, RefusesWhatIsNoImage) {
  const Tensor x = Tensor::Zeros(kFloat32, {1, 2, 2, 1});
  for (const char* op :
       {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"}) {
    for (const auto& inputs :
         std::vector<std::vector<Tensor>>{{Tensor::Zeros(kFloat32, {2, 2, 1}), Size(2, 2)},
                                          {x, Size(0, 2)},
                                          {x, Size(2, -1)},
                                          {x, Tensor::Scalar<int32_t>(2)},
                                          {Tensor::Zeros(kFloat32, {1, 0, 2, 1}), Size(2, 2)}}) {
      EXPECT_EQ(RunOp(op, inputs).status().code(), absl::StatusCode::kInvalidArgument) << op;
    }
  }
  const auto both = RunOp("ResizeBilinear", {x, Size(2, 2)},
                          {{"align_corners", true}, {"half_pixel_centers", true}});
  EXPECT_EQ(both.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(both.status().message()), HasSubstr("half_pixel_centers"));
}

TEST(ProjectiveTransform, NumbersThatAreNoneAreOutside) {
  const Tensor x = Tensor::Zeros(kFloat32, {1, 2, 2, 1});
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f}) {
    for (const char* mode : {"CONSTANT", "REFLECT", "WRAP", "NEAREST"}) {
      for (const char* interpolation : {"NEAREST", "BILINEAR"}) {
        const Tensor transform =
            Tensor::FromValues<float>({1, 8}, {bad, bad, bad, bad, bad, bad, 0, 0});
        const auto y =
            RunOp("ImageProjectiveTransformV3", {x, transform, Size(2, 2), Tensor::Scalar(5.0f)},
                  {{"interpolation", interpolation}, {"fill_mode", mode}});
        ASSERT_TRUE(y.ok()) << y.status();
        for (const float value : (*y)[0].Elements<float>()) EXPECT_TRUE(value == 5 || value == 0);
      }
    }
  }
}

TEST(CropAndResize, BoxesThatAreNoNumbersAreOutside) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor boxes = Tensor::FromValues<float>({1, 4}, {nan, 0, nan, 1});
  const auto y = RunOp(
      "CropAndResize",
      {Tensor::Zeros(kFloat32, {1, 2, 2, 1}), boxes, Tensor::Vector<int32_t>({0}), Size(2, 2)},
      {{"extrapolation_value", 3.0f}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].Elements<float>(), Each(3));
}

TEST(Colors, GraysHaveNoHue) {
  const auto hsv = RunOp("RGBToHSV", {Tensor::FromValues<float>({2, 3}, {.5, .5, .5, 0, 1, 0})});
  ASSERT_TRUE(hsv.ok()) << hsv.status();
  EXPECT_THAT((*hsv)[0].Elements<float>(), ElementsAre(0, 0, .5, 1.0f / 3, 1, 1));
}

TEST(AdjustContrast, MovesEachChannelAwayFromItsMean) {
  const auto y = RunOp("AdjustContrastv2", {Tensor::FromValues<float>({1, 2, 2}, {1, 10, 3, 10}),
                                            Tensor::Scalar(2.0f)});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].Elements<float>(), ElementsAre(0, 10, 4, 10));
}

}  // namespace
}  // namespace tandem::testing
