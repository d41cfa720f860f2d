// Several members in one process, each on threads of its own, over real sockets.
#include "strategies/multi_worker_mirrored/worker_group.h"

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "gtest/gtest.h"
#include "runtime/cluster/membership/rendezvous.h"
#include "runtime/rpc/security.h"

namespace tandem {
namespace {

// An address of this test process's own, so that ports cannot collide: numbers of processes repeat
// in sandboxes.
std::string Host() {
  static const std::string host = [] {
    std::random_device random;
    return absl::StrCat("127.", 10 + random() % 200, ".", 1 + random() % 250, ".",
                        1 + random() % 250);
  }();
  return host;
}

// A worker's program, whose whole state is one number and a text.
class Program final : public WorkerGroup::Party {
 public:
  std::string occupation() const override { return does; }
  int64_t completed_step() const override { return step; }
  absl::StatusOr<StrategyState> Give() override {
    ++given;
    if (!give.ok()) return give;
    return StrategyState{{"step", Tensor::Scalar<int64_t>(step)},
                         {"text", Tensor::Vector<std::string>({"of step", absl::StrCat(step)})},
                         {"large", Tensor::Zeros(kFloat32, Shape({100000}))}};
  }
  absl::Status Take(StrategyState state) override {
    ++taken;
    if (!take.ok()) return take;
    EXPECT_EQ(state.size(), 3u);
    step = state[0].second.ScalarValue<int64_t>();
    EXPECT_EQ(state[1].second.Elements<std::string>()[1], absl::StrCat(step));
    EXPECT_EQ(state[2].second.shape(), Shape({100000}));
    return absl::OkStatus();
  }
  absl::Status TakeCheckpoint() override {
    ++read;
    if (checkpoint < 0) return errors::DataLoss("the checkpoint is damaged");
    step = checkpoint;
    return absl::OkStatus();
  }
  absl::Status CheckStop() const override {
    MutexLock lock(mu_);
    return stop_;
  }

  void Stop(const absl::Status& status) {
    MutexLock lock(mu_);
    stop_ = status;
  }

  std::string does = "a training";
  int64_t step = -1;
  int64_t checkpoint = -1;
  absl::Status give;
  absl::Status take;
  int given = 0;
  int taken = 0;
  int read = 0;

 private:
  mutable Mutex mu_;
  absl::Status stop_ ABSL_GUARDED_BY(mu_);
};

struct Worker {
  std::unique_ptr<MultiWorkerGroup> group;
  Program program;

  absl::Status Meet() { return group->Meet(program); }
  // As the trainer: a step, and what is to be done after it.
  absl::StatusOr<WorkerGroup::Advice> TakeStep() {
    ++program.step;
    return group->CompletedStep(program.step);
  }
  int64_t generation() const {
    return group->between()->Describe(CollectiveGroup{.size = 1}).generation;
  }
};

void Together(const std::vector<std::function<void()>>& actions) {
  std::vector<std::thread> threads;
  for (const auto& action : actions) threads.emplace_back(action);
  for (std::thread& thread : threads) thread.join();
}

class WorkerGroupTest : public ::testing::Test {
 protected:
  WorkerGroupTest() {
    first_port_ = next_port_ += 20;
    setenv("TANDEM_FLIGHT_DIR", ::testing::TempDir().c_str(), 1);
  }

  std::string Address(int index) const { return absl::StrCat(Host(), ":", first_port_ + index); }

  // A member of a job whose tasks, `known` of them, stand in TF_CONFIG.
  WorkerGroupOptions Options(int index, int known, int min, int max) const {
    WorkerGroupOptions options;
    options.job.source = "TF_CONFIG";
    for (int i = 0; i < known; ++i) options.job.config.jobs["worker"][i] = Address(i);
    options.job.config.jobs["worker"][index] = Address(index);
    options.job.config.task = TaskId{"worker", index};
    options.job.min_workers = min;
    options.job.max_workers = max;
    // Slow enough for a busy machine, quick enough for a test. Who is destroyed is missed at once:
    // nobody listens there any more.
    options.heartbeat = absl::Milliseconds(200);
    options.lost_after = absl::Seconds(3);
    options.start_timeout = absl::Seconds(60);
    return options;
  }

