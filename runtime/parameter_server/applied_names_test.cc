#include "runtime/parameter_server/applied_names.h"

#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::parameter_server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Known = AppliedNames::Known;

PushId Id(uint64_t client, int64_t sequence, int64_t finished_below = 0) {
  PushId id;
  id.set_client(client);
  id.set_sequence(sequence);
  id.set_finished_below(finished_below);
  return id;
}

TEST(AppliedNames, APushIsNewThenInProgressThenApplied) {
  AppliedNames names;
  EXPECT_EQ(names.Look(Id(7, 1)), Known::kNew);
  ASSERT_TRUE(names.Begin(Id(7, 1), 5).ok());
  EXPECT_EQ(names.Look(Id(7, 1)), Known::kInProgress);
  EXPECT_EQ(names.Tag(Id(7, 1)), 5);
  EXPECT_EQ(names.Look(Id(8, 1)), Known::kNew);
  EXPECT_EQ(names.Look(Id(7, 2)), Known::kNew);
  names.Wait(Id(7, 1), 31);
  names.Wait(Id(7, 1), 32);
  names.Wait(Id(7, 1), 33);
  names.StopWaiting(Id(7, 1), 32);
  names.MarkApplied(Id(7, 1));
  // It is not answered yet.
  EXPECT_EQ(names.Look(Id(7, 1)), Known::kInProgress);
  EXPECT_THAT(names.End(Id(7, 1)), ElementsAre(31, 33));
  EXPECT_EQ(names.Look(Id(7, 1)), Known::kApplied);
  EXPECT_THAT(names.End(Id(7, 1)), IsEmpty());
  names.StopWaiting(Id(7, 1), 31);
  names.StopWaiting(Id(9, 9), 31);
}

TEST(AppliedNames, OneThatFailedIsNewAgain) {
  AppliedNames names;
  ASSERT_TRUE(names.Begin(Id(7, 4), 0).ok());
  EXPECT_THAT(names.End(Id(7, 4)), IsEmpty());
  EXPECT_EQ(names.Look(Id(7, 4)), Known::kNew);
  EXPECT_THAT(names.Newest(), IsEmpty());
}

TEST(AppliedNames, WhatHasFinishedIsForgottenAndCountsAsApplied) {
  AppliedNames names;
  for (int64_t sequence : {1, 2, 3, 5, 6, 9}) names.MarkApplied(Id(7, sequence));
  EXPECT_EQ(names.Look(Id(7, 4)), Known::kNew);
  EXPECT_TRUE(names.FinishBelow(Id(7, 100, 6)));
  EXPECT_FALSE(names.FinishBelow(Id(7, 100, 6)));
  EXPECT_FALSE(names.FinishBelow(Id(7, 100, 3)));
  EXPECT_EQ(names.Look(Id(7, 4)), Known::kApplied);
  EXPECT_EQ(names.Look(Id(7, 6)), Known::kApplied);
  EXPECT_EQ(names.Look(Id(7, 7)), Known::kNew);
  const std::vector<AppliedSequences> saved = names.Save();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].finished_below(), 6);
  EXPECT_EQ(saved[0].newest(), 9);
  EXPECT_THAT(saved[0].first(), ElementsAre(6, 9));
  EXPECT_THAT(saved[0].last(), ElementsAre(6, 9));
  // One that is late does not come back.
  names.MarkApplied(Id(7, 2));
  EXPECT_THAT(names.Save()[0].first(), ElementsAre(6, 9));
  EXPECT_EQ(names.Newest()[0].sequence(), 9);
}

TEST(AppliedNames, StepsThatEndInOrderAreOneRange) {
  AppliedNames names;
  for (int64_t sequence = 1; sequence <= 1000; ++sequence) {
    ASSERT_TRUE(names.Begin(Id(7, sequence), 0).ok());
    names.MarkApplied(Id(7, sequence));
    names.End(Id(7, sequence));
  }
  EXPECT_THAT(names.Save()[0].first(), ElementsAre(1));
  EXPECT_THAT(names.Save()[0].last(), ElementsAre(1000));
}

