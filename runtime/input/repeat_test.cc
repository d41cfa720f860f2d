// Repeat, Shard, Take, Skip and Cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/input/dataset.h"
#include "runtime/input/functions.h"
#include "runtime/input/input_test_util.h"

namespace tandem::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::atomic<int> calls{0};

const bool registered =
    RegisterMapFunction("repeat_test_count", [](const MapContext&, Element element) {
      ++calls;
      return absl::StatusOr<Element>(std::move(element));
    });

std::string OpenError(const Dataset& dataset) {
  const absl::Status status = OpenStatus(dataset);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(RepeatTest, CountsIterations) {
  EXPECT_THAT(Ints(Dataset::Range(2).Repeat(3)), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(Ints(Dataset::Range(2).Repeat(0)), IsEmpty());
  EXPECT_THAT(Ints(Dataset::Range(2).Repeat().Take(5)), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(OpenError(Dataset::Range(2).Repeat(-2)), HasSubstr("count is -2"));
}

TEST(RepeatTest, NothingIsNotRepeatedWithoutEnd) {
  EXPECT_THAT(Ints(Dataset::Range(0).Repeat(3)), IsEmpty());
  const Dataset elements = Dataset::Range(0).Map("repeat_test_count").Repeat();
  for (const Dataset& dataset : {elements, Dataset::Range(0).Repeat().Batch(2)}) {
    const absl::Status status = FirstError(dataset);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is empty"));
  }
}

TEST(RepeatTest, NothingManyTimesIsNothingAtOnce) {
  EXPECT_THAT(Ints(Dataset::Range(0).Repeat(int64_t{1} << 62)), IsEmpty());
}

// Stages that work for ever without an element to give still end when they are told to.
TEST(RepeatTest, AStageThatFindsNothingCanBeCancelled) {
  constexpr int64_t kMany = int64_t{1} << 62;
  // How many lines a file has is not known ahead.
  const Dataset empty_rounds = Dataset::TextLines({WriteFile("empty.txt", "")}).Repeat(kMany);
  const Dataset skipped = Dataset::Range(kMany).Skip(kMany - 1);
  const Dataset skipped_rows =
      Dataset::FromTensors({Tensor::Vector<int64_t>({1, 2, 3})}).Repeat().Skip(kMany).Batch(1);
  for (const Dataset& dataset : {empty_rounds, skipped, skipped_rows}) {
    const auto iterator = dataset.Open();
    ASSERT_TRUE(iterator.ok()) << iterator.status();
    std::thread canceller([&] { (*iterator)->Cancel(); });
    EXPECT_EQ((*iterator)->Next().status().code(), absl::StatusCode::kCancelled);
    canceller.join();
  }
}

TEST(ShardTest, ShardsAreDisjointAndComplete) {
  EXPECT_THAT(Ints(Dataset::Range(7).Shard(3, 0)), ElementsAre(0, 3, 6));
  EXPECT_THAT(Ints(Dataset::Range(7).Shard(3, 1)), ElementsAre(1, 4));
  EXPECT_THAT(Ints(Dataset::Range(7).Shard(3, 2)), ElementsAre(2, 5));
  EXPECT_THAT(Ints(Dataset::Range(2).Shard(3, 2)), IsEmpty());
}

TEST(ShardTest, ImpossibleShardsAreRefused) {
  EXPECT_THAT(OpenError(Dataset::Range(7).Shard(0, 0)), HasSubstr("number of shards is 0"));
  EXPECT_THAT(OpenError(Dataset::Range(7).Shard(3, 3)),
              HasSubstr("the index is 3, expected 0 to 2 for 3 shards"));
  EXPECT_THAT(OpenError(Dataset::Range(7).Shard(3, -1)), HasSubstr("the index is -1"));
}

TEST(TakeSkipTest, CutTheSequence) {
  EXPECT_THAT(Ints(Dataset::Range(5).Take(2)), ElementsAre(0, 1));
  EXPECT_THAT(Ints(Dataset::Range(5).Skip(3)), ElementsAre(3, 4));
  EXPECT_THAT(Ints(Dataset::Range(2).Take(9)), ElementsAre(0, 1));
  EXPECT_THAT(Ints(Dataset::Range(2).Skip(9)), IsEmpty());
  EXPECT_THAT(Ints(Dataset::Range(2).Take(-1)), ElementsAre(0, 1));
  EXPECT_THAT(Ints(Dataset::Range(2).Skip(-1)), IsEmpty());
  EXPECT_THAT(OpenError(Dataset::Range(5).Take(-2)), HasSubstr("Take: count is -2"));
}

TEST(CacheTest, ReadsItsInputOnce) {
  const Dataset dataset = Dataset::Range(4).Map("repeat_test_count").Cache();
  calls = 0;
  EXPECT_THAT(Ints(dataset, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(calls, 4);
  EXPECT_THAT(Ints(dataset, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Ints(dataset.Repeat(3)).size(), 12u);
  EXPECT_EQ(calls, 4);
}

TEST(CacheTest, AnIncompletePassIsNotKept) {
  const Dataset cache = Dataset::Range(4).Map("repeat_test_count").Cache();
  EXPECT_THAT(Ints(cache.Take(2)), ElementsAre(0, 1));
  EXPECT_THAT(Ints(cache), ElementsAre(0, 1, 2, 3));
}

TEST(CacheTest, HasTheOrderOfTheFirstIteration) {
  const Dataset shuffled = Dataset::Range(20).Shuffle(20, 1);
  EXPECT_EQ(Ints(shuffled.Cache(), 3), Ints(shuffled, 0));
}

TEST(CacheTest, EveryPositionCanBeRestored) {
  ExpectSameAfterRestoreEverywhere(Dataset::Range(5).Shuffle(3, 1).Cache().Repeat(3));
}

}  // namespace
}  // namespace tandem::data
