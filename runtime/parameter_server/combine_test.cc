#include "runtime/parameter_server/combine.h"

#include <complex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::parameter_server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> ValuesOf(const Tensor& tensor) {
  const absl::Span<const T> elements = tensor.Elements<T>();
  return std::vector<T>(elements.begin(), elements.end());
}

template <typename T>
Tensor VectorOf(std::vector<double> values) {
  Tensor tensor(DataTypeOf<T>(), Shape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.MutableElements<T>()[i] = static_cast<T>(static_cast<float>(values[i]));
  }
  return tensor;
}

template <typename T>
std::vector<double> Doubles(const absl::StatusOr<Tensor>& tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  std::vector<double> doubles;
  if (!tensor.ok()) return doubles;
  EXPECT_EQ(tensor->dtype(), DataTypeOf<T>());
  for (const T value : tensor->Elements<T>()) {
    doubles.push_back(static_cast<double>(static_cast<float>(value)));
  }
  return doubles;
}

template <typename T>
class CombineFloats : public ::testing::Test {};
using FloatTypes = ::testing::Types<float, double, Float16, Bfloat16>;
TYPED_TEST_SUITE(CombineFloats, FloatTypes);

TYPED_TEST(CombineFloats, AddsAndScalesSums) {
  using T = TypeParam;
  EXPECT_THAT(Doubles<T>(Combine(SUM, {VectorOf<T>({1, 2}), VectorOf<T>({4, 8})}, 1)),
              ElementsAre(5, 10));
  EXPECT_THAT(Doubles<T>(Combine(SUM, {VectorOf<T>({1, 2}), VectorOf<T>({4, 8})}, 1.5)),
              ElementsAre(7.5, 15));
  EXPECT_THAT(Doubles<T>(Combine(SUM, {VectorOf<T>({1, 2})}, 2)), ElementsAre(2, 4));
}

TYPED_TEST(CombineFloats, TakesMeansWithoutScale) {
  using T = TypeParam;
  EXPECT_THAT(
      Doubles<T>(Combine(MEAN, {VectorOf<T>({1, 2}), VectorOf<T>({4, 8}), VectorOf<T>({1, 2})}, 7)),
      ElementsAre(2, 4));
}

TYPED_TEST(CombineFloats, ScalesRows) {
  using T = TypeParam;
  EXPECT_THAT(
      Doubles<T>(Combine(CONCAT, {VectorOf<T>({1, 2}), VectorOf<T>({}), VectorOf<T>({4})}, 0.5)),
      ElementsAre(0.5, 1, 2));
  EXPECT_THAT(Doubles<T>(Combine(FIRST, {VectorOf<T>({3}), VectorOf<T>({4})}, 0.5)),
              ElementsAre(3));
}

TEST(Combine, HalfFloatsAreRoundedOnce) {
  // Each 1 alone would be lost beside 2048, whose neighbour is 2050.
  std::vector<Tensor> values = {VectorOf<Float16>({2048})};
  for (int i = 0; i < 4; ++i) values.push_back(VectorOf<Float16>({1}));
  EXPECT_THAT(Doubles<Float16>(Combine(SUM, std::move(values), 1)), ElementsAre(2052));
}

TEST(Combine, IntegersAreNeverScaled) {
  const auto sum =
      Combine(SUM, {Tensor::Vector<int32_t>({1, -2}), Tensor::Vector<int32_t>({3, 4})}, 2.5);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_THAT(ValuesOf<int32_t>(*sum), ElementsAre(4, 2));
  const auto rows =
      Combine(CONCAT, {Tensor::Vector<int64_t>({5, 6}), Tensor::Vector<int64_t>({7})}, 2.5);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(ValuesOf<int64_t>(*rows), ElementsAre(5, 6, 7));
  const auto mean =
      Combine(MEAN, {Tensor::Vector<uint8_t>({250, 3}), Tensor::Vector<uint8_t>({252, 3})}, 2.5);
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_THAT(ValuesOf<uint8_t>(*mean), ElementsAre(251, 3));
}

TEST(Combine, ComplexNumbersAreScaledAsFloats) {
  using C = std::complex<float>;
  const auto sum = Combine(SUM, {Tensor::Vector<C>({C(1, 2)}), Tensor::Vector<C>({C(3, -1)})}, 2);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_THAT(ValuesOf<C>(*sum), ElementsAre(C(8, 2)));
}

