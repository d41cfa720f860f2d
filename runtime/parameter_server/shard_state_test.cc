// The state of a shard: captured, restored, written, and copied to a replica.
#include <atomic>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/shard_test_util.h"

namespace tandem::parameter_server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Answered = absl::AnyInvocable<void(absl::Status)>;

std::vector<Tensor> Number(int64_t n) { return {Tensor::Scalar<int64_t>(n)}; }
std::vector<Tensor> Ones() { return {Tensor::Vector<float>({1, 1, 1, 1})}; }

// What an ordered shard has applied.
class AppliedLog {
 public:
  explicit AppliedLog(bool keeps_answers = false) : keeps_answers_(keeps_answers) {}

  ShardOptions Options() {
    ShardOptions options;
    options.ordered = true;
    options.on_applied = [this](AppliedPush push, Answered answered) {
      {
        MutexLock lock(mu_);
        pushes_.push_back(std::move(push));
        if (keeps_answers_) answers_.push_back(std::move(answered));
      }
      if (answered) answered(absl::OkStatus());
    };
    return options;
  }
  std::vector<AppliedPush> pushes() {
    MutexLock lock(mu_);
    return pushes_;
  }
  std::vector<Answered> TakeAnswers() {
    MutexLock lock(mu_);
    return std::exchange(answers_, {});
  }

 private:
  const bool keeps_answers_;
  Mutex mu_;
  std::vector<AppliedPush> pushes_ ABSL_GUARDED_BY(mu_);
  std::vector<Answered> answers_ ABSL_GUARDED_BY(mu_);
};

void ExpectSameState(Shard& a, Shard& b) {
  const auto left = a.Capture();
  const auto right = b.Capture();
  ASSERT_TRUE(left.ok() && right.ok()) << left.status() << right.status();
  EXPECT_EQ(left->version, right->version);
  ASSERT_EQ(left->variables.size(), right->variables.size());
  for (size_t i = 0; i < left->variables.size(); ++i) {
    EXPECT_EQ(left->variables[i].first, right->variables[i].first);
    EXPECT_TRUE(SameBits(left->variables[i].second, right->variables[i].second))
        << left->variables[i].first;
  }
  ASSERT_EQ(left->applied.size(), right->applied.size());
  for (size_t i = 0; i < left->applied.size(); ++i) {
    EXPECT_EQ(left->applied[i].SerializeAsString(), right->applied[i].SerializeAsString());
  }
}

TEST(ShardState, CaptureDuringPushesIsOneVersion) {
  const auto shard = MakeShard(CounterDefinition());
  constexpr int kThreads = 3;
  constexpr int64_t kPushes = 150;
  std::atomic<int> at_work{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t sequence = 1; sequence <= kPushes; ++sequence) {
        const PushId id = Id(10 + static_cast<uint64_t>(t), sequence);
        EXPECT_TRUE(StartPush(*shard, id, "pair/push", Ones()).status().ok());
      }
      at_work.fetch_sub(1);
    });
  }
  int64_t captures = 0;
  do {
    const auto state = shard->Capture();
    ASSERT_TRUE(state.ok()) << state.status();
    const std::vector<float> sum = Floats(state->variables[1].second);
    ASSERT_EQ(sum, Floats(state->variables[2].second));
    ASSERT_EQ(sum[0], static_cast<float>(state->version - 1));
    int64_t applied = 0;
    for (const AppliedSequences& client : state->applied) {
      for (int i = 0; i < client.first_size(); ++i) applied += client.last(i) - client.first(i) + 1;
    }
    ASSERT_EQ(applied, state->version);
    ++captures;
  } while (at_work.load() > 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(captures, 1);
  EXPECT_EQ(shard->version(), 1 + kThreads * kPushes);
}

TEST(ShardState, WhatWasCapturedDoesNotChange) {
  const auto shard = MakeShard(CounterDefinition());
  const auto state = shard->Capture();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(StartPush(*shard, Id(7, 1), "pair/push", Ones()).status().ok());
  EXPECT_THAT(Floats(state->variables[1].second), ElementsAre(0, 0, 0, 0));
}

