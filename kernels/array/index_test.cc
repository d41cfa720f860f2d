// Elements by index, and indices of elements. Values over all types are compared with TensorFlow's
// in tests/golden.
#include <cmath>
#include <limits>

#include "kernels/array/array_test.h"

namespace tandem::array {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Gather, RowsOfEveryWidth) {
  for (const int64_t width : {1, 2, 3, 4, 5, 16, 100}) {
    const Tensor params = Counting({50, width});
    Tensor indices(kInt64, Shape({1500}));  // More than one block of indices.
    for (size_t i = 0; i < 1500; ++i) indices.MutableElements<int64_t>()[i] = (i * 7) % 50;
    const Tensor y = Evaluate("Gather", {params, indices})[0];
    for (int64_t i = 0; i < 1500; ++i) {
      ASSERT_EQ(y.Elements<float>()[static_cast<size_t>(i * width + width - 1)],
                static_cast<float>((i * 7) % 50 * width + width - 1));
    }
  }
}

TEST(Gather, NamesTheIndexThatIsOutOfRange) {
  const absl::Status status = Failure("Gather", {Counting({4, 3}), Ints32({0, 4})});
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("index 4 (number 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("[0, 4)"));
}

TEST(GatherV2, InnerAxisWithBatches) {
  const Tensor indices = Tensor::FromValues<int32_t>({2, 2}, {1, 0, 2, 2});
  EXPECT_EQ(Text(Evaluate("GatherV2", {Counting({2, 3}), indices, Tensor::Scalar<int32_t>(1)},
                          {{"batch_dims", 1}})[0]),
            "[2,2] | 1 0 5 5");
  EXPECT_EQ(Text(Evaluate("GatherV2",
                          {Counting({2, 3}), Ints32({2, 0}), Tensor::Scalar<int32_t>(-1)})[0]),
            "[2,2] | 2 0 5 3");
}

TEST(ScatterNd, AddsWhatGoesToOnePlace) {
  const Tensor indices = Tensor::FromValues<int32_t>({3, 1}, {2, 0, 2});
  EXPECT_EQ(Text(Evaluate("ScatterNd", {indices, Counting({3, 2}), Ints32({4, 2})})[0]),
            "[4,2] | 2 3 0 0 4 6 0 0");
}

TEST(ScatterNd, WideSlicesInManyBlocks) {
  const Tensor indices = Tensor::FromValues<int32_t>({2, 1}, {1, 1});
  const Tensor y = Evaluate("ScatterNd", {indices, Counting({2, 3000}), Ints32({3, 3000})})[0];
  for (size_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(y.Elements<float>()[3000 + i], static_cast<float>(2 * i + 3000));
    ASSERT_EQ(y.Elements<float>()[i], 0);
  }
}

TEST(GatherNd, FindsTheFirstBadTupleWhateverTheBlock) {
  Tensor indices = Tensor::Zeros(kInt32, {2000, 2});
  indices.MutableElements<int32_t>()[2 * 1300 + 1] = 9;
  const absl::Status status = Failure("GatherNd", {Counting({2, 3}), indices});
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("index [0,9] (number 1300"));
}

TEST(Dynamic, PartitionAndStitchAreInverse) {
  const Tensor data = Counting({4, 2});
  const Tensor partitions = Ints32({1, 0, 1, 1});
  const Tensors parts = Evaluate("DynamicPartition", {data, partitions}, {{"num_partitions", 3}});
  EXPECT_EQ(Text(parts[0]), "[1,2] | 2 3");
  EXPECT_EQ(Text(parts[1]), "[3,2] | 0 1 4 5 6 7");
  EXPECT_EQ(Text(parts[2]), "[0,2] |");
  const Tensor merged = Evaluate(
      "DynamicStitch", {Ints32({1}), Ints32({0, 2, 3}), parts[0], parts[1]}, {{"N", 2}})[0];
  EXPECT_EQ(Text(merged), Text(data));
}

TEST(DynamicStitch, RowsThatNobodyNamesAreZero) {
  EXPECT_EQ(Text(Evaluate("DynamicStitch", {Ints32({3, 1}), Counting({2, 1})}, {{"N", 1}})[0]),
            "[4,1] | 0 1 0 0");
  EXPECT_EQ(Text(Evaluate("DynamicStitch", {Ints32({1, 1}), Counting({2})}, {{"N", 1}})[0]),
            "[2] | 0 1");
}

TEST(OneHot, InTheMiddle) {
  const Tensor indices = Tensor::FromValues<int32_t>({1, 2}, {2, 5});
  EXPECT_EQ(
      Text(Evaluate("OneHot",
                    {indices, Tensor::Scalar<int32_t>(3), Tensor::Scalar(1.f), Tensor::Scalar(0.f)},
                    {{"axis", 1}})[0]),
      "[1,3,2] | 0 0 0 0 1 0");
}

TEST(Where, PositionsOfWhatIsNotZero) {
  const Tensor x = Tensor::FromValues<float>({2, 2}, {0, NAN, -0.0f, 3});
  EXPECT_EQ(Text(Evaluate("Where", {x})[0]), "[2,2] | 0 1 1 1");
}

TEST(Unique, ZerosAreEqualAndNansAreNot) {
  const Tensors y = Evaluate("Unique", {Tensor::Vector<float>({0.f, NAN, -0.f, NAN, 0.f})});
  EXPECT_EQ(y[0].shape(), Shape({3}));
  EXPECT_EQ(Text(y[1]), "[5] | 0 1 0 2 0");
}

TEST(TopK, OfEqualOnesTheLowerIndexFirst) {
  for (const int32_t k : {1, 2, 5}) {
    Tensor x(kFloat32, Shape({1, 200}));
    for (size_t i = 0; i < 200; ++i) x.MutableElements<float>()[i] = static_cast<float>(i % 50);
    const Tensors y = Evaluate("TopKV2", {x, Tensor::Scalar(k)});
    for (int32_t i = 0; i < k; ++i) {
      EXPECT_EQ(y[1].Elements<int32_t>()[static_cast<size_t>(i)], i < 4 ? 49 + 50 * i : 48);
    }
  }
}

TEST(TopK, NegativeNumbersAndSixtyFourBits) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  const Tensors y =
      Evaluate("TopKV2", {Tensor::Vector<int64_t>({-1, least, 5, -3}), Tensor::Scalar<int32_t>(3)});
  EXPECT_EQ(Text(y[0]), "[3] | 5 -1 -3");
  const Tensors z = Evaluate("TopKV2", {Tensor::Vector<double>({-1.5, -INFINITY, 0.5, -0.25}),
                                        Tensor::Scalar<int32_t>(4)});
  EXPECT_EQ(Text(z[1]), "[4] | 2 3 0 1");
}

TEST(InvertPermutation, NamesBothPlacesOfADouble) {
  const absl::Status status =
      tandem::testing::RunOp("InvertPermutation", {Ints32({0, 1, 0})}).status();
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("x[2] is 0, and so is x[0]"));
}

}  // namespace
}  // namespace tandem::array
