#include "runtime/input/describe.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/input/dataset.h"

namespace tandem::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Of(const Dataset& dataset) { return Describe(*dataset.stage()); }

TEST(Describe, HasALineForEachStage) {
  EXPECT_EQ(Of(Dataset::Range(100).Shuffle(100, 7).Batch(8)),
            "Range(start=0, step=1, stop=100)\n"
            "Shuffle(buffer=100, reshuffle=1, seed=7)\n"
            "Batch(drop_remainder=0, size=8)");
  EXPECT_EQ(Of(Dataset::Files({"a*", "b*"}).InterleaveFiles(Dataset::TextLines({}).Skip(1))),
            "Files(patterns=['a*', 'b*'])\n"
            "  TextLines(paths=[])\n"
            "  Skip(count=1)\n"
            "InterleaveFiles(block=1, cycle=4)");
}

TEST(Describe, WhatDoesNotChangeElementsIsLeftOut) {
  const Dataset numbers = Dataset::Range(100);
  EXPECT_EQ(Of(numbers.Map("f", {.threads = 4}).Batch(8).Prefetch(2)),
            Of(numbers.Map("f").Prefetch(9).Batch(8)));
}

TEST(Describe, WhatChangesElementsIsSeen) {
  const Dataset rows = Dataset::FromTensors({Tensor::Vector<float>({1, 2, 3})});
  for (const Dataset& other : {Dataset::FromTensors({Tensor::Vector<float>({1, 2, 4})}),
                               Dataset::FromTensors({Tensor::Vector<double>({1, 2, 3})}),
                               Dataset::FromTensors({Tensor::Vector<float>({1, 2, 3, 4})}),
                               rows.Take(2), rows.Cache(), rows.Shuffle(3, 1)}) {
    EXPECT_NE(Of(rows), Of(other));
  }
  EXPECT_NE(Of(Dataset::FromTensors({Tensor::Vector<std::string>({"ab", "c"})})),
            Of(Dataset::FromTensors({Tensor::Vector<std::string>({"a", "bc"})})));
  EXPECT_NE(Of(rows.Shuffle(3, 1)), Of(rows.Shuffle(3, 2)));
  EXPECT_NE(Of(rows.Map("f")), Of(rows.Map("g")));
}

TEST(Describe, LongListsAreSummedUp) {
  std::vector<std::string> paths;
  for (int i = 0; i < 10000; ++i) paths.push_back("records-" + std::to_string(i));
  const std::string before = Of(Dataset::Records(paths));
  EXPECT_LT(before.size(), 200u);
  EXPECT_THAT(before, HasSubstr("10000 values"));
  paths[5000] += "x";
  EXPECT_NE(Of(Dataset::Records(paths)), before);
  // No text of a file's name can be taken for lines of a description.
  EXPECT_THAT(Of(Dataset::TextLines({"a\nb"})), Not(HasSubstr("\n")));
}

TEST(Describe, DifferencesAreNamedByTheirStages) {
  const Dataset numbers = Dataset::Range(100);
  const std::string before = Of(numbers.Shuffle(100, 7).Batch(8));
  EXPECT_EQ(DifferenceOf(before, before), "");
  EXPECT_EQ(DifferenceOf(before, Of(numbers.Shuffle(100, 8).Batch(8).Take(3))),
            "stage 2 is Shuffle(buffer=100, reshuffle=1, seed=8) and was "
            "Shuffle(buffer=100, reshuffle=1, seed=7); stage 4 is Take(count=3) and was nothing");
  EXPECT_THAT(DifferenceOf(before, Of(Dataset::Range(3))), HasSubstr("stage 2 is nothing and was"));
}

}  // namespace
}  // namespace tandem::data
