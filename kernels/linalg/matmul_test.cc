#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Matrix(int64_t rows, int64_t columns, std::initializer_list<float> values) {
  return Tensor::FromValues<float>({rows, columns}, values);
}

TEST(MatMul, MultipliesWithEitherSideTransposed) {
  const Tensor a = Matrix(2, 3, {1, 2, 3, 4, 5, 6});
  const Tensor b = Matrix(3, 1, {1, 0, -1});
  auto y = RunOp("MatMul", {a, b});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].Elements<float>(), ElementsAre(-2, -2));
  y = RunOp("MatMul", {b, a}, {{"transpose_a", true}, {"transpose_b", true}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].shape(), Shape({1, 2}));
  EXPECT_THAT((*y)[0].Elements<float>(), ElementsAre(-2, -2));
}

TEST(MatMul, RefusesMatricesThatDoNotFitBeforeAndWhenItRuns) {
  const Tensor a = Matrix(2, 3, {1, 2, 3, 4, 5, 6});
  for (const bool constant : {true, false}) {
    const auto y = RunOp("MatMul", {a, a}, {}, constant);
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(y.status().message()), HasSubstr("3 and 2"));
    EXPECT_EQ(RunOp("MatMul", {a, Tensor::Vector<float>({1, 2, 3})}, {}, constant).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(BatchMatMulV2, BroadcastsBatchesOnBothSides) {
  const Tensor x = Tensor::FromValues<float>({2, 1, 1, 2}, {1, 2, 3, 4});
  const Tensor y = Tensor::FromValues<float>({3, 2, 1}, {1, 0, 0, 1, 1, 1});
  const auto z = RunOp("BatchMatMulV2", {x, y});
  ASSERT_TRUE(z.ok()) << z.status();
  EXPECT_EQ((*z)[0].shape(), Shape({2, 3, 1, 1}));
  EXPECT_THAT((*z)[0].Elements<float>(), ElementsAre(1, 2, 3, 3, 4, 7));
}

TEST(BatchMatMulV2, ManyMatricesByOneAreTheSameAsOneByOne) {
  const Tensor x = Tensor::FromValues<float>({3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor y = Matrix(2, 2, {1, 1, 0, 2});
  const auto z = RunOp("BatchMatMulV2", {x, y});
  ASSERT_TRUE(z.ok()) << z.status();
  for (int64_t i = 0; i < 3; ++i) {
    const auto one = RunOp("BatchMatMulV2", {x.Slice(i, i + 1), y});
    ASSERT_TRUE(one.ok()) << one.status();
    const auto part = (*z)[0].Slice(i, i + 1);
    EXPECT_EQ(part.Elements<float>(), (*one)[0].Elements<float>());
  }
}

TEST(BatchMatMul, DoesNotBroadcast) {
  const Tensor x = Tensor::FromValues<float>({2, 1, 1}, {1, 2});
  const Tensor y = Tensor::FromValues<float>({1, 1, 1}, {1});
  for (const bool constant : {true, false}) {
    EXPECT_EQ(RunOp("BatchMatMul", {x, y}, {}, constant).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(BatchMatMulV3, MultipliesEightBitNumbersExactly) {
  const Tensor x = Tensor::FromValues<int8_t>({1, 2}, {-128, 127});
  const Tensor y = Tensor::FromValues<uint8_t>({2, 1}, {255, 255});
  const auto z = RunOp("BatchMatMulV3", {x, y}, {{"Tout", kInt32}});
  ASSERT_TRUE(z.ok()) << z.status();
  EXPECT_THAT((*z)[0].Elements<int32_t>(), ElementsAre(-255));
}

}  // namespace
}  // namespace tandem::testing
