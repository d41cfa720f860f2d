// BriefWork: what the thread that starts a step does of it by itself.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/graph/scope.h"
#include "core/kernel/factories.h"
#include "gtest/gtest.h"
#include "runtime/executor/scheduler.h"
#include "runtime/session/session.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

// Where its kernels ran, and how long the next ones take.
struct Watched {
  Mutex mu;
  std::vector<std::thread::id> threads ABSL_GUARDED_BY(mu);
  absl::Duration takes ABSL_GUARDED_BY(mu) = absl::ZeroDuration();
};
Watched& TheWatched() {
  static Watched* const watched = new Watched;
  return *watched;
}

absl::Status WatchedCompute(KernelContext& c) {
  Watched& watched = TheWatched();
  absl::Duration takes;
  {
    MutexLock lock(watched.mu);
    watched.threads.push_back(std::this_thread::get_id());
    takes = watched.takes;
  }
  if (takes > absl::ZeroDuration()) absl::SleepFor(takes);
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}
TANDEM_OP("_TestWatched")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Stateful()
    .Cpu(Function(WatchedCompute));

// Waits until it is told to go on.
struct Gate {
  Mutex mu;
  std::vector<AsyncKernel::Done> waiting ABSL_GUARDED_BY(mu);
};
Gate& TheGate() {
  static Gate* const gate = new Gate;
  return *gate;
}
class WaitAtGateKernel final : public AsyncKernel {
 public:
  void Start(KernelContext& c, Done done) override {
    c.SetOutput(0, c.input(0));
    MutexLock lock(TheGate().mu);
    TheGate().waiting.push_back(std::move(done));
  }
};
TANDEM_OP("_TestWaitAtGate")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Stateful()
    .Cpu(Make<WaitAtGateKernel>());

class BriefWorkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Scope s = Scope::NewRoot();
    const Output x = s.WithOpName("x").Call("Placeholder", {},
                                            {{"dtype", kFloat32}, {"shape", PartialShape({})}});
    const Output watched = s.WithOpName("y").Call("_TestWatched", {x});
    s.WithOpName("z").Call("_TestWatched", {s.Call("_TestWaitAtGate", {watched})});
    ASSERT_TRUE(s.ok()) << s.status();
    auto session = Session::Create(*s.graph());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    short_ = MakeCallable("y:0");
    waits_ = MakeCallable("z:0");
    Take(absl::ZeroDuration());
  }

  std::unique_ptr<Session::Callable> MakeCallable(const std::string& fetch) {
    auto callable = session_->MakeCallable({{"x:0"}, {fetch}, {}});
    EXPECT_TRUE(callable.ok()) << callable.status();
    return *std::move(callable);
  }

  static void Take(absl::Duration time) {
    MutexLock lock(TheWatched().mu);
    TheWatched().takes = time;
  }
  static std::vector<std::thread::id> Threads() {
    MutexLock lock(TheWatched().mu);
    return std::exchange(TheWatched().threads, {});
  }

  struct Ended {
    Event event;
    bool is_over_after_scope = false;
    std::thread::id thread;
  };
  // Starts it in a scope of BriefWork.
  static void StartBriefly(Session::Callable& callable, Ended& ended) {
    {
      BriefWork brief;
      callable.Start({Tensor::Scalar<float>(3)}, {}, nullptr,
                     [&ended](const absl::StatusOr<std::vector<Tensor>>& results) {
                       EXPECT_TRUE(results.ok()) << results.status();
                       if (results.ok()) {
                         EXPECT_EQ((*results)[0].ScalarValue<float>(), 3);
                       }
                       ended.thread = std::this_thread::get_id();
                       ended.event.Set();
                     });
    }
    ended.is_over_after_scope = ended.event.IsSet();
    ended.event.Wait();
  }
  // Until what it costs is known.
  static void Learn(Session::Callable& callable) {
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(callable.Run({Tensor::Scalar<float>(3)}).ok());
    (void)Threads();
  }

  std::unique_ptr<Session> session_;
  std::unique_ptr<Session::Callable> short_;
  std::unique_ptr<Session::Callable> waits_;
};