  static std::unique_ptr<MultiWorkerGroup> Make(WorkerGroupOptions options) {
    auto group = MultiWorkerGroup::Create(std::move(options));
    EXPECT_TRUE(group.ok()) << group.status();
    return *std::move(group);
  }

  // All tasks of a job, of which `min` will do.
  std::deque<Worker> MakeAll(int count, int min,
                             const std::function<void(WorkerGroupOptions&)>& edit = nullptr) const {
    std::deque<Worker> workers(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      WorkerGroupOptions options = Options(i, count, min, count);
      if (edit) edit(options);
      workers[static_cast<size_t>(i)].group = Make(std::move(options));
    }
    return workers;
  }

  static void MeetAll(std::deque<Worker>& workers) {
    std::vector<std::function<void()>> actions;
    for (Worker& worker : workers) {
      if (worker.group == nullptr) continue;
      actions.push_back([&worker] {
        const absl::Status met = worker.Meet();
        EXPECT_TRUE(met.ok()) << met;
      });
    }
    Together(actions);
  }

  static void LeaveAll(std::deque<Worker>& workers) {
    std::vector<std::function<void()>> actions;
    for (Worker& worker : workers) {
      if (worker.group != nullptr) actions.push_back([&worker] { worker.group->Leave(); });
    }
    Together(actions);
  }

  // Until the group is lost; a minute at most.
  static bool Loses(const Worker& worker) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (worker.group->has_met()) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }

 private:
  static int next_port_;
  int first_port_ = 0;
};

int WorkerGroupTest::next_port_ = 22000;

TEST_F(WorkerGroupTest, AllMeetAndKnowTheirPlaces) {
  auto workers = MakeAll(3, 3);
  for (int i = 0; i < 3; ++i) {
    // As the configuration has it.
    EXPECT_EQ(workers[i].group->rank(), i);
    EXPECT_EQ(workers[i].group->size(), 3);
    EXPECT_EQ(workers[i].group->is_chief(), i == 0);
    EXPECT_FALSE(workers[i].group->has_met());
    EXPECT_TRUE(absl::IsAborted(workers[i].group->CompletedStep(0).status()));
    EXPECT_TRUE(absl::IsAborted(workers[i].group->Barrier("early")));
  }
  MeetAll(workers);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(workers[i].group->rank(), i);
    EXPECT_EQ(workers[i].group->size(), 3);
    EXPECT_EQ(workers[i].group->is_chief(), i == 0);
    EXPECT_TRUE(workers[i].group->has_met());
    EXPECT_TRUE(workers[i].group->TakeEvents().empty());
    EXPECT_EQ(workers[i].program.given + workers[i].program.taken + workers[i].program.read, 0);
    const CollectiveGroup all = workers[i].group->between()->Describe(CollectiveGroup{.size = 1});
    EXPECT_EQ(all.size, 3);
    EXPECT_EQ(all.first, i);
    EXPECT_EQ(all.generation, workers[0].generation());
  }
  LeaveAll(workers);
  for (Worker& worker : workers) {
    EXPECT_FALSE(worker.group->has_met());
    EXPECT_TRUE(absl::IsCancelled(worker.Meet()));
    worker.group->Leave();
  }
}

