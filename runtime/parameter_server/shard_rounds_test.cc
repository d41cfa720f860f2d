// Rounds: pushes that make one update together.
#include <algorithm>
#include <numeric>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/shard_test_util.h"

namespace tandem::parameter_server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Tensor> Four(float value) {
  return {Tensor::Vector<float>({value, value, value, value})};
}

Tensor Sum(Shard& shard) {
  const absl::StatusOr<std::vector<Tensor>> values = shard.Read({"sum"});
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? (*values)[0] : Tensor::Scalar(0.f);
}

PendingCall PushPart(Shard& shard, int64_t sequence, const Round& round, float value,
                     CancellationManager* cancellation = nullptr) {
  return StartPush(shard, Id(7, sequence), "pair/push", Four(value), &round, cancellation);
}

TEST(ShardRounds, PartsMakeOneUpdateInEveryOrder) {
  // Floats whose sum depends on the order.
  const std::vector<float> values = {1e8f, 1.25f, -1e8f, 0.3f};
  const float expected = ((values[0] + values[1]) + values[2]) + values[3];
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  int orders = 0;
  do {
    const auto shard = MakeShard(CounterDefinition());
    std::vector<PendingCall> calls;
    for (size_t i = 0; i < order.size(); ++i) {
      for (const PendingCall& call : calls) EXPECT_FALSE(call.is_done());
      EXPECT_EQ(shard->version(), 1);
      calls.push_back(PushPart(*shard, 10 + order[i], RoundOf(1, order[i], 4),
                               values[static_cast<size_t>(order[i])]));
    }
    for (const PendingCall& call : calls) {
      ASSERT_TRUE(call.status().ok()) << call.status();
      EXPECT_EQ(call.Wait()->version, 2);
    }
    EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(expected, expected, expected, expected));
    EXPECT_EQ(shard->version(), 2);
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(orders, 24);
}

TEST(ShardRounds, BackupsAreDroppedAndTheSumIsScaled) {
  const auto shard = MakeShard(CounterDefinition());
  // Weights 1, 2 and 1 of 4; the first two to come have 3.
  const PendingCall second = PushPart(*shard, 11, RoundOf(1, 1, 3, 2, 2, 4), 6);
  EXPECT_FALSE(second.is_done());
  const PendingCall third = PushPart(*shard, 12, RoundOf(1, 2, 3, 2, 1, 4), 3);
  EXPECT_TRUE(second.status().ok());
  EXPECT_TRUE(third.status().ok());
  const float expected = (6.f + 3.f) * static_cast<float>(4.0 / 3.0);
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(expected, expected, expected, expected));
  const auto late = PushPart(*shard, 10, RoundOf(1, 0, 3, 2, 1, 4), 100).Wait();
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->version, 2);
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(expected, expected, expected, expected));
  EXPECT_EQ(shard->status().dropped, 1);
  EXPECT_EQ(shard->status().waiting, 0);
}

TEST(ShardRounds, APartBeyondEnoughIsDroppedBeforeTheRoundsTurn) {
  const auto shard = MakeShard(CounterDefinition());
  const PendingCall first = PushPart(*shard, 20, RoundOf(2, 0, 3, 2), 1);
  const PendingCall second = PushPart(*shard, 21, RoundOf(2, 1, 3, 2), 2);
  const PendingCall third = PushPart(*shard, 22, RoundOf(2, 2, 3, 2), 4);
  EXPECT_TRUE(third.status().ok());
  EXPECT_FALSE(first.is_done());
  ASSERT_TRUE(PushPart(*shard, 10, RoundOf(1, 0, 1), 0).status().ok());
  EXPECT_TRUE(first.status().ok());
  EXPECT_TRUE(second.status().ok());
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(4.5, 4.5, 4.5, 4.5));
}

TEST(ShardRounds, APartThatComesWhileItsRoundRunsIsLate) {
  const auto shard = MakeShard(CounterDefinition());
  Hold hold;
  const auto push = [&](int64_t sequence, const Round& round) {
    return StartPush(*shard, Id(7, sequence), "count/push", {Tensor::Scalar<int64_t>(1)}, &round);
  };
  const PendingCall first = push(10, RoundOf(1, 0, 2, 1));
  hold.WaitForRuns(1);
  const PendingCall second = push(11, RoundOf(1, 1, 2, 1));
  EXPECT_FALSE(second.is_done());
  hold.Release();
  EXPECT_TRUE(first.status().ok());
  EXPECT_TRUE(second.status().ok());
  EXPECT_EQ(Count(*shard), 1);
  EXPECT_EQ(shard->version(), 2);
  EXPECT_EQ(shard->status().dropped, 1);
}

