// Steps in which a process is lost, or gives up: they change nothing, and may be taken again.
#include <thread>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "gtest/gtest.h"
#include "strategies/local/processes_test_util.h"

namespace tandem {
namespace {

using testing::ExpectSame;
using testing::InputOf;
using testing::Job;
using testing::JobOptions;
using testing::Program;
using testing::ScalarVariable;
using testing::StateOf;
using testing::Step;
using testing::SumOf;
using testing::TrainingInput;
using testing::TrainingStep;

// Waits until a collective of the process waits for others.
void AwaitPending(const collective::Group& group, size_t count) {
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (group.Pending().size() < count) {
    ASSERT_LT(absl::Now(), end) << "no operation has begun";
    absl::SleepFor(absl::Milliseconds(1));
  }
}

TEST(ProcessesLost, AStepThatLosesAProcessChangesNothingAndIsRepeatedByTheOthers) {
  JobOptions options;
  options.replicas = {1, 1, 1};
  options.bucket_bytes = 1;
  Job job(options, TrainingStep);
  ASSERT_TRUE(job.opened());
  for (const StrategyRunner::Result& result : job.Run(TrainingInput(6))) {
    ASSERT_TRUE(result.ok()) << result.status();
  }
  const std::vector<Tensor> before = StateOf(*job.process(0).runner);
  // Process 2 does not come to the next step.
  std::vector<StrategyRunner::Result> results(2, StrategyRunner::Result(std::vector<Tensor>()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(
        [&, i] { results[static_cast<size_t>(i)] = job.RunOne(i, TrainingInput(6)); });
  }
  AwaitPending(*job.process(0).group, 1);
  AwaitPending(*job.process(1).group, 1);
  job.process(2).group->Abort(errors::Unavailable("worker:2 is gone"));
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = results[static_cast<size_t>(i)].status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    ExpectSame(StateOf(*job.process(i).runner), before);
  }
  // Nothing begins before the next generation.
  EXPECT_EQ(job.RunOne(0, TrainingInput(6)).status().code(), absl::StatusCode::kAborted);
  ExpectSame(StateOf(*job.process(0).runner), before);
  job.Form({0, 1}, 2);
  for (const StrategyRunner::Result& result : job.Run(TrainingInput(6))) {
    ASSERT_TRUE(result.ok()) << result.status();
  }

  JobOptions alone;
  alone.replicas = {1};
  alone.spans_processes = false;
  Job undisturbed(alone, TrainingStep);
  ASSERT_TRUE(undisturbed.opened());
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(undisturbed.RunOne(0, TrainingInput(6)).ok());
  }
  const std::vector<Tensor> expected = StateOf(*undisturbed.process(0).runner);
  for (int i = 0; i < 2; ++i) ExpectSame(StateOf(*job.process(i).runner), expected);
}

// Waits until its step is cancelled.
class WaitForeverKernel final : public AsyncKernel {
 public:
  void Start(KernelContext& c, Done done) override {
    CancellationManager* const cancellation = c.step().cancellation;
    auto shared = std::make_shared<Done>(std::move(done));
    if (!cancellation->Register(cancellation->NewToken(),
                                [shared, cancellation] { (*shared)(cancellation->status()); })) {
      (*shared)(cancellation->status());
    }
  }
};
TANDEM_OP("_TestWaitForever")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Stateful()
    .Cpu(Make<WaitForeverKernel>());

// A step with four reductions: of a gradient, a result and two statistics. `stuck` says which of
// them this process never comes to.
Program FourReductions(const std::string& stuck) {
  return [stuck](StrategyBuilder& builder) -> absl::StatusOr<RunSignature> {
    const VariableSpec spec =
        ScalarVariable("weight", Synchronization::kMirrored, Aggregation::kMean);
    TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* weight, builder.Variable(spec));
    PerReplica results;
    PerReplicaGradient gradient;
    const auto maybe_stuck = [&](const Scope& scope, const std::string& what, Output value) {
      return what == stuck ? scope.Call("_TestWaitForever", {value}) : value;
    };
    const Program program = Step(
        [&](const ReplicaContext& replica, Output part) -> absl::Status {
          const Scope& scope = replica.scope();
          const Output own = SumOf(scope, part);
          gradient.push_back(Gradient(maybe_stuck(scope, "gradient", own)));
          results.push_back(maybe_stuck(scope, "result", own));
          for (const auto& [name, synchronization, aggregation] :
               {std::tuple("mirrored", Synchronization::kMirrored, Aggregation::kMean),
                std::tuple("on_read", Synchronization::kOnRead, Aggregation::kSum)}) {
            TANDEM_ASSIGN_OR_RETURN(
                const StrategyVariable* statistic,
                builder.Variable(ScalarVariable(name, synchronization, aggregation)));
            const Output next = scope.Call("AddV2", {replica.Read(*statistic), own});
            TANDEM_RETURN_IF_ERROR(replica.Assign(*statistic, maybe_stuck(scope, name, next)));
          }
          return scope.status();
        },
        [&](StrategyBuilder&, RunSignature& signature) -> absl::Status {
          TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder.ReduceGradients({gradient}));
          TANDEM_RETURN_IF_ERROR(builder.Update(
              *weight, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
                return scope.AddNode("AssignAddVariableOp",
                                     {handle, reduced[0][static_cast<size_t>(copy)].values});
              }));
          TANDEM_ASSIGN_OR_RETURN(const Output result,
                                  builder.ReduceToHost(Reduction::kSum, results));
          signature.fetches.push_back(result.name());
          return absl::OkStatus();
        });
    return program(builder);
  };
}