TEST_F(WorkerGroupTest, TheNewestStateGoesToAllThatAreBehind) {
  auto workers = MakeAll(4, 4);
  workers[1].program.step = 7;
  workers[2].program.step = 5;
  workers[3].program.step = 7;
  MeetAll(workers);
  for (Worker& worker : workers) EXPECT_EQ(worker.program.step, 7);
  EXPECT_EQ(workers[0].program.taken, 1);
  EXPECT_EQ(workers[2].program.taken, 1);
  // One of those that are furthest gives it.
  EXPECT_EQ(workers[1].program.given + workers[3].program.given, 1);
  EXPECT_EQ(workers[1].program.taken + workers[3].program.taken, 0);
  // The next step is one of all.
  for (Worker& worker : workers) {
    const auto advice = worker.TakeStep();
    ASSERT_TRUE(advice.ok()) << advice.status();
    EXPECT_FALSE(advice->save);
    EXPECT_FALSE(advice->meet);
  }
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, WhoComesLaterIsTakenInAfterAStepThatAllAgreeOn) {
  membership::MemoryArbiter arbiter;
  const auto server =
      membership::RendezvousServer::Start(absl::StrCat(Host(), ":0"), Security(), &arbiter);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto make = [&](int index) {
    WorkerGroupOptions options = Options(index, 0, 1, 3);
    options.job.rendezvous = (*server)->address();
    return Make(std::move(options));
  };
  Worker first{make(0)};
  ASSERT_TRUE(first.Meet().ok());
  EXPECT_EQ(first.group->size(), 1);
  Worker second{make(1)};
  Together({[&] {
              // It trains, until it is told that somebody wants to come.
              WorkerGroup::Advice advice;
              while (!advice.meet) {
                const auto said = first.TakeStep();
                ASSERT_TRUE(said.ok()) << said.status();
                advice = *said;
                absl::SleepFor(absl::Milliseconds(5));
              }
              EXPECT_FALSE(advice.save);
              EXPECT_FALSE(first.group->has_met());
              const int64_t step = first.program.step;
              const absl::Status met = first.Meet();
              EXPECT_TRUE(met.ok()) << met;
              // No step is lost or repeated.
              EXPECT_EQ(first.program.step, step);
            },
            [&] {
              const absl::Status met = second.Meet();
              EXPECT_TRUE(met.ok()) << met;
            }});
  EXPECT_EQ(second.program.step, first.program.step);
  EXPECT_EQ(second.program.taken, 1);
  EXPECT_EQ(second.group->rank(), 1);
  EXPECT_EQ(first.group->size(), 2);
  const std::vector<MemberEvent> events = first.group->TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, MemberEvent::Kind::kJoined);
  EXPECT_EQ(events[0].member, "/job:worker/task:1");
  EXPECT_TRUE(absl::StrContains(events[0].reason, Address(1))) << events[0].reason;
  EXPECT_EQ(events[0].generation, first.generation());
  EXPECT_TRUE(second.group->TakeEvents().empty());
  Together({[&] { first.group->Leave(); }, [&] { second.group->Leave(); }});
}

