#include "core/tensor/shape.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kUnknown = PartialShape::kUnknownDim;

void ExpectInvalid(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape({2, 3}).num_elements(), 6);
  EXPECT_EQ(Shape({2, 0, 3}).num_elements(), 0);
  EXPECT_TRUE(Shape().IsScalar());
  EXPECT_TRUE(Shape({1}).IsVector());
  EXPECT_TRUE(Shape({1, 1}).IsMatrix());
}

TEST(Shape, ChangesOfDimensionsKeepTheCount) {
  Shape shape({2, 3});
  shape.AddDim(4);
  EXPECT_EQ(shape.num_elements(), 24);
  shape.SetDim(0, 0);
  EXPECT_EQ(shape.num_elements(), 0);
  shape.SetDim(0, 5);
  EXPECT_EQ(shape.num_elements(), 60);
  shape.RemoveDim(1);
  EXPECT_EQ(shape, Shape({5, 4}));
  EXPECT_EQ(shape.num_elements(), 20);
}

TEST(Shape, PrintsItsSizes) {
  EXPECT_EQ(Shape().DebugString(), "[]");
  EXPECT_EQ(Shape({2, 0}).DebugString(), "[2,0]");
}

TEST(Shape, RefusesWhatIsNone) {
  ExpectInvalid(Shape::FromDims({2, -3}).status(), "-3");
  ExpectInvalid(Shape::FromDims({kMax, 2}).status(), "[9223372036854775807,2]");
  ExpectInvalid(Shape::FromDims({int64_t{1} << 32, int64_t{1} << 31}).status(), "64 bits");
  ExpectInvalid(Shape::FromDims(std::vector<int64_t>(255, 1)).status(), "255 dimensions");
  EXPECT_TRUE(Shape::FromDims(std::vector<int64_t>(254, 1)).ok());
  EXPECT_EQ(Shape::FromDims({kMax, 1})->num_elements(), kMax);
}

// Kernels multiply some of the sizes: these must not overflow even if nothing is in the tensor.
TEST(Shape, RefusesAnEmptyShapeWhoseOtherSizesOverflow) {
  ExpectInvalid(Shape::FromDims({0, kMax, kMax}).status(), "64 bits");
  ExpectInvalid(Shape::FromDims({kMax, kMax, 0}).status(), "64 bits");
  EXPECT_EQ(Shape::FromDims({0, kMax})->num_elements(), 0);
}

TEST(PartialShape, KnowsWhatItDoesNotKnow) {
  EXPECT_FALSE(PartialShape().has_rank());
  EXPECT_FALSE(PartialShape().IsFullyDefined());
  EXPECT_FALSE(PartialShape({2, kUnknown}).IsFullyDefined());
  EXPECT_TRUE(PartialShape(Shape()).IsFullyDefined());
  EXPECT_NE(PartialShape(), PartialShape(Shape())) << "an unknown rank is not a scalar";
  EXPECT_EQ(PartialShape::UnknownOfRank(2), PartialShape({kUnknown, kUnknown}));
  EXPECT_EQ(PartialShape().DebugString(), "<unknown>");
  EXPECT_EQ(PartialShape({kUnknown, 3}).DebugString(), "[?,3]");
}

TEST(PartialShape, RefusesWhatIsNone) {
  ExpectInvalid(PartialShape::FromDims({-2}).status(), "-2");
  ExpectInvalid(PartialShape::FromDims({kMax, kUnknown, 2}).status(), "[9223372036854775807,?,2]");
  ExpectInvalid(PartialShape::FromDims(std::vector<int64_t>(255, kUnknown)).status(), "255");
}

TEST(PartialShape, BecomesAShapeOnceAllIsKnown) {
  EXPECT_EQ(*PartialShape({2, 3}).ToShape(), Shape({2, 3}));
  ExpectInvalid(PartialShape({2, kUnknown}).ToShape().status(), "[2,?]");
  ExpectInvalid(PartialShape().ToShape().status(), "<unknown>");
}

TEST(PartialShape, IsCompatibleWithWhatATensorCouldAlsoHave) {
  EXPECT_TRUE(PartialShape().IsCompatibleWith({2, 3}));
  EXPECT_TRUE(PartialShape({2, 3}).IsCompatibleWith(PartialShape()));
  EXPECT_TRUE(PartialShape({2, kUnknown}).IsCompatibleWith({kUnknown, 3}));
  EXPECT_FALSE(PartialShape({2, kUnknown}).IsCompatibleWith({3, kUnknown}));
  EXPECT_FALSE(PartialShape({2}).IsCompatibleWith({2, kUnknown}));
}

TEST(PartialShape, MergesToWhatBothSay) {
  EXPECT_EQ(*PartialShape({2, kUnknown}).MergeWith({kUnknown, 3}), PartialShape({2, 3}));
  EXPECT_EQ(*PartialShape().MergeWith({2, kUnknown}), PartialShape({2, kUnknown}));
  EXPECT_EQ(*PartialShape({2, kUnknown}).MergeWith(PartialShape()), PartialShape({2, kUnknown}));
  ExpectInvalid(PartialShape({2}).MergeWith({3}).status(), "[2] and [3]");
}

}  // namespace
}  // namespace tandem