TEST(ShardRounds, IfTheRoundFailsALatePartTakesItsPlace) {
  const auto shard = MakeShard(CounterDefinition());
  Hold hold;
  const auto push = [&](int64_t sequence, const Round& round) {
    return StartPush(*shard, Id(7, sequence), "count/push", {Tensor::Scalar<int64_t>(1)}, &round);
  };
  const PendingCall first = push(10, RoundOf(1, 0, 2, 1));
  hold.WaitForRuns(1);
  const PendingCall second = push(11, RoundOf(1, 1, 2, 1));
  FailNext(1);
  hold.Release();
  EXPECT_EQ(first.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(second.status().ok()) << second.status();
  EXPECT_EQ(Count(*shard), 1);
}

TEST(ShardRounds, ADoubledPartCountsOnce) {
  const auto shard = MakeShard(CounterDefinition());
  const PendingCall first = PushPart(*shard, 10, RoundOf(1, 0, 2), 1);
  const PendingCall again = PushPart(*shard, 10, RoundOf(1, 0, 2), 1);
  EXPECT_FALSE(first.is_done());
  EXPECT_FALSE(again.is_done());
  const PendingCall other = PushPart(*shard, 11, RoundOf(1, 1, 2), 2);
  for (const PendingCall& call : {first, again, other}) {
    EXPECT_TRUE(call.status().ok()) << call.status();
  }
  EXPECT_TRUE(PushPart(*shard, 11, RoundOf(1, 1, 2), 2).status().ok());
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(3, 3, 3, 3));
  EXPECT_EQ(shard->status().repeated, 2);
}

TEST(ShardRounds, TwoPartsCannotHaveOneName) {
  const auto shard = MakeShard(CounterDefinition());
  const PendingCall first = PushPart(*shard, 10, RoundOf(1, 0, 2), 1);
  const absl::Status second = PushPart(*shard, 10, RoundOf(1, 1, 2), 2).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.message()), HasSubstr("sequence of its own"));
  EXPECT_FALSE(first.is_done());
}

TEST(ShardRounds, SparsePartsAreJoined) {
  const auto shard = MakeShard(OptimizerDefinition());
  const auto twin = MakeShard(OptimizerDefinition());
  const auto push = [](Shard& to, int64_t sequence, const Round* round, std::vector<float> values,
                       std::vector<int64_t> rows) {
    const auto count = static_cast<int64_t>(rows.size());
    return StartPush(to, Id(7, sequence), "train/push",
                     {Tensor::Vector<float>({0, 0, 0}),
                      Tensor::FromValues<float>(Shape({count, 2}), absl::MakeConstSpan(values)),
                      Tensor::Vector<int64_t>(absl::MakeConstSpan(rows))},
                     round);
  };
  // Two of three parts are enough: the values are scaled by 3/2, the rows are not. Row 3 is in
  // both.
  const Round second = RoundOf(1, 1, 3, 2);
  const Round third = RoundOf(1, 2, 3, 2);
  const PendingCall b = push(*shard, 12, &third, {5, 6}, {3});
  const PendingCall a = push(*shard, 11, &second, {1, 2, 3, 4}, {3, 8});
  ASSERT_TRUE(a.status().ok()) << a.status();
  ASSERT_TRUE(b.status().ok()) << b.status();
  ASSERT_TRUE(push(*twin, 1, nullptr, {1.5f, 3, 4.5f, 6, 7.5f, 9}, {3, 8, 3}).status().ok());
  const auto got = shard->Capture();
  const auto expected = twin->Capture();
  ASSERT_TRUE(got.ok() && expected.ok());
  for (size_t i = 0; i < got->variables.size(); ++i) {
    EXPECT_TRUE(SameBits(got->variables[i].second, expected->variables[i].second))
        << got->variables[i].first << ": " << got->variables[i].second.DebugString(20) << " and "
        << expected->variables[i].second.DebugString(20);
  }
}

TEST(ShardRounds, AFastWorkerIsAhead) {
  const auto shard = MakeShard(CounterDefinition());
  std::vector<PendingCall> fast;
  for (int round = 1; round <= 3; ++round) {
    fast.push_back(PushPart(*shard, round * 10, RoundOf(round, 0, 2), 1));
  }
  EXPECT_EQ(shard->status().waiting, 3);
  // The second round's other part is not enough: it is not its turn.
  const PendingCall early = PushPart(*shard, 21, RoundOf(2, 1, 2), 10);
  EXPECT_FALSE(early.is_done());
  EXPECT_TRUE(PushPart(*shard, 11, RoundOf(1, 1, 2), 100).status().ok());
  EXPECT_TRUE(fast[0].status().ok());
  EXPECT_TRUE(fast[1].status().ok());
  EXPECT_TRUE(early.status().ok());
  EXPECT_FALSE(fast[2].is_done());
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(112, 112, 112, 112));
  EXPECT_TRUE(PushPart(*shard, 31, RoundOf(3, 1, 2), 1000).status().ok());
  EXPECT_EQ(shard->version(), 4);
}