TEST(ShardState, ARestoredShardKnowsWhatWasApplied) {
  absl::StatusOr<ShardState> state = absl::UnknownError("");
  {
    const auto shard = MakeShard(CounterDefinition());
    for (int64_t sequence : {1, 2, 4}) {
      ASSERT_TRUE(StartPush(*shard, Id(7, sequence, 1), "count/push", Number(10)).status().ok());
    }
    state = shard->Capture();
    ASSERT_TRUE(state.ok()) << state.status();
    // Lost with the server.
    ASSERT_TRUE(StartPush(*shard, Id(7, 5), "count/push", Number(10)).status().ok());
  }
  const Definition definition = CounterDefinition();
  const auto shard = *Shard::Create({});
  ASSERT_TRUE(shard->Extend(definition.graph, definition.programs, definition.variables).ok());
  const PendingCall pull = StartPull(*shard, "read/pull", {}, 4);
  ASSERT_TRUE(shard->Restore(*state).ok());
  EXPECT_TRUE(pull.status().ok());
  EXPECT_EQ(shard->version(), 4);
  EXPECT_EQ(shard->newest().back().sequence(), 4);
  for (int64_t sequence : {1, 2, 4, 5, 3, 5}) {
    EXPECT_TRUE(StartPush(*shard, Id(7, sequence), "count/push", Number(10)).status().ok());
  }
  EXPECT_EQ(Count(*shard), 50);
  EXPECT_EQ(shard->version(), 6);
}

TEST(ShardState, AStateThatDoesNotFitChangesNothing) {
  const auto shard = MakeShard(CounterDefinition());
  ASSERT_TRUE(StartPush(*shard, Id(7, 1), "count/push", Number(3)).status().ok());
  const auto good = shard->Capture();
  ASSERT_TRUE(good.ok()) << good.status();
  const auto changed = [&](auto change) {
    ShardState state = *good;
    state.version = 70;
    state.variables[0].second = Tensor::Scalar<int64_t>(999);
    change(state);
    return shard->Restore(std::move(state));
  };
  EXPECT_EQ(changed([](ShardState& s) { s.variables.pop_back(); }).code(),
            absl::StatusCode::kNotFound);
  const absl::Status unknown = changed([](ShardState& s) { s.variables[1].first = "sun"; });
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("'sum'"));
  for (const absl::Status& status :
       {changed([](ShardState& s) {
          s.variables[1].second = Tensor::Vector<float>({1, 2});
        }),
        changed([](ShardState& s) {
          s.variables[1].second = Tensor::Vector<double>({1, 2, 3, 4});
        }),
        changed([](ShardState& s) { s.variables[1].second = Tensor(); }),
        changed([](ShardState& s) { s.variables[1] = s.variables[2]; }),
        changed([](ShardState& s) { s.version = -1; }),
        changed([](ShardState& s) { s.applied[0].set_newest(-1); })}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  EXPECT_EQ(Count(*shard), 3);
  EXPECT_EQ(shard->version(), 2);
  EXPECT_TRUE(StartPush(*shard, Id(7, 1), "count/push", Number(3)).status().ok());
  EXPECT_EQ(Count(*shard), 3);
}