TEST(Combine, TextsAreJoined) {
  const auto rows = Combine(
      CONCAT, {Tensor::Vector<std::string>({"a", "b"}), Tensor::Vector<std::string>({"c"})}, 3);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(ValuesOf<std::string>(*rows), ElementsAre("a", "b", "c"));
}

TEST(Combine, LargeValuesAreAddedInTheSameOrderEverywhere) {
  // More than a block, and a block that is not full.
  constexpr int64_t kCount = 10'007;
  std::vector<Tensor> values;
  for (int part = 0; part < 3; ++part) {
    Tensor value(kFloat32, Shape({kCount}));
    for (int64_t i = 0; i < kCount; ++i) {
      value.MutableElements<float>()[static_cast<size_t>(i)] =
          static_cast<float>(i + 1) * (part == 1   ? 1e-4f
                                       : part == 0 ? 0.3f
                                                   : -0.3f);
    }
    values.push_back(std::move(value));
  }
  const std::vector<Tensor> kept = values;  // So that nothing is written over.
  const absl::StatusOr<Tensor> sum = Combine(SUM, values, 1);
  ASSERT_TRUE(sum.ok()) << sum.status();
  for (size_t i = 0; i < kCount; ++i) {
    const float expected = (kept[0].Elements<float>()[i] + kept[1].Elements<float>()[i]) +
                           kept[2].Elements<float>()[i];
    ASSERT_EQ(sum->Elements<float>()[i], expected) << i;
  }
}

TEST(Combine, WritesOverAValueThatNobodyElseHolds) {
  Tensor first = VectorOf<float>({1, 2});
  const void* const memory = first.data();
  std::vector<Tensor> values;
  values.push_back(std::move(first));
  values.push_back(VectorOf<float>({3, 4}));
  const Tensor second = values[1];
  const absl::StatusOr<Tensor> sum = Combine(SUM, std::move(values), 1);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(sum->data(), memory);
  EXPECT_THAT(ValuesOf<float>(*sum), ElementsAre(4, 6));
  EXPECT_THAT(ValuesOf<float>(second), ElementsAre(3, 4));

  const Tensor mine = VectorOf<float>({1, 2});
  const absl::StatusOr<Tensor> other = Combine(SUM, {mine, second}, 1);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(ValuesOf<float>(mine), ElementsAre(1, 2));
}

TEST(Combine, SaysWhatCannotBeCombined) {
  for (const DataType dtype : {kString, kBool, kResource}) {
    EXPECT_FALSE(CheckCombination(SUM, dtype).ok()) << DataTypeName(dtype);
    EXPECT_FALSE(CheckCombination(MEAN, dtype).ok()) << DataTypeName(dtype);
    EXPECT_TRUE(CheckCombination(FIRST, dtype).ok()) << DataTypeName(dtype);
  }
  EXPECT_TRUE(CheckCombination(CONCAT, kString).ok());
  EXPECT_FALSE(CheckCombination(CONCAT, kResource).ok());
  EXPECT_FALSE(CheckCombination(static_cast<Combination>(77), kFloat32).ok());

  const Tensor matrix = Tensor::FromValues<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(CheckFits(SUM, matrix, matrix, "it").ok());
  EXPECT_TRUE(CheckFits(CONCAT, matrix, Tensor(kFloat32, {0, 2}), "it").ok());
  for (const Tensor& other : {Tensor(kFloat32, {2, 3}), Tensor(kFloat64, {2, 2}),
                              Tensor(kFloat32, {2}), Tensor::Scalar(1.f)}) {
    for (const Combination combination : {SUM, CONCAT, MEAN, FIRST}) {
      const absl::Status status = CheckFits(combination, matrix, other, "argument 0");
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << other.DebugString();
      EXPECT_THAT(std::string(status.message()), HasSubstr("argument 0"));
    }
  }
  EXPECT_FALSE(CheckFits(CONCAT, Tensor::Scalar(1.f), Tensor::Scalar(1.f), "it").ok());
}

}  // namespace
}  // namespace tandem::parameter_server
