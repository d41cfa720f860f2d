// FromTensors and Range.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string OpenError(const Dataset& dataset) {
  const absl::Status status = OpenStatus(dataset);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(FromTensorsTest, GivesTheRows) {
  EXPECT_THAT(All(Dataset::FromTensors({Tensor::FromValues<int32_t>({2, 2}, {1, 2, 3, 4}),
                                        Tensor::Vector<std::string>({"a", "b"})})),
              ElementsAre("int32[2] = 1 2; string[] = \"a\"", "int32[2] = 3 4; string[] = \"b\""));
}

TEST(FromTensorsTest, RowsShareTheSourcesMemoryAndBatchesDoNot) {
  const Tensor source = Tensor::Vector<int64_t>({1, 2, 3});
  const Dataset dataset = Dataset::FromTensors({source});
  EXPECT_TRUE((**(*dataset.Open())->Next())[0].SharesBufferWith(source));
  EXPECT_FALSE((**(*dataset.Batch(2).Open())->Next())[0].SharesBufferWith(source));
}

TEST(FromTensorsTest, ADataSetWithoutRowsIsRefused) {
  EXPECT_THAT(OpenError(Dataset::FromTensors({})), HasSubstr("the data set is empty"));
  EXPECT_THAT(OpenError(Dataset::FromTensors({Tensor(kFloat32, Shape({0, 3}))})),
              HasSubstr("the data set is empty: tensor 0 is float32[0,3]"));
}

TEST(FromTensorsTest, TensorsThatHaveNoRowsInCommonAreRefused) {
  EXPECT_THAT(OpenError(Dataset::FromTensors({Tensor::Scalar<float>(1)})),
              HasSubstr("tensor 0 is a scalar"));
  EXPECT_THAT(OpenError(Dataset::FromTensors(
                  {Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({1, 2, 3})})),
              HasSubstr("tensor 1, float32[3], has 3 rows, tensor 0 has 2"));
  EXPECT_THAT(OpenError(Dataset::FromTensors({Tensor()})),
              HasSubstr("expected numbers or strings"));
}

TEST(RangeTest, GoesUpAndDown) {
  EXPECT_THAT(Ints(Dataset::Range(3)), ElementsAre(0, 1, 2));
  EXPECT_THAT(Ints(Dataset::Range(2, 9, 3)), ElementsAre(2, 5, 8));
  EXPECT_THAT(Ints(Dataset::Range(5, 0, -2)), ElementsAre(5, 3, 1));
  EXPECT_THAT(Ints(Dataset::Range(0)), IsEmpty());
  EXPECT_THAT(Ints(Dataset::Range(7).Batch(4)), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(RangeTest, LimitsOfInt64) {
  EXPECT_THAT(Ints(Dataset::Range(INT64_MAX - 2, INT64_MAX)),
              ElementsAre(INT64_MAX - 2, INT64_MAX - 1));
  EXPECT_THAT(OpenError(Dataset::Range(INT64_MIN, INT64_MAX)), HasSubstr("more than 2^63 - 1"));
  EXPECT_THAT(OpenError(Dataset::Range(0, 3, 0)), HasSubstr("step is 0"));
  EXPECT_EQ(*Dataset::Range(INT64_MAX, INT64_MIN, INT64_MIN).Cardinality(), 2);
}

}  // namespace
}  // namespace tandem::data