TEST_F(BriefWorkTest, WhatIsKnownToBeShortIsDoneWhereItIsStarted) {
  Learn(*short_);
  for (int i = 0; i < 20; ++i) {
    Ended ended;
    StartBriefly(*short_, ended);
    EXPECT_TRUE(ended.is_over_after_scope);
    EXPECT_EQ(ended.thread, std::this_thread::get_id());
    EXPECT_EQ(Threads(), std::vector<std::thread::id>{std::this_thread::get_id()});
  }
  EXPECT_FALSE(ThisThreadHoldsRunToken());
}

TEST_F(BriefWorkTest, WhatIsNotKnownOrLongIsDoneElsewhere) {
  Ended first;
  StartBriefly(*short_, first);
  EXPECT_NE(first.thread, std::this_thread::get_id());
  EXPECT_NE(Threads()[0], std::this_thread::get_id());
  // Long ones.
  Take(absl::Milliseconds(5));
  Learn(*short_);
  for (int i = 0; i < 5; ++i) {
    Ended ended;
    StartBriefly(*short_, ended);
    EXPECT_NE(ended.thread, std::this_thread::get_id());
    EXPECT_NE(Threads()[0], std::this_thread::get_id());
  }
}

TEST_F(BriefWorkTest, WhatWaitsDoesNotHoldTheThread) {
  // Its first node runs here once it is known; what may wait, and what comes after, elsewhere.
  for (int i = 0; i < 10; ++i) {
    Event over;
    std::thread::id ended_on;
    {
      BriefWork brief;
      waits_->Start({Tensor::Scalar<float>(3)}, {}, nullptr,
                    [&](const absl::StatusOr<std::vector<Tensor>>& results) {
                      EXPECT_TRUE(results.ok()) << results.status();
                      ended_on = std::this_thread::get_id();
                      over.Set();
                    });
    }
    EXPECT_FALSE(over.IsSet());
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    std::vector<AsyncKernel::Done> waiting;
    while (waiting.empty() && absl::Now() < deadline) {
      MutexLock lock(TheGate().mu);
      waiting.swap(TheGate().waiting);
    }
    ASSERT_EQ(waiting.size(), 1u);
    waiting[0](absl::OkStatus());
    over.Wait();
    EXPECT_NE(ended_on, std::this_thread::get_id());
  }
}

TEST_F(BriefWorkTest, WithoutAFreeCoreOthersDoIt) {
  Learn(*short_);
  RunTokens& tokens = RunTokens::Process();
  const int taken = tokens.capacity();
  // Helpers of earlier steps are on their way to sleep.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  bool has_all = false;
  while (!has_all && absl::Now() < deadline) has_all = tokens.TryAcquire(taken);
  ASSERT_TRUE(has_all);
  Event over;
  std::thread::id ended_on;
  {
    BriefWork brief;
    short_->Start({Tensor::Scalar<float>(3)}, {}, nullptr,
                  [&](const absl::StatusOr<std::vector<Tensor>>&) {
                    ended_on = std::this_thread::get_id();
                    over.Set();
                  });
  }
  for (int i = 0; i < taken; ++i) tokens.Release();
  over.Wait();
  EXPECT_NE(ended_on, std::this_thread::get_id());
  // Nobody has kept one.
  while (tokens.free_now() != taken && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(tokens.free_now(), taken);
}

TEST_F(BriefWorkTest, NotAllThreadsDoItAtOnce) {
  Learn(*short_);
  // As many scopes as may, and one more, each on a thread that goes on only when all have begun;
  // the kernels tell where they ran.
  const int most = std::clamp(RunTokens::Process().capacity() / 2 - 1, 1, 15);
  const int count = most + 1;
  Mutex mu;
  CondVar changed;
  int started = 0;
  int here = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&] {
      Ended ended;
      {
        BriefWork brief;
        short_->Start({Tensor::Scalar<float>(3)}, {}, nullptr,
                      [&](const absl::StatusOr<std::vector<Tensor>>&) {
                        ended.thread = std::this_thread::get_id();
                        ended.event.Set();
                      });
        // The scope has taken the step on, or not, and has not ended.
        MutexLock lock(mu);
        ++started;
        changed.NotifyAll();
        while (started < count) changed.Wait(mu);
      }
      ended.event.Wait();
      MutexLock lock(mu);
      if (ended.thread == std::this_thread::get_id()) ++here;
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(mu);
  EXPECT_LE(here, most);
  EXPECT_GE(here, 1);
}

}  // namespace
}  // namespace tandem