// How many operations of the group have ended well, so far.
int64_t DoneOf(const collective::Group& group) {
  int64_t done = 0;
  const std::string text = group.FlightRecordText("");
  for (size_t at = 0; (at = text.find("\"state\":\"done\"", at)) != std::string::npos; ++at) ++done;
  return done;
}

TEST(ProcessesLost, NothingIsWrittenBeforeAllReductionsOfTheStepHaveArrived) {
  for (const std::string stuck : {"gradient", "result", "mirrored", "on_read"}) {
    JobOptions options;
    options.replicas = {1, 2};
    Job job(options, [&](int process) { return FourReductions(process == 1 ? stuck : ""); });
    ASSERT_TRUE(job.opened());
    const std::vector<Tensor> before = StateOf(*job.process(0).runner);
    const int64_t done = DoneOf(*job.process(0).group);
    std::vector<StrategyRunner::Result> results;
    std::thread driver([&] { results = job.Run(InputOf({1, 2, 3})); });
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (DoneOf(*job.process(0).group) < done + 3 && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_EQ(DoneOf(*job.process(0).group), done + 3) << stuck;
    // What came might be written now.
    absl::SleepFor(absl::Milliseconds(20));
    ExpectSame(StateOf(*job.process(0).runner), before);
    job.process(1).runner->CancelSteps(errors::Cancelled("enough"));
    job.process(1).group->Abort(errors::Unavailable("worker:1 has left"));
    driver.join();
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results[0].status().code(), absl::StatusCode::kAborted) << results[0].status();
    EXPECT_EQ(results[1].status().code(), absl::StatusCode::kCancelled) << results[1].status();
    for (int i = 0; i < 2; ++i) ExpectSame(StateOf(*job.process(i).runner), before);
  }
}

TEST(ProcessesLost, AStepThatAnotherProcessGivesUpIsAborted) {
  JobOptions options;
  options.replicas = {1, 1};
  Job job(options, TrainingStep);
  ASSERT_TRUE(job.opened());
  const std::vector<Tensor> before = StateOf(*job.process(0).runner);
  StrategyRunner::Result given_up = std::vector<Tensor>();
  std::thread driver([&] { given_up = job.RunOne(1, TrainingInput(4)); });
  AwaitPending(*job.process(1).group, 1);
  job.process(1).runner->CancelSteps(errors::Cancelled("interrupted"));
  driver.join();
  EXPECT_EQ(given_up.status().code(), absl::StatusCode::kCancelled) << given_up.status();
  const absl::Status status = job.RunOne(0, TrainingInput(4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "interrupted")) << status;
  for (int i = 0; i < 2; ++i) ExpectSame(StateOf(*job.process(i).runner), before);
}

TEST(ProcessesLost, WithoutAGroupAStepIsAborted) {
  JobOptions options;
  options.replicas = {1};
  Job job(options, TrainingStep);
  ASSERT_TRUE(job.opened());
  SessionOptions session;
  session.between_processes = std::make_shared<collective::GroupRuntime>(false);
  auto runner = LocalRunner::Create(*job.process(0).builder, std::move(session));
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_TRUE((*runner)->Initialize().ok());
  const auto signature = [&] {
    const auto builder = NewReplicaBuilder({.devices = {"/device:CPU:0"}, .spans_processes = true});
    return *TrainingStep(**builder);
  }();
  ASSERT_TRUE((*runner)->AddProgram(signature).ok());
  const absl::Status status = (*runner)->Run(0, TrainingInput(4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "no group")) << status;
}

}  // namespace
}  // namespace tandem