// Against a plain set, in any order.
TEST(AppliedNames, RangesAreWhatASetWouldBe) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    AppliedNames names;
    std::set<int64_t> applied;
    int64_t finished = 0;
    for (int i = 0; i < 200; ++i) {
      const int64_t sequence = 1 + static_cast<int64_t>(random() % 60);
      if (random() % 10 == 0) {
        const int64_t below = static_cast<int64_t>(random() % 60);
        names.FinishBelow(Id(1, 60, below));
        finished = std::max(finished, below);
      } else {
        names.MarkApplied(Id(1, sequence));
        applied.insert(sequence);
      }
    }
    AppliedNames loaded;
    ASSERT_TRUE(loaded.Load(names.Save()).ok());
    for (int64_t sequence = 1; sequence <= 62; ++sequence) {
      const Known expected =
          sequence < finished || applied.count(sequence) > 0 ? Known::kApplied : Known::kNew;
      EXPECT_EQ(names.Look(Id(1, sequence)), expected) << sequence;
      EXPECT_EQ(loaded.Look(Id(1, sequence)), expected) << sequence;
    }
    const std::vector<AppliedSequences> saved = names.Save();
    for (int i = 1; i < saved[0].first_size(); ++i) {
      EXPECT_GT(saved[0].first(i), saved[0].last(i - 1) + 1) << "ranges that touch are one";
    }
  }
}

TEST(AppliedNames, RefusesMoreRangesThanTheLimit) {
  AppliedNames names({/*max_ranges=*/3, /*max_clients=*/10});
  names.MarkApplied(Id(7, 1));
  names.MarkApplied(Id(7, 3));
  ASSERT_TRUE(names.Begin(Id(7, 5), 0).ok());
  const absl::Status refused = names.Begin(Id(7, 7), 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("client 7"));
  EXPECT_TRUE(names.Begin(Id(8, 7), 0).ok());
  names.FinishBelow(Id(7, 9, 4));
  EXPECT_TRUE(names.Begin(Id(7, 7), 0).ok());
}

TEST(AppliedNames, ForgetsTheClientThatWasIdleForLongest) {
  AppliedNames names({/*max_ranges=*/10, /*max_clients=*/2});
  names.MarkApplied(Id(1, 1));
  names.MarkApplied(Id(2, 1));
  names.MarkApplied(Id(1, 2));
  names.MarkApplied(Id(3, 1));
  EXPECT_EQ(names.Look(Id(1, 1)), Known::kApplied);
  EXPECT_EQ(names.Look(Id(2, 1)), Known::kNew);
  EXPECT_EQ(names.Look(Id(3, 1)), Known::kApplied);
  // Not one that has a push on its way.
  ASSERT_TRUE(names.Begin(Id(1, 3), 0).ok());
  names.MarkApplied(Id(3, 2));
  names.MarkApplied(Id(4, 1));
  EXPECT_EQ(names.Look(Id(1, 3)), Known::kInProgress);
  EXPECT_EQ(names.Look(Id(3, 1)), Known::kNew);
}

TEST(AppliedNames, LoadKeepsWhatIsOnItsWayAndRefusesNonsense) {
  AppliedNames names;
  names.MarkApplied(Id(7, 1));
  ASSERT_TRUE(names.Begin(Id(7, 2), 9).ok());
  names.Wait(Id(7, 2), 40);
  const auto sequences = [](int64_t finished, int64_t newest,
                            std::vector<std::pair<int64_t, int64_t>> ranges) {
    AppliedSequences applied;
    applied.set_client(3);
    applied.set_finished_below(finished);
    applied.set_newest(newest);
    for (const auto& [first, last] : ranges) {
      applied.add_first(first);
      applied.add_last(last);
    }
    return applied;
  };
  AppliedSequences half = sequences(0, 5, {{1, 2}});
  half.add_first(4);
  for (const AppliedSequences& bad :
       {sequences(-1, 5, {}), sequences(0, -1, {}), sequences(0, 5, {{2, 1}}),
        sequences(0, 5, {{0, 1}}), sequences(0, 5, {{1, 6}}), sequences(4, 5, {{3, 5}}),
        sequences(0, 9, {{3, 5}, {5, 6}}), half}) {
    EXPECT_EQ(names.Load({bad}).code(), absl::StatusCode::kInvalidArgument) << bad.DebugString();
  }
  EXPECT_EQ(names.Load({sequences(0, 5, {}), sequences(0, 5, {})}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(names.Look(Id(7, 1)), Known::kApplied);

  ASSERT_TRUE(names.Load({sequences(2, 5, {{3, 5}})}).ok());
  EXPECT_EQ(names.Look(Id(7, 1)), Known::kNew);
  EXPECT_EQ(names.Look(Id(3, 4)), Known::kApplied);
  EXPECT_EQ(names.Look(Id(3, 6)), Known::kNew);
  EXPECT_EQ(names.Tag(Id(7, 2)), 9);
  EXPECT_THAT(names.End(Id(7, 2)), ElementsAre(40));
}

}  // namespace
}  // namespace tandem::parameter_server
