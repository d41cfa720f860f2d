// Strategies of several processes, which are threads of one here: steps that all of them take.
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"
#include "runtime/cluster/membership/rendezvous.h"
#include "runtime/rpc/security.h"
#include "strategies/strategy.h"

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

class Idle final : public WorkerGroup::Party {
 public:
  std::string occupation() const override { return "a test"; }
  int64_t completed_step() const override { return -1; }
  absl::StatusOr<StrategyState> Give() override { return StrategyState(); }
  absl::Status Take(StrategyState) override { return absl::OkStatus(); }
  absl::Status TakeCheckpoint() override { return absl::OkStatus(); }
  absl::Status CheckStop() const override { return absl::OkStatus(); }
};

class MultiWorkerMirrored : public ::testing::Test {
 protected:
  MultiWorkerMirrored() {
    first_port_ = next_port_ += 20;
    setenv("TANDEM_FLIGHT_DIR", ::testing::TempDir().c_str(), 1);
  }

  Strategy::MultiWorkerOptions Options(int index, int count) const {
    Strategy::MultiWorkerOptions options;
    options.replicas = 1;
    options.job.emplace();
    options.job->source = "a test";
    for (int i = 0; i < count; ++i) {
      options.job->config.jobs["worker"][i] = absl::StrCat(Host(), ":", first_port_ + i);
    }
    options.job->config.task = TaskId{"worker", index};
    options.job->min_workers = options.job->max_workers = count;
    options.heartbeat = absl::Milliseconds(200);
    options.lost_after = absl::Seconds(3);
    options.start_timeout = absl::Seconds(60);
    return options;
  }