TEST_F(WorkerGroupTest, TheOthersGoOnWithTheNewestStateWhenAMemberIsLost) {
  auto workers = MakeAll(3, 2);
  for (Worker& worker : workers) worker.program.step = 3;
  MeetAll(workers);
  // One has completed another step when the third one dies.
  ASSERT_TRUE(workers[1].TakeStep().ok());
  absl::Status waited;
  std::thread waiter([&] { waited = workers[0].group->Barrier("never"); });
  workers[2].group.reset();
  waiter.join();
  EXPECT_TRUE(absl::IsAborted(waited)) << waited;
  EXPECT_TRUE(absl::StrContains(waited.message(), "worker:2")) << waited;
  ASSERT_TRUE(Loses(workers[1]));
  // A step that it completed nevertheless counts.
  EXPECT_TRUE(absl::IsAborted(workers[1].TakeStep().status()));
  MeetAll(workers);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(workers[i].program.step, 5);
    EXPECT_EQ(workers[i].group->size(), 2);
    EXPECT_TRUE(workers[i].group->has_met());
    const std::vector<MemberEvent> events = workers[i].group->TakeEvents();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].kind, MemberEvent::Kind::kLeft);
    EXPECT_EQ(events[0].member, "/job:worker/task:2");
    EXPECT_TRUE(absl::StrContains(events[0].reason, "worker:2 at ")) << events[0].reason;
  }
  EXPECT_EQ(workers[1].program.given, 1);
  EXPECT_EQ(workers[0].program.taken, 1);
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, AChiefThatIsLostIsReplacedAndAStepThatRunsEnds) {
  auto workers = MakeAll(3, 2);
  MeetAll(workers);
  const int64_t generation = workers[1].generation();
  // A step's reduction, to which the chief does not come.
  Mutex mu;
  CondVar changed;
  absl::optional<absl::Status> ended;
  CollectiveRequest request;
  request.group = "replicas";
  request.instance = 1024;
  request.step = 1;
  request.node = "gradients";
  workers[1].group->between()->AllReduce(request, {{Tensor::Scalar<float>(1)}},
                                         [&](absl::StatusOr<std::vector<Tensor>> result) {
                                           MutexLock lock(mu);
                                           ended = result.status();
                                           changed.NotifyAll();
                                         });
  workers[0].group.reset();
  {
    MutexLock lock(mu);
    while (!ended.has_value()) {
      ASSERT_TRUE(changed.WaitUntil(mu, absl::Now() + absl::Seconds(60)));
    }
    EXPECT_TRUE(absl::IsAborted(*ended)) << *ended;
    EXPECT_TRUE(absl::StrContains(ended->message(), "worker:0")) << *ended;
  }
  MeetAll(workers);
  EXPECT_TRUE(workers[1].group->is_chief());
  EXPECT_EQ(workers[2].group->rank(), 1);
  EXPECT_GT(workers[1].generation(), generation);
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, WhereNobodyIsMissingTheGroupIsFormedAgain) {
  auto workers = MakeAll(2, 2, [](WorkerGroupOptions& options) {
    options.lost_after = absl::Milliseconds(1500);
    options.transport = collective::TransportKind::kInProcess;
  });
  MeetAll(workers);
  const int64_t generation = workers[0].generation();
  // Something failed at one of them only. The other one notices, and comes, too.
  Together({[&] {
              const absl::Status met = workers[0].Meet();
              EXPECT_TRUE(met.ok()) << met;
            },
            [&] {
              ASSERT_TRUE(Loses(workers[1]));
              const absl::Status met = workers[1].Meet();
              EXPECT_TRUE(met.ok()) << met;
            }});
  EXPECT_GT(workers[0].generation(), generation);
  EXPECT_EQ(workers[0].generation(), workers[1].generation());
  for (Worker& worker : workers) EXPECT_TRUE(worker.group->TakeEvents().empty());
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, StepsThatAreCountedAnewAreThoseOfAnotherGroup) {
  auto workers = MakeAll(2, 2, [](WorkerGroupOptions& options) {
    options.transport = collective::TransportKind::kTcp;
  });
  MeetAll(workers);
  const int64_t generation = workers[0].generation();
  std::vector<std::function<void()>> actions;
  for (Worker& worker : workers) {
    actions.push_back([&worker] {
      worker.program.step = 41;
      auto advice = worker.TakeStep();
      ASSERT_TRUE(advice.ok()) << advice.status();
      EXPECT_FALSE(advice->meet);
      worker.program.step = -1;
      advice = worker.TakeStep();
      ASSERT_TRUE(advice.ok()) << advice.status();
      EXPECT_TRUE(advice->meet);
      EXPECT_FALSE(advice->save);
      const absl::Status met = worker.Meet();
      EXPECT_TRUE(met.ok()) << met;
      EXPECT_EQ(worker.program.step, 0);
      advice = worker.TakeStep();
      ASSERT_TRUE(advice.ok()) << advice.status();
      EXPECT_FALSE(advice->meet);
    });
  }
  Together(actions);
  EXPECT_GT(workers[0].generation(), generation);
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, MembersThatDoDifferentThingsAreNamed) {
  auto workers = MakeAll(2, 2);
  workers[1].program.does = "an evaluation";
  std::vector<std::function<void()>> actions;
  for (Worker& worker : workers) {
    actions.push_back([&worker] {
      const absl::Status met = worker.Meet();
      EXPECT_EQ(met.code(), absl::StatusCode::kFailedPrecondition) << met;
      for (const char* words : {"worker:0", "a training", "worker:1", "an evaluation"}) {
        EXPECT_TRUE(absl::StrContains(met.message(), words)) << met;
      }
      EXPECT_FALSE(worker.group->has_met());
    });
  }
  Together(actions);
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, WhoWaitsForOthersCanBeStopped) {
  Worker worker{Make(Options(0, 2, 2, 2))};
  std::thread stopper([&] {
    absl::SleepFor(absl::Milliseconds(300));
    worker.program.Stop(errors::Cancelled("Ctrl-C"));
  });
  EXPECT_EQ(worker.Meet(), errors::Cancelled("Ctrl-C"));
  stopper.join();
  worker.group->Leave();
}

