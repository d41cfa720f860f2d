#include "strategies/parameter_server/join.h"

#include "gtest/gtest.h"

namespace tandem::parameter_server {
namespace {

template <typename T>
std::vector<T> Values(const absl::StatusOr<Tensor>& tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok()) return {};
  const auto elements = tensor->Elements<T>();
  return {elements.begin(), elements.end()};
}

TEST(JoinResults, JoinsByElement) {
  const std::vector<Tensor> parts = {Tensor::Vector<float>({1, 5, -2}),
                                     Tensor::Vector<float>({3, 2, -4})};
  EXPECT_EQ(Values<float>(JoinResults(Join::kSum, parts, 1)), (std::vector<float>{4, 7, -6}));
  EXPECT_EQ(Values<float>(JoinResults(Join::kSum, parts, 1.5)), (std::vector<float>{6, 10.5, -9}));
  EXPECT_EQ(Values<float>(JoinResults(Join::kMean, parts, 1.5)), (std::vector<float>{2, 3.5, -3}));
  EXPECT_EQ(Values<float>(JoinResults(Join::kMin, parts, 1.5)), (std::vector<float>{1, 2, -4}));
  EXPECT_EQ(Values<float>(JoinResults(Join::kMax, parts, 1.5)), (std::vector<float>{3, 5, -2}));
  EXPECT_EQ(Values<float>(JoinResults(Join::kProduct, parts, 1.5)), (std::vector<float>{3, 10, 8}));
}

TEST(JoinResults, ScalesWholeNumbersToTheNearest) {
  const std::vector<Tensor> parts = {Tensor::Scalar<int64_t>(5), Tensor::Scalar<int64_t>(6)};
  EXPECT_EQ(Values<int64_t>(JoinResults(Join::kSum, parts, 1.5)), std::vector<int64_t>{17});
  // One part of two that has come is scaled, too.
  EXPECT_EQ(Values<int64_t>(JoinResults(Join::kSum, {Tensor::Scalar<int64_t>(5)}, 2)),
            std::vector<int64_t>{10});
}

TEST(JoinResults, JoinsRowsOfAnyCount) {
  const std::vector<Tensor> parts = {Tensor::FromValues<int32_t>(Shape({2, 2}), {1, 2, 3, 4}),
                                     Tensor::Zeros(kInt32, Shape({0, 2})),
                                     Tensor::FromValues<int32_t>(Shape({1, 2}), {5, 6})};
  const absl::StatusOr<Tensor> joined = JoinResults(Join::kConcat, parts, 1);
  EXPECT_EQ(Values<int32_t>(joined), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(joined->shape(), Shape({3, 2}));
}

TEST(JoinResults, RefusesWhatDoesNotFit) {
  const std::vector<Tensor> shapes = {Tensor::Vector<float>({1}), Tensor::Vector<float>({1, 2})};
  EXPECT_EQ(JoinResults(Join::kSum, shapes, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(JoinResults(Join::kConcat, {Tensor::Scalar<float>(1), Tensor::Scalar<float>(2)}, 1)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckJoin(Join::kSum, kBool).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CheckJoin(Join::kConcat, kString).code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(CheckJoin(Join::kConcat, kBool).ok());
  EXPECT_FALSE(JoinResults(Join::kSum, {}, 1).ok());
}

TEST(Rows, PartsOfAllKindsMakeTheWholeAgain) {
  const Tensor whole = Tensor::FromValues<float>(Shape({5, 2}), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  struct Part {
    RowRange rows;
    int64_t count;
  };
  const std::vector<std::vector<Part>> cuts = {
      {{{0, 1}, 5}},
      {{{0, 1}, 2}, {{2, 1}, 3}},
      {{{0, 2}, 3}, {{1, 2}, 2}},
      {{{0, 3}, 2}, {{1, 3}, 2}, {{2, 3}, 1}},
      {{{0, 1}, 5}, {{5, 1}, 0}},
  };
  for (const std::vector<Part>& cut : cuts) {
    Tensor again = Tensor::Zeros(kFloat32, whole.shape());
    for (const Part& part : cut) {
      const absl::StatusOr<Tensor> rows = TakeRows(whole, part.rows, Shape({part.count, 2}));
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(rows->shape(), Shape({part.count, 2}));
      ASSERT_TRUE(PutRows(*rows, part.rows, &again).ok());
    }
    EXPECT_EQ(Values<float>(again), Values<float>(whole));
  }
}

TEST(Rows, RefusesThoseThatAreNotThere) {
  Tensor whole = Tensor::Zeros(kFloat32, Shape({5, 2}));
  EXPECT_FALSE(TakeRows(whole, {1, 2}, Shape({3, 2})).ok());
  EXPECT_FALSE(TakeRows(whole, {-1, 1}, Shape({1, 2})).ok());
  EXPECT_FALSE(TakeRows(whole, {0, 1}, Shape({1, 3})).ok());
  EXPECT_FALSE(PutRows(Tensor::Zeros(kFloat32, Shape({2, 2})), {4, 1}, &whole).ok());
  EXPECT_FALSE(PutRows(Tensor::Zeros(kFloat64, Shape({2, 2})), {0, 1}, &whole).ok());
  EXPECT_FALSE(PutRows(Tensor::Scalar<float>(1), {0, 1}, &whole).ok());
}

}  // namespace
}  // namespace tandem::parameter_server
