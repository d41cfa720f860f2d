// Batch and PaddedBatch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/input/dataset.h"
#include "runtime/input/functions.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// n to a vector of n times n, and a matrix of 1 row and n columns of its text.
const bool registered = RegisterMapFunction(
    "batch_test_grow", [](const MapContext&, Element element) -> absl::StatusOr<Element> {
      const int64_t n = element[0].ScalarValue<int64_t>();
      Tensor numbers(kInt64, {n});
      for (int64_t& value : numbers.MutableElements<int64_t>()) value = n;
      Tensor texts(kString, {1, n});
      for (std::string& text : texts.MutableElements<std::string>()) text = std::to_string(n);
      return Element{numbers, texts};
    });

Dataset Growing(int64_t from, int64_t to) {
  return Dataset::Range(from, to).Map("batch_test_grow");
}

TEST(BatchTest, KeepsOrDropsTheRemainder) {
  EXPECT_THAT(All(Dataset::Range(5).Batch(2)),
              ElementsAre("int64[2] = 0 1", "int64[2] = 2 3", "int64[1] = 4"));
  EXPECT_THAT(All(Dataset::Range(5).Batch(2, true)),
              ElementsAre("int64[2] = 0 1", "int64[2] = 2 3"));
  EXPECT_THAT(All(Dataset::Range(3).Batch(10)), ElementsAre("int64[3] = 0 1 2"));
}

TEST(BatchTest, BatchesCanBeBatched) {
  EXPECT_THAT(All(Dataset::Range(6).Batch(3).Batch(2)), ElementsAre("int64[2,3] = 0 1 2 3 4 5"));
}

TEST(BatchTest, ABatchOfNothingIsRefused) {
  for (const int64_t size : {0, -1}) {
    const absl::Status status = OpenStatus(Dataset::Range(5).Batch(size));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected at least 1"));
  }
}

TEST(BatchTest, AnElementOfAnotherShapeIsNamed) {
  const absl::Status status = FirstError(Growing(2, 9).Take(1).Repeat(3).Batch(3));
  EXPECT_TRUE(status.ok()) << status;
  const absl::Status differs = FirstError(Growing(2, 9).Batch(2));
  EXPECT_EQ(differs.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(differs.message(),
            "Batch: component 0 of element 1 is int64[3], the first of its batch has int64[2]; "
            "PaddedBatch pads elements of different sizes");
}

TEST(PaddedBatchTest, PadsToTheLargest) {
  EXPECT_THAT(All(Growing(1, 4).PaddedBatch(2)),
              ElementsAre("int64[2,2] = 1 0 2 2; string[2,1,2] = \"1\" \"\" \"2\" \"2\"",
                          "int64[1,3] = 3 3 3; string[1,1,3] = \"3\" \"3\" \"3\""));
}

TEST(PaddedBatchTest, PadsToGivenShapesWithGivenValues) {
  EXPECT_THAT(
      All(Growing(0, 2).PaddedBatch(
          2, {.shapes = {{3}, {2, -1}},
              .values = {Tensor::Scalar<int64_t>(-7), Tensor::Scalar<std::string>("x")}})),
      ElementsAre("int64[2,3] = -7 -7 -7 1 -7 -7; string[2,2,1] = \"x\" \"x\" \"1\" \"x\""));
}

TEST(PaddedBatchTest, WhatDoesNotFitIsNamed) {
  const auto error = [](PaddedBatchOptions options) {
    const absl::Status status = FirstError(Growing(1, 4).PaddedBatch(3, std::move(options)));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({.shapes = {{2}, {1, 3}}}),
              HasSubstr("component 0 of element 2 has the shape [3], dimension 0 is to be padded "
                        "to 2"));
  EXPECT_THAT(error({.shapes = {{3}}}), HasSubstr("has 2 components, there are shapes or values "
                                                  "for 1"));
  EXPECT_THAT(error({.shapes = {{3, 3}, {1, 3}}}), HasSubstr("has rank 1"));
  EXPECT_THAT(error({.values = {Tensor::Scalar<float>(0), Tensor::Scalar<std::string>("")}}),
              HasSubstr("expected a scalar of type int64"));
  EXPECT_THAT(error({.shapes = {{-2}, {1, 3}}}), HasSubstr("a size to pad to is -2"));
}

TEST(PaddedBatchTest, EveryPositionCanBeRestored) {
  ExpectSameAfterRestoreEverywhere(Growing(1, 8).PaddedBatch(2));
}

}  // namespace
}  // namespace tandem::data
