#include <vector>

#include "core/tensor/float16.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::state {
namespace {

using testing::RunOp;

TEST(SumDuplicates, AddsRowsInOrderOfOccurrence) {
  // 2^24 + 1 is 2^24 in float32: with another order the sum of row 5 would be another one.
  const float big = 16777216;
  const auto result =
      RunOp("_TandemSumDuplicates",
            {Tensor::FromValues<float>(Shape({5, 2}), {big, 0, 1, 2, 1, 1, 3, 4, -big, 5}),
             Tensor::Vector<int32_t>({5, 2, 5, 2, 5})});
  ASSERT_TRUE(result.ok()) << result.status();
  const Tensor& sums = (*result)[0];
  ASSERT_EQ(sums.shape(), Shape({2, 2}));
  EXPECT_EQ(sums.Elements<float>(), absl::Span<const float>({0, 6, 4, 6}));
  EXPECT_EQ((*result)[1].Elements<int32_t>(), absl::Span<const int32_t>({5, 2}));
}

TEST(SumDuplicates, PassesDistinctRowsOn) {
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{1, 4, 9}, std::vector<int64_t>{9, 1, 4}}) {
    const Tensor values = Tensor::FromValues<double>(Shape({3, 1}), {1, 2, 3});
    const auto result =
        RunOp("_TandemSumDuplicates", {values, Tensor::Vector<int64_t>(absl::MakeConstSpan(rows))});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE((*result)[0].SharesBufferWith(values));
    EXPECT_EQ((*result)[0].Elements<double>(), absl::Span<const double>({1, 2, 3}));
    EXPECT_EQ((*result)[1].Elements<int64_t>(), absl::MakeConstSpan(rows));
  }
}

TEST(SumDuplicates, RoundsSmallFloatsOnce) {
  // In float16 2048 + 1 + 1 is 2048, added one by one.
  const auto half = [](float value) { return static_cast<Float16>(value); };
  const auto result =
      RunOp("_TandemSumDuplicates",
            {Tensor::FromValues<Float16>(Shape({3}), {half(2048), half(1), half(1)}),
             Tensor::Vector<int64_t>({0, 0, 0})});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ((*result)[0].shape(), Shape({1}));
  EXPECT_EQ(static_cast<float>((*result)[0].Elements<Float16>()[0]), 2050);
}

TEST(SumDuplicates, TakesManyRowsAndNone) {
  constexpr int64_t kCount = 10000;
  Tensor values(kInt32, Shape({kCount, 3}));
  Tensor rows(kInt64, Shape({kCount}));
  for (int64_t i = 0; i < kCount; ++i) {
    rows.MutableElements<int64_t>()[static_cast<size_t>(i)] = i % 7;
    for (int64_t j = 0; j < 3; ++j) {
      values.MutableElements<int32_t>()[static_cast<size_t>(3 * i + j)] = static_cast<int>(j);
    }
  }
  const auto result = RunOp("_TandemSumDuplicates", {values, rows});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ((*result)[0].shape(), Shape({7, 3}));
  for (int64_t row = 0; row < 7; ++row) {
    const int count = static_cast<int>(kCount / 7 + (row < kCount % 7 ? 1 : 0));
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_EQ((*result)[0].Elements<int32_t>()[static_cast<size_t>(3 * row + j)],
                count * static_cast<int>(j));
    }
  }
  const auto none =
      RunOp("_TandemSumDuplicates", {Tensor(kFloat32, Shape({0, 3})), Tensor(kInt32, Shape({0}))});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ((*none)[0].shape(), Shape({0, 3}));
}

TEST(SumDuplicates, RefusesIndicesThatDoNotFit) {
  for (const bool constant : {true, false}) {
    EXPECT_EQ(RunOp("_TandemSumDuplicates",
                    {Tensor::FromValues<float>(Shape({2, 1}), {1, 2}),
                     Tensor::Vector<int32_t>({1, 2, 3})},
                    {}, constant)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(RunOp("_TandemSumDuplicates",
                    {Tensor::Scalar<float>(1), Tensor::Vector<int32_t>({1})}, {}, constant)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(RunOp("_TandemSumDuplicates",
                    {Tensor::FromValues<float>(Shape({1, 1}), {1}), Tensor::Scalar<int32_t>(1)}, {},
                    constant)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem::state
