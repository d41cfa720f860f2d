// Ops that share memory, tell shapes or make tensors.
#include <limits>

#include "kernels/array/array_test.h"

namespace tandem::array {
namespace {

TEST(Identity, SharesItsInputsMemory) {
  const Tensor x = Counting({2, 3});
  for (const char* op : {"Identity", "StopGradient", "PreventGradient"}) {
    EXPECT_TRUE(Evaluate(op, {x})[0].SharesBufferWith(x)) << op;
  }
  const Tensors both = Evaluate("IdentityN", {x, Tensor::Scalar<std::string>("s")});
  EXPECT_TRUE(both[0].SharesBufferWith(x));
  EXPECT_EQ(both[1].ScalarValue<std::string>(), "s");
}

TEST(Reshape, SharesMemoryAndInfersASize) {
  const Tensor x = Counting({2, 6});
  const Tensor y = Evaluate("Reshape", {x, Ints32({3, -1})})[0];
  EXPECT_TRUE(y.SharesBufferWith(x));
  EXPECT_EQ(y.shape(), Shape({3, 4}));
  EXPECT_TRUE(Evaluate("ExpandDims", {x, Tensor::Scalar<int32_t>(-1)})[0].SharesBufferWith(x));
  EXPECT_TRUE(Evaluate("Squeeze", {Counting({1, 2, 1})})[0].shape() == Shape({2}));
}

TEST(Reshape, SizesWhoseProductDoesNotFitAreRefused) {
  const int64_t large = std::numeric_limits<int64_t>::max() / 2;
  const Tensor shape = Tensor::Vector<int64_t>({large, 3, -1});
  EXPECT_EQ(Failure("Reshape", {Counting({6}), shape}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(EnsureShape, NamesBothShapes) {
  const absl::Status status =
      Failure("EnsureShape", {Counting({2, 3})}, {{"shape", PartialShape({2, 4})}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[2,3]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("[2,4]"));
}

TEST(Bitcast, SharesMemoryAndMovesTheLastDimension) {
  const Tensor x = Tensor::Vector<int64_t>({1, int64_t{1} << 32});
  const Tensor y = Evaluate("Bitcast", {x}, {{"type", kInt32}})[0];
  EXPECT_EQ(Text(y), "[2,2] | 1 0 0 1");
  EXPECT_TRUE(y.SharesBufferWith(x));
  EXPECT_EQ(Text(Evaluate("Bitcast", {y}, {{"type", kInt64}})[0]), "[2] | 1 4294967296");
}

TEST(Const, HandsOutTheSameBufferEachTime) {
  const Tensor value = Counting({3});
  const AttrMap attrs = {{"value", value}, {"dtype", kFloat32}};
  EXPECT_TRUE(Evaluate("Const", {}, attrs)[0].SharesBufferWith(value));
}

TEST(Const, ADtypeThatIsNotTheValuesIsRefused) {
  EXPECT_EQ(Failure("Const", {}, {{"value", Counting({3})}, {"dtype", kInt32}}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Placeholder, MustBeFed) {
  const absl::Status status =
      Failure("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({-1, 3})}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("must be fed a float32 tensor of shape [?,3]"));
}

TEST(Assert, HoldsInSilence) {
  EXPECT_TRUE(Evaluate("Assert", {Tensor::Scalar(true), Counting({2})}).empty());
}

TEST(Assert, FailsWithItsDataSummarized) {
  const absl::Status status =
      Failure("Assert", {Tensor::Scalar(false), Tensor::Scalar<std::string>("x is"), Counting({5})},
              {{"summarize", 2}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[x is] [float32[5] = 0 1 …]"));
}

TEST(Fill, FillsLargeTensorsAndStrings) {
  const Tensor y = Evaluate("Fill", {Ints32({300, 400}), Tensor::Scalar(2.5f)})[0];
  for (const float value : y.Elements<float>()) ASSERT_EQ(value, 2.5f);
  EXPECT_EQ(Text(Evaluate("Fill", {Ints32({2}), Tensor::Scalar<std::string>("ab")})[0]),
            "[2] | \"ab\" \"ab\"");
}

TEST(Fill, ASizeThatNoMemoryHoldsIsAnError) {
  const Tensor dims = Tensor::Vector<int64_t>({int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_EQ(Failure("Fill", {dims, Tensor::Scalar(1.f)}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ZerosAndOnes, KeepTheirInput) {
  const Tensor x = Counting({4});
  EXPECT_EQ(Text(Evaluate("ZerosLike", {x})[0]), "[4] | 0 0 0 0");
  EXPECT_EQ(Text(Evaluate("OnesLike", {x})[0]), "[4] | 1 1 1 1");
  EXPECT_EQ(Text(x), "[4] | 0 1 2 3");
}

TEST(Shape, OfScalarsAndEmptyTensors) {
  EXPECT_EQ(Text(Evaluate("Shape", {Tensor::Scalar(1.f)})[0]), "[0] |");
  EXPECT_EQ(Text(Evaluate("Shape", {Counting({0, 3})}, {{"out_type", kInt64}})[0]), "[2] | 0 3");
  EXPECT_EQ(Text(Evaluate("Size", {Counting({0, 3})})[0]), "[] | 0");
  EXPECT_EQ(Text(Evaluate("Rank", {Counting({0, 3})})[0]), "[] | 2");
}

}  // namespace
}  // namespace tandem::array