TEST_F(WorkerGroupTest, WhoIsStoppedWhileOthersConnectToItDoesNotHoldThem) {
  // Two of three will do. The third one has entered the group when it is stopped, and leaves.
  auto workers = MakeAll(3, 2);
  workers[2].program.Stop(errors::Cancelled("Ctrl-C"));
  Together({[&] {
              const absl::Status met = workers[0].Meet();
              EXPECT_TRUE(met.ok()) << met;
            },
            [&] {
              const absl::Status met = workers[1].Meet();
              EXPECT_TRUE(met.ok()) << met;
            },
            [&] {
              EXPECT_EQ(workers[2].Meet(), errors::Cancelled("Ctrl-C"));
              // The membership takes it in meanwhile.
              absl::SleepFor(absl::Seconds(1));
              workers[2].group->Leave();
            }});
  EXPECT_EQ(workers[0].group->size(), 2);
  workers[2].group.reset();
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, WhoDoesNotComeIsNamed) {
  WorkerGroupOptions options = Options(0, 3, 3, 3);
  options.start_timeout = absl::Seconds(1);
  Worker worker{Make(std::move(options))};
  const absl::Status met = worker.Meet();
  EXPECT_EQ(met.code(), absl::StatusCode::kDeadlineExceeded) << met;
  for (const std::string& words : {std::string("worker:1 at "), Address(1), Address(2),
                                   std::string("TF_CONFIG says that there are 3 workers")}) {
    EXPECT_TRUE(absl::StrContains(met.message(), words)) << met;
  }
}

TEST_F(WorkerGroupTest, AMinorityStops) {
  auto workers =
      MakeAll(2, 1, [](WorkerGroupOptions& options) { options.lost_after = absl::Seconds(2); });
  MeetAll(workers);
  workers[0].group.reset();
  const absl::Status met = workers[1].Meet();
  EXPECT_EQ(met.code(), absl::StatusCode::kFailedPrecondition) << met;
  EXPECT_TRUE(absl::StrContains(met.message(), "minority")) << met;
}

TEST_F(WorkerGroupTest, APreemptedMemberLeavesAfterACheckpointOfOneStep) {
  auto workers = MakeAll(3, 2);
  MeetAll(workers);
  // A group takes its steps together: nobody is more than one ahead.
  Mutex mu;
  CondVar changed;
  std::vector<int64_t> begun(3, -1);
  std::vector<int64_t> saved(3, -1);
  std::vector<absl::Status> met(3);
  std::vector<std::function<void()>> actions;
  for (size_t i = 0; i < 3; ++i) {
    actions.push_back([&, i] {
      WorkerGroup::Advice advice;
      while (!advice.meet) {
        {
          MutexLock lock(mu);
          const int64_t step = ++begun[i];
          changed.NotifyAll();
          while (begun[0] < step || begun[1] < step || begun[2] < step) changed.Wait(mu);
          if (i == 2 && step == 5) workers[i].group->RequestPreemption();
        }
        const auto said = workers[i].TakeStep();
        ASSERT_TRUE(said.ok()) << said.status();
        advice = *said;
        if (advice.save) saved[i] = workers[i].program.step;
      }
      met[i] = workers[i].Meet();
    });
  }
  Together(actions);
  EXPECT_GE(saved[0], 5);
  EXPECT_EQ(saved[1], saved[0]);
  EXPECT_EQ(saved[2], saved[0]);
  EXPECT_TRUE(absl::IsCancelled(met[2])) << met[2];
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(met[i].ok()) << met[i];
    EXPECT_EQ(workers[i].group->size(), 2);
    EXPECT_EQ(workers[i].program.step, saved[0]);
    const std::vector<MemberEvent> events = workers[i].group->TakeEvents();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].member, "/job:worker/task:2");
  }
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, WhoIsPreemptedBeforeItJoinsDoesNotJoin) {
  Worker worker{Make(Options(0, 2, 2, 2))};
  worker.group->RequestPreemption();
  EXPECT_TRUE(absl::IsCancelled(worker.Meet()));
  // While it waits for others, too.
  Worker other{Make(Options(1, 2, 2, 2))};
  std::thread preempting([&] {
    absl::SleepFor(absl::Milliseconds(300));
    other.group->RequestPreemption();
  });
  EXPECT_TRUE(absl::IsCancelled(other.Meet()));
  preempting.join();
}