TEST(ShardState, RestoreEndsPushesThatWait) {
  const auto shard = MakeShard(CounterDefinition());
  const auto state = shard->Capture();
  ASSERT_TRUE(state.ok()) << state.status();
  const Round round = RoundOf(1, 0, 2);
  const PendingCall part = StartPush(*shard, Id(7, 1), "count/push", Number(3), &round);
  const PendingCall same = StartPush(*shard, Id(7, 1), "count/push", Number(3), &round);
  ASSERT_TRUE(shard->Restore(*state).ok());
  EXPECT_EQ(part.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(same.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(StartPush(*shard, Id(7, 1), "count/push", Number(3)).status().ok());
  EXPECT_EQ(Count(*shard), 3);
}

TEST(ShardState, ReadsAndWritesSomeVariables) {
  const auto shard = MakeShard(CounterDefinition());
  const int64_t changes = shard->changes();
  ASSERT_TRUE(shard
                  ->Write({{"twin", Tensor::Vector<float>({5, 6, 7, 8})},
                           {"count", Tensor::Scalar<int64_t>(4)}})
                  .ok());
  EXPECT_GT(shard->changes(), changes);
  EXPECT_EQ(shard->version(), 1);
  const auto values = shard->Read({"twin", "sum"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(Floats((*values)[0]), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(Floats((*values)[1]), ElementsAre(0, 0, 0, 0));
  const auto all = shard->Read({"count", "sum", "twin"});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)[0].ScalarValue<int64_t>(), 4);
  EXPECT_TRUE(shard->Read({})->empty());

  EXPECT_EQ(shard->Read({"twim"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(shard->Write({{"twim", Tensor::Scalar(1.f)}}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(
      shard->Write({{"count", Tensor::Scalar<int64_t>(9)}, {"sum", Tensor::Scalar(1.f)}}).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Count(*shard), 4);
}

TEST(ShardState, CaptureGivesUpOnAnUpdateThatDoesNotEnd) {
  ShardOptions options;
  options.patience = absl::Milliseconds(20);
  const auto shard = MakeShard(CounterDefinition(), std::move(options));
  Hold hold;
  const PendingCall call = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  hold.WaitForRuns(1);
  const absl::Status status = shard->Capture().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  // Pushes go on.
  EXPECT_TRUE(StartPush(*shard, Id(7, 2), "pair/push", Ones()).status().ok());
  hold.Release();
  EXPECT_TRUE(call.status().ok());
  EXPECT_TRUE(shard->Capture().ok());
}

TEST(ShardState, PushesWaitForACaptureThatWaitsForAnUpdate) {
  const auto shard = MakeShard(CounterDefinition());
  Hold hold;
  const PendingCall running = StartPush(*shard, Id(7, 1), "count/push", Number(5));
  hold.WaitForRuns(1);
  absl::StatusOr<ShardState> state = absl::UnknownError("");
  std::thread capture([&] { state = shard->Capture(); });
  // From some moment on pushes are held.
  std::vector<PendingCall> calls;
  CancellationManager cancellation;
  int64_t sequence = 2;
  while (shard->status().waiting == 0) {
    calls.push_back(
        StartPush(*shard, Id(7, sequence++), "pair/push", Ones(), nullptr, &cancellation));
    std::this_thread::yield();
  }
  const PendingCall held = calls.back();
  calls.pop_back();
  for (const PendingCall& call : calls) EXPECT_TRUE(call.status().ok());
  EXPECT_FALSE(held.is_done());
  const PendingCall stays = StartPush(*shard, Id(7, sequence), "pair/push", Ones());
  cancellation.Cancel(absl::CancelledError("a test's"));
  EXPECT_EQ(held.status().code(), absl::StatusCode::kCancelled);
  hold.Release();
  capture.join();
  EXPECT_TRUE(running.status().ok());
  EXPECT_TRUE(stays.status().ok());
  ASSERT_TRUE(state.ok()) << state.status();
  const auto before = static_cast<float>(calls.size());
  EXPECT_EQ(state->version, 2 + static_cast<int64_t>(calls.size()));
  EXPECT_EQ(Floats(state->variables[1].second)[0], before);
  EXPECT_EQ(Floats((*shard->Read({"sum"}))[0])[0], before + 1);
}

TEST(ShardState, AReplicaThatAppliesTheSameHasTheSameBits) {
  AppliedLog log;
  const auto shard = MakeShard(OptimizerDefinition(), log.Options());
  constexpr int kThreads = 3;
  constexpr int64_t kPushes = 60;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      std::uniform_real_distribution<float> value(-1, 1);
      for (int64_t sequence = 1; sequence <= kPushes; ++sequence) {
        const PushId id =
            Id(10 + static_cast<uint64_t>(t), sequence, std::max<int64_t>(1, sequence - 4));
        const std::vector<Tensor> arguments = {
            Tensor::Vector<float>({value(random), value(random), value(random)}),
            Tensor::FromValues<float>({3, 2}, {value(random), value(random), value(random),
                                               value(random), value(random), value(random)}),
            Tensor::Vector<int64_t>({static_cast<int64_t>(random() % 10),
                                     static_cast<int64_t>(random() % 10),
                                     static_cast<int64_t>(random() % 10)})};
        // Twice at the same time, as after a lost answer.
        const PendingCall first = StartPush(*shard, id, "train/push", arguments);
        const PendingCall second = StartPush(*shard, id, "train/push", arguments);
        EXPECT_TRUE(first.status().ok()) << first.status();
        EXPECT_TRUE(second.status().ok()) << second.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<AppliedPush> pushes = log.pushes();
  ASSERT_EQ(pushes.size(), 1u + kThreads * kPushes);
  for (size_t i = 0; i < pushes.size(); ++i) {
    ASSERT_EQ(pushes[i].version, static_cast<int64_t>(i) + 1);
  }
  const Definition definition = OptimizerDefinition();
  const auto replica = *Shard::Create({});
  ASSERT_TRUE(replica->Extend(definition.graph, definition.programs, definition.variables).ok());
  for (const AppliedPush& push : pushes) {
    const absl::Status applied = replica->Apply(push);
    ASSERT_TRUE(applied.ok()) << applied;
    // Sent again, after a lost answer.
    if (push.version % 5 == 0) {
      EXPECT_TRUE(replica->Apply(push).ok());
    }
  }
  ExpectSameState(*shard, *replica);
}

TEST(ShardState, AReplicaThatJoinsLaterBeginsWithTheState) {
  AppliedLog log;
  const auto shard = MakeShard(CounterDefinition(), log.Options());
  const auto part = [&](int64_t sequence, int64_t number, int part, float value) {
    const Round round = RoundOf(number, part, 2);
    return StartPush(*shard, Id(7, sequence), "pair/push",
                     {Tensor::Vector<float>({value, value, value, value})}, &round);
  };
  const PendingCall first = part(1, 1, 0, 0.1f);
  ASSERT_TRUE(part(2, 1, 1, 0.7f).status().ok());
  ASSERT_TRUE(first.status().ok());
  const auto state = shard->Capture();
  ASSERT_TRUE(state.ok()) << state.status();
  const Definition definition = CounterDefinition();
  const auto replica = *Shard::Create({});
  ASSERT_TRUE(replica->Extend(definition.graph, definition.programs, definition.variables).ok());
  ASSERT_TRUE(replica->Restore(*state).ok());
  const PendingCall third = part(3, 2, 0, 0.3f);
  ASSERT_TRUE(part(4, 2, 1, 1e-5f).status().ok());
  ASSERT_TRUE(third.status().ok());
  const std::vector<AppliedPush> pushes = log.pushes();
  ASSERT_EQ(pushes.size(), 3u);
  EXPECT_EQ(pushes[2].ids.size(), 2u);
  // What is in the state already may come again.
  EXPECT_TRUE(replica->Apply(pushes[1]).ok());
  EXPECT_TRUE(replica->Apply(pushes[2]).ok());
  ExpectSameState(*shard, *replica);
  // The replica knows the names when it takes over.
  EXPECT_TRUE(StartPush(*replica, Id(7, 4), "pair/push", Ones()).status().ok());
  EXPECT_EQ(replica->version(), 3);
}

TEST(ShardState, AReplicaRefusesWhatIsNotNext) {
  AppliedLog log;
  const auto shard = MakeShard(CounterDefinition(), log.Options());
  ASSERT_TRUE(StartPush(*shard, Id(7, 1), "count/push", Number(3)).status().ok());
  ASSERT_TRUE(StartPush(*shard, Id(7, 2), "count/push", Number(3)).status().ok());
  const std::vector<AppliedPush> pushes = log.pushes();
  const Definition definition = CounterDefinition();
  const auto replica = *Shard::Create({});
  ASSERT_TRUE(replica->Extend(definition.graph, definition.programs, definition.variables).ok());
  ASSERT_TRUE(replica->Apply(pushes[0]).ok());
  EXPECT_EQ(replica->Apply(pushes[2]).code(), absl::StatusCode::kFailedPrecondition);
  // Of a version that it has, but another push.
  AppliedPush other = pushes[0];
  other.ids = {Id(7, 1)};
  EXPECT_EQ(replica->Apply(other).code(), absl::StatusCode::kFailedPrecondition);
  AppliedPush nameless = pushes[1];
  nameless.ids.clear();
  EXPECT_EQ(replica->Apply(nameless).code(), absl::StatusCode::kInvalidArgument);
  AppliedPush unknown = pushes[1];
  unknown.program = "cuont/push";
  EXPECT_EQ(replica->Apply(unknown).code(), absl::StatusCode::kNotFound);
  AppliedPush bad = pushes[1];
  bad.arguments = {Tensor::Scalar(1.f)};
  EXPECT_EQ(replica->Apply(bad).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(replica->version(), 1);
  EXPECT_TRUE(replica->Apply(pushes[1]).ok());
  EXPECT_TRUE(replica->Apply(pushes[2]).ok());
  EXPECT_EQ(Count(*replica), 6);
}

TEST(ShardState, AnOrderedPushIsAnsweredWhenTheReplicaHasIt) {
  AppliedLog log(/*keeps_answers=*/true);
  const Definition definition = CounterDefinition();
  const auto shard = *Shard::Create(log.Options());
  ASSERT_TRUE(shard->Extend(definition.graph, definition.programs, definition.variables).ok());
  const auto next_answer = [&] {
    std::vector<Answered> answers;
    while (answers.empty()) {
      answers = log.TakeAnswers();
      std::this_thread::yield();
    }
    EXPECT_EQ(answers.size(), 1u);
    return std::move(answers[0]);
  };
  const PendingCall init = StartPush(*shard, Id(1, 1), "init/push", {});
  next_answer()(absl::OkStatus());
  EXPECT_TRUE(init.status().ok());

  const PendingCall first = StartPush(*shard, Id(7, 1), "count/push", Number(3));
  Answered answered = next_answer();
  // It is applied here, and nobody is told yet.
  EXPECT_EQ(shard->version(), 2);
  EXPECT_EQ(Count(*shard), 3);
  const PendingCall again = StartPush(*shard, Id(7, 1), "count/push", Number(3));
  EXPECT_FALSE(first.is_done());
  EXPECT_FALSE(again.is_done());
  // A state that is captured now has it, with its name.
  const auto state = shard->Capture();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->version, 2);
  EXPECT_EQ(state->applied.back().newest(), 1);
  // The next ones do not wait for the replica.
  const PendingCall second = StartPush(*shard, Id(7, 2), "count/push", Number(3));
  Answered second_answered = next_answer();
  answered(absl::OkStatus());
  EXPECT_TRUE(first.status().ok());
  EXPECT_TRUE(again.status().ok());
  EXPECT_FALSE(second.is_done());
  second_answered(absl::UnavailableError("the replica is lost"));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  // It counts all the same.
  EXPECT_TRUE(StartPush(*shard, Id(7, 2), "count/push", Number(3)).status().ok());
  EXPECT_EQ(Count(*shard), 6);

  const PendingCall third = StartPush(*shard, Id(7, 3), "count/push", Number(3));
  { const Answered forgotten = next_answer(); }
  EXPECT_EQ(third.status().code(), absl::StatusCode::kInternal);
}

TEST(ShardState, AnOrderedShardRunsOneUpdateAtATime) {
  AppliedLog log;
  const auto shard = MakeShard(CounterDefinition(), log.Options());
  Hold hold;
  const PendingCall first = StartPush(*shard, Id(7, 1), "count/push", Number(3));
  hold.WaitForRuns(1);
  const PendingCall second = StartPush(*shard, Id(7, 2), "pair/push", Ones());
  CancellationManager cancellation;
  const PendingCall third =
      StartPush(*shard, Id(7, 3), "pair/push", Ones(), nullptr, &cancellation);
  EXPECT_EQ(shard->status().waiting, 2);
  cancellation.Cancel(absl::CancelledError("a test's"));
  EXPECT_EQ(third.status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(second.is_done());
  hold.Release();
  EXPECT_TRUE(first.status().ok());
  EXPECT_TRUE(second.status().ok());
  EXPECT_EQ(shard->version(), 3);
  // The one that was cancelled was not applied, and may be.
  EXPECT_TRUE(StartPush(*shard, Id(7, 3), "pair/push", Ones()).status().ok());
  EXPECT_EQ(Floats((*shard->Read({"sum"}))[0])[0], 2);
}

}  // namespace
}  // namespace tandem::parameter_server