TEST(ShardRounds, APartThatDoesNotFitSpoilsNothing) {
  const auto shard = MakeShard(OptimizerDefinition());
  const auto push = [&](int64_t sequence, const Round& round, Tensor values, Tensor rows) {
    return StartPush(*shard, Id(7, sequence), "train/push",
                     {Tensor::Vector<float>({1, 1, 1}), std::move(values), std::move(rows)},
                     &round);
  };
  const PendingCall first = push(10, RoundOf(1, 0, 2), Tensor::FromValues<float>({1, 2}, {1, 2}),
                                 Tensor::Vector<int64_t>({1}));
  const absl::Status bad = push(11, RoundOf(1, 1, 2), Tensor::FromValues<float>({1, 3}, {1, 2, 3}),
                                Tensor::Vector<int64_t>({1}))
                               .status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument) << bad;
  EXPECT_FALSE(first.is_done());
  EXPECT_TRUE(push(11, RoundOf(1, 1, 2), Tensor::FromValues<float>({1, 2}, {1, 2}),
                   Tensor::Vector<int64_t>({1}))
                  .status()
                  .ok());
  EXPECT_TRUE(first.status().ok());
}

TEST(ShardRounds, ShapesThatTheProgramLeavesOpenAreThoseOfThePartsThatWait) {
  DefinitionBuilder b;
  const Output v = b.AddVariable("v", kFloat32, {2});
  b.scope().WithOpName("init").AddNode("AssignVariableOp", {v, {0.f, 0.f}});
  b.AddPush("init/push", {}, {"init"});
  const Output x = b.AddPlaceholder("x", kFloat32, {PartialShape::kUnknownDim});
  const Output total = b.scope().WithOpName("total").Call("Sum", {x, 0});
  b.scope().WithOpName("add").AddNode("AssignAddVariableOp",
                                      {v, b.scope().Call("Fill", {{2}, total})});
  b.AddPush("add/push", {"x"}, {"add"}, {SUM});
  const auto shard = MakeShard(b.Finish());
  const auto push = [&](int64_t sequence, int part, Tensor value) {
    const Round round = RoundOf(1, part, 2);
    return StartPush(*shard, Id(7, sequence), "add/push", {std::move(value)}, &round);
  };
  const PendingCall first = push(10, 0, Tensor::Vector<float>({1, 2, 3}));
  EXPECT_EQ(push(11, 1, Tensor::Vector<float>({1, 2})).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(push(11, 1, Tensor::Vector<float>({1, 1, 1})).status().ok());
  EXPECT_TRUE(first.status().ok());
  EXPECT_THAT(Floats((*shard->Read({"v"}))[0]), ElementsAre(9, 9));
}

TEST(ShardRounds, ACancelledPartLeavesItsRound) {
  const auto shard = MakeShard(CounterDefinition());
  CancellationManager cancellation;
  const PendingCall first = PushPart(*shard, 10, RoundOf(1, 0, 2), 1, &cancellation);
  const PendingCall same = PushPart(*shard, 10, RoundOf(1, 0, 2), 1);
  cancellation.Cancel(absl::CancelledError("the worker is lost"));
  EXPECT_EQ(first.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(shard->status().waiting, 1);  // The other one has taken its place.
  EXPECT_TRUE(PushPart(*shard, 11, RoundOf(1, 1, 2), 2).status().ok());
  EXPECT_TRUE(same.status().ok());
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(3, 3, 3, 3));
}

TEST(ShardRounds, ANewTryOfAPartTakesTheOldOnesPlace) {
  const auto shard = MakeShard(CounterDefinition());
  const PendingCall old = PushPart(*shard, 10, RoundOf(1, 0, 2), 1);
  const PendingCall fresh = PushPart(*shard, 20, RoundOf(1, 0, 2), 5);
  EXPECT_EQ(old.status().code(), absl::StatusCode::kAborted) << old.status();
  EXPECT_EQ(PushPart(*shard, 9, RoundOf(1, 0, 2), 1).status().code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(fresh.is_done());
  EXPECT_TRUE(PushPart(*shard, 21, RoundOf(1, 1, 2), 2).status().ok());
  EXPECT_TRUE(fresh.status().ok());
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(7, 7, 7, 7));
}

TEST(ShardRounds, ANewTryMayBeCutDifferently) {
  const auto shard = MakeShard(CounterDefinition());
  const PendingCall old_first = PushPart(*shard, 10, RoundOf(1, 0, 3), 1);
  const PendingCall old_second = PushPart(*shard, 11, RoundOf(1, 1, 3), 1);
  const PendingCall fresh = PushPart(*shard, 21, RoundOf(1, 1, 2), 5);
  EXPECT_EQ(old_first.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(old_second.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(PushPart(*shard, 12, RoundOf(1, 2, 3), 1).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(PushPart(*shard, 20, RoundOf(1, 0, 2), 2).status().ok());
  EXPECT_TRUE(fresh.status().ok());
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(7, 7, 7, 7));
}

TEST(ShardRounds, PartsOfStepsThatWereGivenUpLeave) {
  const auto shard = MakeShard(CounterDefinition());
  const PendingCall old = PushPart(*shard, 10, RoundOf(1, 0, 2), 1);
  const Round round = RoundOf(1, 1, 2);
  const PendingCall fresh = StartPush(*shard, Id(7, 21, 20), "pair/push", Four(2), &round, nullptr);
  EXPECT_EQ(old.status().code(), absl::StatusCode::kAborted) << old.status();
  EXPECT_FALSE(fresh.is_done());
  EXPECT_TRUE(PushPart(*shard, 20, RoundOf(1, 0, 2), 5).status().ok());
  EXPECT_TRUE(fresh.status().ok());
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(7, 7, 7, 7));
}

TEST(ShardRounds, AProgramWithoutCombinationsTakesNoPart) {
  DefinitionBuilder b;
  const Output v = b.AddVariable("v", kFloat32, {2});
  b.scope().WithOpName("init").AddNode("AssignVariableOp", {v, {0.f, 0.f}});
  b.AddPush("init/push", {}, {"init"});
  const Output x = b.AddPlaceholder("x", kFloat32, {2});
  b.scope().WithOpName("add").AddNode("AssignAddVariableOp", {v, x});
  b.AddPush("add/push", {"x"}, {"add"});
  const auto shard = MakeShard(b.Finish());
  const Round round = RoundOf(1, 0, 1);
  EXPECT_EQ(StartPush(*shard, Id(7, 1), "add/push", {Tensor::Vector<float>({1, 2})}, &round)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  // One without arguments has nothing to combine.
  EXPECT_TRUE(StartPush(*shard, Id(7, 2), "init/push", {}, &round).status().ok());
}

TEST(ShardRounds, LargePartsAreAddedUpElsewhere) {
  constexpr int64_t kCount = 100'000;
  DefinitionBuilder b;
  const Output v = b.AddVariable("v", kFloat32, {kCount});
  b.scope().WithOpName("init").AddNode("AssignVariableOp",
                                       {v, b.scope().Call("Fill", {{100'000}, 0.f})});
  b.AddPush("init/push", {}, {"init"});
  const Output x = b.AddPlaceholder("x", kFloat32, {kCount});
  b.scope().WithOpName("add").AddNode("AssignAddVariableOp", {v, x});
  b.AddPush("add/push", {"x"}, {"add"}, {SUM});
  const auto shard = MakeShard(b.Finish());
  std::vector<PendingCall> calls;
  for (int part = 0; part < 3; ++part) {
    Tensor value(kFloat32, Shape({kCount}));
    std::fill_n(value.MutableElements<float>().begin(), kCount, static_cast<float>(part + 1));
    const Round round = RoundOf(1, part, 3);
    calls.push_back(StartPush(*shard, Id(7, part + 1), "add/push", {std::move(value)}, &round));
  }
  for (const PendingCall& call : calls) ASSERT_TRUE(call.status().ok()) << call.status();
  for (const float value : Floats((*shard->Read({"v"}))[0])) ASSERT_EQ(value, 6);
}

// Workers push their parts of many rounds, each twice, and are ahead of each other; one of the four
// is a backup.
TEST(ShardRounds, ManyRoundsOfManyWorkers) {
  const auto shard = MakeShard(CounterDefinition());
  constexpr int kWorkers = 4;
  constexpr int kRounds = 100;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([&, worker] {
      std::vector<PendingCall> calls;
      for (int round = 1; round <= kRounds; ++round) {
        for (int time = 0; time < 2; ++time) {
          calls.push_back(PushPart(*shard, round * kWorkers + worker,
                                   RoundOf(round, worker, kWorkers, kWorkers - 1), 3));
        }
        // No further ahead than three rounds.
        if (calls.size() > 6) {
          EXPECT_TRUE(calls[calls.size() - 7].status().ok());
        }
      }
      for (const PendingCall& call : calls) EXPECT_TRUE(call.status().ok()) << call.status();
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(shard->version(), 1 + kRounds);
  // Three parts of 3, scaled to four.
  const float expected = 12.f * kRounds;
  EXPECT_THAT(Floats(Sum(*shard)), ElementsAre(expected, expected, expected, expected));
  EXPECT_EQ(shard->status().waiting, 0);
  EXPECT_EQ(shard->status().waiting_bytes, 0);
}

}  // namespace
}  // namespace tandem::parameter_server