TEST_F(WorkerGroupTest, BarriersAndTheChiefsValuesReachAll) {
  auto workers = MakeAll(3, 3);
  MeetAll(workers);
  std::vector<std::function<void()>> actions;
  for (int i = 0; i < 3; ++i) {
    actions.push_back([&, i] {
      WorkerGroup& group = *workers[i].group;
      for (int round = 0; round < 2; ++round) {
        const absl::Status passed = group.Barrier("the end");
        EXPECT_TRUE(passed.ok()) << passed;
        const bool is_chief = i == 0;
        StrategyState state = {
            {"scalar", Tensor::Scalar<float>(is_chief ? 1.5f : 0)},
            {"empty", Tensor(kFloat32, Shape({0, 3}))},
            {"text", Tensor::Vector<std::string>({is_chief ? "of the chief" : "", "x"})},
            {"large", Tensor::Zeros(kInt32, Shape({50000}))}};
        for (int32_t& value : state[3].second.MutableElements<int32_t>()) value = i + round;
        const Tensor mine = state[3].second;
        const absl::Status shared = group.BroadcastFromChief(state);
        ASSERT_TRUE(shared.ok()) << shared;
        ASSERT_EQ(state.size(), 4u);
        EXPECT_EQ(state[0].second.ScalarValue<float>(), 1.5f);
        EXPECT_EQ(state[1].second.shape(), Shape({0, 3}));
        EXPECT_EQ(state[2].second.Elements<std::string>()[0], "of the chief");
        EXPECT_EQ(state[3].second.Elements<int32_t>()[49999], round);
        // What others hold of the old values stays as it is.
        EXPECT_EQ(mine.Elements<int32_t>()[0], i + round);
      }
      StrategyState state = {{"v", Tensor::Zeros(kFloat32, Shape({i == 1 ? 3 : 2}))}};
      const absl::Status shared = group.BroadcastFromChief(state);
      if (i != 1) {
        EXPECT_TRUE(shared.ok()) << shared;
        return;
      }
      EXPECT_EQ(shared.code(), absl::StatusCode::kInvalidArgument) << shared;
      EXPECT_TRUE(absl::StrContains(shared.message(), "float32[2]")) << shared;
      EXPECT_TRUE(absl::StrContains(shared.message(), "float32[3]")) << shared;
    });
  }
  Together(actions);
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, WhoCannotTakeTheStateSaysWhyAndTheOthersGoOnWithoutIt) {
  membership::MemoryArbiter arbiter;
  const auto server =
      membership::RendezvousServer::Start(absl::StrCat(Host(), ":0"), Security(), &arbiter);
  ASSERT_TRUE(server.ok()) << server.status();
  auto workers = MakeAll(
      2, 1, [&](WorkerGroupOptions& options) { options.job.rendezvous = (*server)->address(); });
  workers[0].program.step = 3;
  ASSERT_TRUE(workers[0].Meet().ok());
  workers[1].program.take = errors::InvalidArgument("another model");
  Together({[&] {
              WorkerGroup::Advice advice;
              while (!advice.meet) {
                const auto said = workers[0].TakeStep();
                ASSERT_TRUE(said.ok()) << said.status();
                advice = *said;
                absl::SleepFor(absl::Milliseconds(5));
              }
              const absl::Status met = workers[0].Meet();
              EXPECT_TRUE(met.ok()) << met;
            },
            [&] {
              EXPECT_EQ(workers[1].Meet(), errors::InvalidArgument("another model"));
              workers[1].group->Leave();
            }});
  EXPECT_EQ(workers[0].program.given, 1);
  EXPECT_EQ(workers[0].group->size(), 1);
  EXPECT_TRUE(workers[0].TakeStep().ok());
  workers[1].group.reset();
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, WhoCannotGiveTheStateSaysWhy) {
  auto workers = MakeAll(2, 2);
  workers[1].program.step = 3;
  workers[1].program.give = errors::Internal("no state");
  Together({[&] {
              const absl::Status met = workers[0].Meet();
              // It waits for the other one, which has gone for good.
              EXPECT_EQ(met, errors::Cancelled("enough"));
              EXPECT_EQ(workers[0].program.taken, 0);
            },
            [&] {
              EXPECT_EQ(workers[1].Meet(), errors::Internal("no state"));
              workers[1].group->Leave();
              workers[0].program.Stop(errors::Cancelled("enough"));
            }});
  EXPECT_EQ(workers[0].program.step, -1);
  workers[1].group.reset();
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, VirtualReplicasAreDividedAmongAllThatAreThere) {
  for (int size = 1; size <= 8; ++size) {
    int sum = 0;
    for (int rank = 0; rank < size; ++rank) {
      const int own = VirtualReplicasOf(rank, size, 8);
      EXPECT_GE(own, 8 / size);
      EXPECT_LE(own, 8 / size + 1);
      sum += own;
    }
    EXPECT_EQ(sum, 8);
  }
  auto workers = MakeAll(3, 2, [](WorkerGroupOptions& options) { options.virtual_replicas = 8; });
  MeetAll(workers);
  const int counts[] = {3, 3, 2};
  const int firsts[] = {0, 3, 6};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(workers[i].group->local_replicas(), counts[i]);
    const CollectiveGroup all =
        workers[i].group->between()->Describe(CollectiveGroup{.size = counts[i]});
    EXPECT_EQ(all.size, 8);
    EXPECT_EQ(all.first, firsts[i]);
  }
  workers[2].group.reset();
  MeetAll(workers);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(workers[i].group->local_replicas(), 4);
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, ProcessesMayHaveDifferentNumbersOfReplicas) {
  int index = 0;
  auto workers = MakeAll(2, 2, [&](WorkerGroupOptions& options) { options.replicas = ++index; });
  MeetAll(workers);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(workers[i].group->local_replicas(), i + 1);
    const CollectiveGroup all =
        workers[i].group->between()->Describe(CollectiveGroup{.size = i + 1});
    EXPECT_EQ(all.size, 3);
    EXPECT_EQ(all.first, i);
  }
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, ASharedFolderDecidesAndKeepsAnOldChiefFromWriting) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/shared_", getpid());
  const auto make = [&](int index) {
    WorkerGroupOptions options = Options(index, 2, 1, 2);
    options.folder_is_shared = true;
    options.lost_after = absl::Seconds(1);
    return Make(std::move(options));
  };
  Worker first{make(0)};
  ASSERT_TRUE(first.group->SetFolder(folder).ok());
  EXPECT_TRUE(first.group->SetFolder(folder + "/./").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(first.group->SetFolder(folder + "_2")));
  EXPECT_TRUE(absl::IsInvalidArgument(first.group->SetFolder("")));
  ASSERT_TRUE(first.Meet().ok());
  const auto write = [&](FileSystem& files) {
    return WriteFileAtomically(&files, folder + "/checkpoint", "x");
  };
  const std::shared_ptr<FileSystem> files = first.group->ChiefFiles();
  EXPECT_TRUE(write(*files).ok());
  // It has a checkpoint that is newer than what the second one will have.
  EXPECT_TRUE(first.group->NoteCheckpoint(40).ok());
  Worker second{make(1)};
  second.program.checkpoint = 40;
  ASSERT_TRUE(second.group->SetFolder(folder).ok());
  // The chief leaves without giving its state: the second one finds it in the folder.
  first.group->Leave();
  const absl::Status met = second.Meet();
  ASSERT_TRUE(met.ok()) << met;
  EXPECT_EQ(second.group->size(), 1);
  EXPECT_TRUE(second.group->is_chief());
  EXPECT_EQ(second.program.read, 1);
  EXPECT_EQ(second.program.step, 40);
  EXPECT_TRUE(absl::IsFailedPrecondition(write(*files)));
  EXPECT_TRUE(write(*second.group->ChiefFiles()).ok());
  second.group->Leave();
}