  // Calls f(index, strategy) for each worker of a job, on a thread of its own, when all have met.
  void OnAll(int count, const std::function<void(Strategy::MultiWorkerOptions&, int)>& edit,
             const std::function<void(int, Strategy&)>& f) const {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        Strategy::MultiWorkerOptions options = Options(i, count);
        edit(options, i);
        const auto strategy = Strategy::MultiWorkerMirrored(options);
        ASSERT_TRUE(strategy.ok()) << strategy.status();
        Idle party;
        const absl::Status met = (*strategy)->workers()->Meet(party);
        ASSERT_TRUE(met.ok()) << met;
        f(i, **strategy);
        // Nobody leaves while another one needs it.
        EXPECT_TRUE((*strategy)->workers()->Barrier("the end").ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static int next_port_;
  int first_port_ = 0;
};

int MultiWorkerMirrored::next_port_ = 23000;

// A program whose step adds the sum of the batch to a variable, as if that were its gradient.
struct Sum {
  std::unique_ptr<StrategyBuilder> builder;
  std::unique_ptr<StrategyRunner> runner;
  int program = 0;

  absl::Status Build(Strategy& strategy) {
    auto made = strategy.NewBuilder();
    if (!made.ok()) return made.status();
    builder = *std::move(made);
    VariableSpec spec;
    spec.name = "v";
    spec.shape = Shape({});
    spec.initializer = [](const Scope& scope) { return scope.Constant(0.0f); };
    const auto variable = builder->Variable(spec);
    if (!variable.ok()) return variable.status();
    if (const absl::Status begun = builder->BeginStep("train"); !begun.ok()) return begun;
    RunSignature signature;
    PerReplicaGradient sums;
    const absl::Status ran = builder->Run([&](const ReplicaContext& replica) {
      const Output part = replica.scope().WithOpName("part").Call(
          "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({-1})}});
      signature.feeds.push_back(part.name());
      const Output axis = replica.scope().Constant({0});
      const Output sum = replica.scope().Call("Sum", {part, axis});
      sums.emplace_back(sum);
      return replica.scope().status();
    });
    if (!ran.ok()) return ran;
    const auto reduced = builder->ReduceGradients({sums});
    if (!reduced.ok()) return reduced.status();
    const absl::Status updated = builder->Update(
        **variable, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
          return scope.AddNode("AssignAddVariableOp",
                               {handle, (*reduced)[0][static_cast<size_t>(copy)].values});
        });
    if (!updated.ok()) return updated;
    const auto done = builder->EndStep();
    if (!done.ok()) return done.status();
    signature.targets = {(*done)->name()};
    auto run = strategy.NewRunner(*builder);
    if (!run.ok()) return run.status();
    runner = *std::move(run);
    if (const absl::Status status = runner->Initialize(); !status.ok()) return status;
    const auto added = runner->AddProgram(signature);
    if (!added.ok()) return added.status();
    program = *added;
    return absl::OkStatus();
  }

  // Of the batch first, first + 1, …
  absl::Status Run(float first, int64_t size) {
    StepInput input;
    Tensor batch(kFloat32, Shape({size}));
    for (float& value : batch.MutableElements<float>()) value = first++;
    input.batch = {batch};
    return runner->Run(program, std::move(input)).status();
  }
};

TEST_F(MultiWorkerMirrored, AllReplicasOfAllProcessesTakeAStepTogether) {
  // As many replicas as its number says.
  OnAll(
      2, [](Strategy::MultiWorkerOptions& options, int index) { options.replicas = index + 1; },
      [](int index, Strategy& strategy) {
        EXPECT_EQ(strategy.name(), "multi_worker_mirrored");
        EXPECT_EQ(strategy.is_chief(), index == 0);
        Sum sum;
        const absl::Status built = sum.Build(strategy);
        ASSERT_TRUE(built.ok()) << built;
        EXPECT_EQ(sum.builder->num_replicas(), index + 1);
        // Every worker reads all of the batch, and takes its replicas' parts.
        for (const int64_t size : {6, 7, 2, 1}) {
          const absl::Status ran = sum.Run(1, size);
          ASSERT_TRUE(ran.ok()) << ran;
        }
        EXPECT_EQ(sum.runner->ReadVariable("v")->ScalarValue<float>(), 21 + 28 + 3 + 1);
        const auto strangers = Strategy::OneDevice({});
        ASSERT_TRUE(strangers.ok()) << strangers.status();
        const auto builder = (*strangers)->NewBuilder();
        ASSERT_TRUE(builder.ok()) << builder.status();
        EXPECT_TRUE(absl::IsInvalidArgument(strategy.NewRunner(**builder).status()));
      });
}

TEST_F(MultiWorkerMirrored, VirtualReplicasAreThoseOfTheMeeting) {
  OnAll(
      3,
      [](Strategy::MultiWorkerOptions& options, int) {
        options.virtual_replicas = 4;
        options.replicas = 2;
      },
      [](int index, Strategy& strategy) {
        Sum sum;
        const absl::Status built = sum.Build(strategy);
        ASSERT_TRUE(built.ok()) << built;
        const int counts[] = {2, 1, 1};
        EXPECT_EQ(sum.builder->num_replicas(), counts[index]);
        EXPECT_EQ(sum.builder->num_copies(), counts[index]);
        const absl::Status ran = sum.Run(1, 9);
        ASSERT_TRUE(ran.ok()) << ran;
        EXPECT_EQ(sum.runner->ReadVariable("v")->ScalarValue<float>(), 45);
      });
}

TEST_F(MultiWorkerMirrored, DestroyingItLeavesTheJob) {
  membership::MemoryArbiter arbiter;
  const auto server =
      membership::RendezvousServer::Start(absl::StrCat(Host(), ":0"), Security(), &arbiter);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto make = [&](int index) {
    Strategy::MultiWorkerOptions options = Options(index, 2);
    options.job->rendezvous = (*server)->address();
    options.job->min_workers = 1;
    auto strategy = Strategy::MultiWorkerMirrored(options);
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    return *std::move(strategy);
  };
  std::unique_ptr<Strategy> first = make(0);
  Idle party;
  ASSERT_TRUE(first->workers()->Meet(party).ok());
  std::unique_ptr<Strategy> second = make(1);
  Event both_met;
  std::thread other([&] {
    Idle late;
    const absl::Status met = second->workers()->Meet(late);
    EXPECT_TRUE(met.ok()) << met;
    both_met.Wait();
    second.reset();
  });
  for (int64_t step = 0; !both_met.IsSet() || first->workers()->size() > 1; ++step) {
    if (!first->workers()->has_met()) {
      const absl::Status met = first->workers()->Meet(party);
      EXPECT_TRUE(met.ok()) << met;
      if (!met.ok()) break;
      if (first->workers()->size() == 2) both_met.Set();
    }
    first->workers()->CompletedStep(step).IgnoreError();
    absl::SleepFor(absl::Milliseconds(5));
  }
  both_met.Set();
  other.join();
  const std::vector<MemberEvent> events = first->workers()->TakeEvents();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind, MemberEvent::Kind::kLeft);
  EXPECT_EQ(events.back().member, "/job:worker/task:1");
}

}  // namespace
}  // namespace tandem
