// Pulls and pushes of a shard: each push counts once, whatever happens to it.
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/shard_test_util.h"

namespace tandem::parameter_server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Tensor> Number(int64_t n) { return {Tensor::Scalar<int64_t>(n)}; }

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ShardCalls, PushesUpdateAndPullsRead) {
  const auto shard = MakeShard(CounterDefinition());
  EXPECT_EQ(shard->version(), 1);
  const auto pushed = StartPush(*shard, Id(7, 1), "count/push", Number(5)).Wait();
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(pushed->version, 2);
  EXPECT_TRUE(pushed->results.empty());
  const Tensor x = Tensor::Vector<float>({1, 2, 3, 4});
  ASSERT_TRUE(StartPush(*shard, Id(7, 2), "pair/push", {x}).status().ok());
  const auto pulled = StartPull(*shard, "read/pull").Wait();
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->version, 3);
  ASSERT_EQ(pulled->results.size(), 3u);
  EXPECT_EQ(pulled->results[0].ScalarValue<int64_t>(), 5);
  EXPECT_THAT(Floats(pulled->results[1]), ElementsAre(1, 2, 3, 4));
  const auto scaled = StartPull(*shard, "scaled/pull", {Tensor::Scalar(2.f)}).Wait();
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  EXPECT_THAT(Floats(scaled->results[0]), ElementsAre(2, 4, 6, 8));
  const ShardStatus status = shard->status();
  EXPECT_EQ(status.pushes, 3);
  EXPECT_EQ(status.pulls, 2);
  EXPECT_EQ(status.variable_bytes, 8 + 16 + 16);
  ASSERT_EQ(shard->newest().size(), 2u);
  EXPECT_EQ(shard->newest()[1].client(), 7u);
  EXPECT_EQ(shard->newest()[1].sequence(), 2);
}

TEST(ShardCalls, ARepeatedPushIsAnsweredAndNotApplied) {
  const auto shard = MakeShard(CounterDefinition());
  for (int i = 0; i < 3; ++i) {
    const auto answer = StartPush(*shard, Id(7, 1), "count/push", Number(5)).Wait();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->version, 2);
  }
  EXPECT_EQ(Count(*shard), 5);
  EXPECT_EQ(shard->status().repeated, 2);
  // Of another client it is another push.
  ASSERT_TRUE(StartPush(*shard, Id(8, 1), "count/push", Number(5)).status().ok());
  EXPECT_EQ(Count(*shard), 10);
}

TEST(ShardCalls, WhatItsClientHasFinishedIsNotAppliedLate) {
  const auto shard = MakeShard(CounterDefinition());
  ASSERT_TRUE(StartPush(*shard, Id(7, 10, 9), "count/push", Number(1)).status().ok());
  ASSERT_TRUE(StartPush(*shard, Id(7, 8), "count/push", Number(100)).status().ok());
  ASSERT_TRUE(StartPush(*shard, Id(7, 9), "count/push", Number(1)).status().ok());
  EXPECT_EQ(Count(*shard), 2);
}

TEST(ShardCalls, APushOfANameThatIsBeingAppliedWaitsForIt) {
  const auto shard = MakeShard(CounterDefinition());
  Hold hold;
  const PendingCall first = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  hold.WaitForRuns(1);
  const PendingCall second = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  const PendingCall third = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  EXPECT_EQ(shard->status().waiting, 2);
  EXPECT_FALSE(second.is_done());
  hold.Release();
  EXPECT_TRUE(first.status().ok());
  EXPECT_TRUE(second.status().ok());
  EXPECT_TRUE(third.status().ok());
  EXPECT_EQ(Count(*shard), 5);
  EXPECT_EQ(shard->status().repeated, 2);
  EXPECT_EQ(shard->status().waiting_bytes, 0);
}