TEST_F(WorkerGroupTest, ADamagedCheckpointIsTheErrorOfWhoReadsIt) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/damaged_", getpid());
  for (const bool is_first : {true, false}) {
    WorkerGroupOptions options = Options(0, 1, 1, 1);
    options.folder_is_shared = true;
    options.lost_after = absl::Milliseconds(700);
    Worker worker{Make(std::move(options))};
    ASSERT_TRUE(worker.group->SetFolder(folder).ok());
    const absl::Status met = worker.Meet();
    if (is_first) {
      ASSERT_TRUE(met.ok()) << met;
      EXPECT_TRUE(worker.group->NoteCheckpoint(9).ok());
    } else {
      EXPECT_EQ(met, errors::DataLoss("the checkpoint is damaged"));
    }
    worker.group->Leave();
  }
}

TEST_F(WorkerGroupTest, FoldersOfTheirOwnDoNotKeepWorkersApart) {
  auto workers = MakeAll(2, 2);
  for (int i = 0; i < 2; ++i) {
    const std::string folder = absl::StrCat(::testing::TempDir(), "/own_", getpid(), "_", i);
    ASSERT_TRUE(workers[i].group->SetFolder(folder).ok());
  }
  MeetAll(workers);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(workers[i].group->size(), 2);
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, TheFirstOneMayServeTheRendezvous) {
  std::deque<Worker> workers;
  for (int i = 0; i < 2; ++i) {
    WorkerGroupOptions options = Options(i, 0, 2, 2);
    options.job.rendezvous = Address(9);
    options.job.serves_rendezvous = i == 0;
    workers.emplace_back().group = Make(std::move(options));
  }
  MeetAll(workers);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(workers[i].group->size(), 2);
  LeaveAll(workers);
}

