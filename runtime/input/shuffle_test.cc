#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"
#include "runtime/input/random.h"

namespace tandem::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

TEST(RandomTest, IsSplitMix64) {
  // The first numbers of SplitMix64 from the state 1234567, as published with the generator.
  Random random(0, 0);
  random.set_state(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
  EXPECT_EQ(random.Next(), 9817491932198370423u);
}

TEST(RandomTest, BelowStaysBelow) {
  Random random(3, 0);
  for (const uint64_t limit : {uint64_t{1}, uint64_t{3}, (uint64_t{1} << 63) + 1}) {
    for (int i = 0; i < 100; ++i) EXPECT_LT(random.Below(limit), limit);
  }
}

TEST(ShuffleTest, GivesEachElementOnce) {
  const std::vector<int64_t> all = Ints(Dataset::Range(100));
  for (const int64_t buffer : {1, 2, 10, 99, 100, 1000}) {
    EXPECT_THAT(Ints(Dataset::Range(100).Shuffle(buffer, 5)), UnorderedElementsAreArray(all));
  }
  EXPECT_EQ(Ints(Dataset::Range(100).Shuffle(1, 5)), all);
  EXPECT_NE(Ints(Dataset::Range(100).Shuffle(100, 5)), all);
}

TEST(ShuffleTest, ASmallBufferGivesNoElementTooEarly) {
  const std::vector<int64_t> order = Ints(Dataset::Range(1000).Shuffle(10, 1));
  for (size_t i = 0; i < order.size(); ++i) EXPECT_LT(order[i], static_cast<int64_t>(i) + 10);
}

TEST(ShuffleTest, TheOrderDependsOnSeedAndIterationAlone) {
  const Dataset dataset = Dataset::Range(50).Shuffle(50, 1);
  EXPECT_EQ(Ints(dataset), Ints(dataset));
  EXPECT_NE(Ints(dataset), Ints(Dataset::Range(50).Shuffle(50, 2)));
  EXPECT_NE(Ints(dataset, 0), Ints(dataset, 1));
  const Dataset fixed = Dataset::Range(50).Shuffle(50, 1, {.reshuffle = false});
  EXPECT_EQ(Ints(fixed, 0), Ints(fixed, 1));
  EXPECT_EQ(Ints(fixed), Ints(dataset, 0));
}

TEST(ShuffleTest, RepeatIsTheIterationsInTheirOrder) {
  const Dataset dataset = Dataset::Range(20).Shuffle(20, 1);
  std::vector<int64_t> expected = Ints(dataset, 0);
  const std::vector<int64_t> second = Ints(dataset, 1);
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(Ints(dataset.Repeat(2)), expected);
  EXPECT_EQ(Ints(dataset.Repeat().Take(40)), expected);
}

TEST(ShuffleTest, EachPermutationHasTheSameChance) {
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t seed = 0; seed < 6000; ++seed) ++counts[Ints(Dataset::Range(3).Shuffle(3, seed))];
  ASSERT_EQ(counts.size(), 6u);
  // 1,000 each; the standard deviation is 29.
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(ShuffleTest, ABufferBelowOneIsRefused) {
  const absl::Status status = OpenStatus(Dataset::Range(3).Shuffle(0, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the buffer is 0"));
}

}  // namespace
}  // namespace tandem::data