TEST(ShardCalls, APushThatWaitedTriesItselfWhenTheFirstFails) {
  const auto shard = MakeShard(CounterDefinition());
  Hold hold;
  const PendingCall first = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  hold.WaitForRuns(1);
  const PendingCall second = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  const PendingCall third = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  FailNext(1);
  hold.Release();
  EXPECT_EQ(first.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(second.status().ok()) << second.status();
  EXPECT_TRUE(third.status().ok()) << third.status();
  EXPECT_EQ(Count(*shard), 5);
  EXPECT_EQ(shard->version(), 2);
}

TEST(ShardCalls, AFailedPushMayBePushedAgain) {
  const auto shard = MakeShard(CounterDefinition());
  FailNext(1);
  EXPECT_EQ(StartPush(*shard, Id(7, 1), "count/push", Number(5)).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(shard->version(), 1);
  EXPECT_TRUE(StartPush(*shard, Id(7, 1), "count/push", Number(5)).status().ok());
  EXPECT_EQ(Count(*shard), 5);
}

TEST(ShardCalls, ACancelledPushThatWaitsForANameLeaves) {
  const auto shard = MakeShard(CounterDefinition());
  Hold hold;
  const PendingCall first = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  hold.WaitForRuns(1);
  CancellationManager cancellation;
  const PendingCall second =
      StartPush(*shard, Id(7, 1), "count/push", Number(5), nullptr, &cancellation);
  cancellation.Cancel(absl::AbortedError("the caller is gone"));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(shard->status().waiting, 0);
  hold.Release();
  EXPECT_TRUE(first.status().ok());
  EXPECT_EQ(Count(*shard), 5);
}

TEST(ShardCalls, AnUpdateThatHasBegunIsAppliedAlthoughItIsCancelled) {
  const auto shard = MakeShard(CounterDefinition());
  Hold hold;
  CancellationManager cancellation;
  const PendingCall call =
      StartPush(*shard, Id(7, 1), "count/push", Number(5), nullptr, &cancellation);
  hold.WaitForRuns(1);
  cancellation.Cancel(absl::AbortedError("the caller is gone"));
  hold.Release();
  EXPECT_TRUE(call.status().ok()) << call.status();
  EXPECT_EQ(Count(*shard), 5);
}

TEST(ShardCalls, ACallThatIsCancelledBeforeItComesDoesNothing) {
  const auto shard = MakeShard(CounterDefinition());
  CancellationManager cancellation;
  cancellation.Cancel(absl::AbortedError("the caller is gone"));
  EXPECT_EQ(
      StartPush(*shard, Id(7, 1), "count/push", Number(5), nullptr, &cancellation).status().code(),
      absl::StatusCode::kAborted);
  EXPECT_EQ(StartPull(*shard, "read/pull", {}, 0, &cancellation).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(Count(*shard), 0);
}

TEST(ShardCalls, APullWaitsForItsVersion) {
  const auto shard = MakeShard(CounterDefinition());
  const PendingCall third = StartPull(*shard, "read/pull", {}, 3);
  const PendingCall second = StartPull(*shard, "read/pull", {}, 2);
  EXPECT_EQ(shard->status().waiting, 2);
  ASSERT_TRUE(StartPush(*shard, Id(7, 1), "count/push", Number(5)).status().ok());
  ASSERT_TRUE(second.status().ok());
  EXPECT_EQ(second.Wait()->results[0].ScalarValue<int64_t>(), 5);
  EXPECT_EQ(second.Wait()->version, 2);
  EXPECT_FALSE(third.is_done());
  ASSERT_TRUE(StartPush(*shard, Id(7, 2), "count/push", Number(5)).status().ok());
  ASSERT_TRUE(third.status().ok());
  EXPECT_EQ(third.Wait()->results[0].ScalarValue<int64_t>(), 10);
}

TEST(ShardCalls, APullThatWaitsIsCancelled) {
  const auto shard = MakeShard(CounterDefinition());
  CancellationManager cancellation;
  const PendingCall pull = StartPull(*shard, "read/pull", {}, 100, &cancellation);
  EXPECT_FALSE(pull.is_done());
  cancellation.Cancel(absl::DeadlineExceededError("too long"));
  EXPECT_EQ(pull.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(shard->status().waiting, 0);
}

TEST(ShardCalls, SaysWhatIsWrongWithACall) {
  const auto shard = MakeShard(CounterDefinition());
  const absl::Status unknown = StartPull(*shard, "raed/pull").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(unknown), HasSubstr("read/pull"));
  const auto push = [&](const PushId& id, const std::string& program, std::vector<Tensor> arguments,
                        const Round* round = nullptr) {
    return StartPush(*shard, id, program, std::move(arguments), round).status();
  };
  EXPECT_THAT(Message(push(Id(7, 1), "read/pull", {})), HasSubstr("it is pulled"));
  EXPECT_THAT(Message(StartPull(*shard, "count/push", Number(1)).status()),
              HasSubstr("it is pushed"));
  for (const absl::Status& status :
       {push(Id(7, 1), "count/push", {}), push(Id(7, 1), "count/push", {Tensor::Scalar(1.f)}),
        push(Id(7, 1), "count/push", {Tensor()}),
        push(Id(7, 1), "count/push", {Tensor::Vector<int64_t>({1})}),
        push(Id(7, 1), "pair/push", {Tensor::Vector<float>({1, 2, 3})}),
        push(Id(7, 0), "count/push", Number(1)), push(Id(7, -4), "count/push", Number(1)),
        push(Id(7, 1, 2), "count/push", Number(1)), push(Id(7, 1, -1), "count/push", Number(1)),
        push(Id(7, int64_t{1} << 62 | 1), "count/push", Number(1)),
        StartPull(*shard, "scaled/pull").status(),
        StartPull(*shard, "scaled/pull", Number(1)).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  for (Round round :
       {RoundOf(-1, 0, 2), RoundOf(1, -1, 2), RoundOf(1, 2, 2), RoundOf(1, 0, 0, 1),
        RoundOf(1, 0, 2, 3), RoundOf(1, 0, 2, 2, -1), RoundOf(1, 0, 2, 2, std::nan(""))}) {
    const absl::Status status = push(Id(7, 1), "count/push", Number(1), &round);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << round.DebugString() << status;
  }
  EXPECT_EQ(Count(*shard), 0);
  EXPECT_EQ(shard->version(), 1);
  // None of the names was used up.
  EXPECT_TRUE(push(Id(7, 1), "count/push", Number(1)).ok());
}

TEST(ShardCalls, MemoryOfPushesThatWaitIsLimited) {
  ShardOptions options;
  options.max_waiting_bytes = 4 << 10;
  const auto shard = MakeShard(CounterDefinition(), std::move(options));
  Hold hold;
  const PendingCall first = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  hold.WaitForRuns(1);
  std::vector<PendingCall> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(StartPush(*shard, Id(7, 1), "count/push", Number(5)));
  }
  const absl::Status refused = StartPush(*shard, Id(7, 1), "count/push", Number(5)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(refused), HasSubstr("max_waiting_bytes"));
  EXPECT_THAT(Message(refused), HasSubstr("4096"));
  EXPECT_EQ(StartPull(*shard, "read/pull", {}, 50).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(shard->status().waiting, 3);
  // What need not wait is not concerned.
  const Tensor x = Tensor::Vector<float>({1, 2, 3, 4});
  EXPECT_TRUE(StartPush(*shard, Id(7, 2), "pair/push", {x}).status().ok());
  hold.Release();
  EXPECT_TRUE(first.status().ok());
  for (const PendingCall& call : waiting) EXPECT_TRUE(call.status().ok()) << call.status();
  EXPECT_EQ(Count(*shard), 5);
  EXPECT_EQ(shard->status().waiting_bytes, 0);
}

TEST(ShardCalls, CloseEndsWhatWaitsAndRefusesMore) {
  const auto shard = MakeShard(CounterDefinition());
  Hold hold;
  const PendingCall running = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  hold.WaitForRuns(1);
  const PendingCall same_name = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  const PendingCall pull = StartPull(*shard, "read/pull", {}, 50);
  const Round round = RoundOf(1, 0, 2);
  const PendingCall part = StartPush(*shard, Id(7, 2), "count/push", Number(5), &round);
  WaitUntilWaiting(*shard, 3);
  shard->Close(absl::UnavailableError("the server ends"));
  for (const PendingCall& call : {same_name, pull, part}) {
    EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable) << call.status();
  }
  EXPECT_EQ(StartPush(*shard, Id(7, 3), "count/push", Number(5)).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(StartPull(*shard, "read/pull").status().code(), absl::StatusCode::kUnavailable);
  hold.Release();
  EXPECT_TRUE(running.status().ok());
  EXPECT_EQ(Count(*shard), 5);
}

TEST(ShardCalls, TheLastCallMayDestroyTheShard) {
  for (const bool is_push : {true, false}) {
    std::shared_ptr<Shard> shard = MakeShard(CounterDefinition());
    Event ended;
    Event may_end;
    auto done = [shard, &ended, &may_end](absl::StatusOr<ShardAnswer> answer) mutable {
      EXPECT_TRUE(answer.ok()) << answer.status();
      may_end.Wait();
      shard.reset();
      ended.Set();
    };
    Shard& called = *shard;
    // Another thread than this one answers, and has the last reference.
    Hold hold;
    if (is_push) {
      called.Push(Id(7, 1), nullptr, "count/push", Number(1), -1, nullptr, std::move(done));
    } else {
      called.Pull("read/pull", {}, 0, nullptr, std::move(done));
    }
    shard.reset();
    may_end.Set();
    hold.Release();
    ended.Wait();
  }
}

TEST(ShardCalls, TheDestructorEndsWhatWaits) {
  auto shard = MakeShard(CounterDefinition());
  const PendingCall pull = StartPull(*shard, "read/pull", {}, 50);
  const Round round = RoundOf(1, 0, 2);
  const PendingCall part = StartPush(*shard, Id(7, 2), "count/push", Number(5), &round);
  shard.reset();
  EXPECT_EQ(pull.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(part.status().code(), absl::StatusCode::kCancelled);
}

TEST(ShardCalls, TellsHowStalePushesAre) {
  const auto shard = MakeShard(CounterDefinition());
  const auto push = [&](int64_t sequence, int64_t pulled) {
    EXPECT_TRUE(
        StartPush(*shard, Id(7, sequence), "count/push", Number(1), nullptr, nullptr, pulled)
            .status()
            .ok());
  };
  push(1, 1);   // At version 1: nothing in between.
  push(2, 1);   // At version 2: one.
  push(3, 0);   // At version 3: three.
  push(4, -1);  // Not known.
  push(5, 5);
  push(5, 0);  // Repeated.
  EXPECT_EQ(shard->status().max_staleness, 3);
  EXPECT_EQ(shard->status().last_staleness, 0);
  EXPECT_DOUBLE_EQ(shard->status().mean_staleness, 1);
}

// Many threads push the same names at the same time, some are cancelled, some fail, all are tried
// until they are answered with success.
TEST(ShardCalls, CountsEachPushOnce) {
  const auto shard = MakeShard(CounterDefinition());
  constexpr int kClients = 3;
  constexpr int kThreadsOfAClient = 3;
  constexpr int64_t kPushes = 120;
  std::atomic<int> threads_at_work{kClients * kThreadsOfAClient};
  std::atomic<int64_t> tries{0};
  std::vector<std::thread> threads;
  for (int client = 0; client < kClients; ++client) {
    for (int t = 0; t < kThreadsOfAClient; ++t) {
      threads.emplace_back([&, client, seed = client * 10 + t] {
        std::mt19937 random(static_cast<uint32_t>(seed));
        for (int64_t sequence = 1; sequence <= kPushes; ++sequence) {
          while (true) {
            CancellationManager cancellation;
            const PendingCall call =
                StartPush(*shard, Id(100 + static_cast<uint64_t>(client), sequence), "count/push",
                          Number(sequence), nullptr, &cancellation);
            if (random() % 3 == 0) cancellation.Cancel(absl::CancelledError("a test's"));
            tries.fetch_add(1);
            if (call.status().ok()) break;
            EXPECT_TRUE(absl::IsCancelled(call.status()) || absl::IsDataLoss(call.status()))
                << call.status();
          }
        }
        threads_at_work.fetch_sub(1);
      });
    }
  }
  std::thread failing([&] {
    while (threads_at_work.load() > 0) {
      const int64_t before = tries.load();
      FailNext(2);
      while (tries.load() < before + 20 && threads_at_work.load() > 0) std::this_thread::yield();
    }
    FailNext(0);
  });
  for (std::thread& thread : threads) thread.join();
  failing.join();
  EXPECT_EQ(Count(*shard), kClients * kPushes * (kPushes + 1) / 2);
  EXPECT_EQ(shard->version(), 1 + kClients * kPushes);
  EXPECT_GT(tries.load(), kClients * kThreadsOfAClient * kPushes);
  EXPECT_EQ(shard->status().waiting, 0);
  EXPECT_EQ(shard->status().waiting_bytes, 0);
}

}  // namespace
}  // namespace tandem::parameter_server