TEST_F(WorkerGroupTest, JobsThatMakeNoSenseAreRefused) {
  const auto refuse = [&](auto edit, absl::StatusCode code, const char* words) {
    WorkerGroupOptions options = Options(0, 2, 2, 2);
    edit(options);
    const absl::Status status = MultiWorkerGroup::Create(std::move(options)).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  using Options = WorkerGroupOptions;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  refuse([](Options& o) { o.job.config.task.reset(); }, kInvalid, "which of the job's tasks");
  refuse([](Options& o) { o.job.config.task->index = 7; }, kInvalid, "worker:7");
  refuse([](Options& o) { o.job.config.jobs["ps"][0] = "a:1"; }, kUnimplemented, "ps");
  refuse([](Options& o) { o.job.config.jobs["tpu"][0] = "a:1"; }, kInvalid, "'tpu'");
  refuse([](Options& o) { o.job.config.task->job = "evaluator"; }, kUnimplemented, "evaluator");
  refuse([](Options& o) { o.job.min_workers = 3; }, kInvalid, "MIN");
  refuse([](Options& o) { o.virtual_replicas = 1; }, kInvalid, "virtual_replicas");
  refuse([](Options& o) { o.lost_after = o.heartbeat; }, kInvalid, "two heartbeats");
  refuse([](Options& o) { o.collective_timeout = absl::ZeroDuration(); }, kInvalid, "collective");
  refuse([](Options& o) { o.algorithm = "rign"; }, absl::StatusCode::kNotFound, "'rign'");
  // An evaluator that is only named is not part of the cluster.
  Options options = WorkerGroupTest::Options(1, 2, 2, 2);
  options.job.config.jobs["evaluator"][0] = "a:1";
  options.job.config.jobs["chief"][0] = "b:1";
  options.job.max_workers = 3;
  const auto group = MultiWorkerGroup::Create(std::move(options));
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ((*group)->rank(), 2);
  EXPECT_FALSE((*group)->is_chief());
}

}  // namespace
}  // namespace tandem
