// Coordinator: schedules steps on the workers of a training with parameter servers, for those who
// bring their own loop instead of the trainer. The rules are those of tf.distribute's
// ClusterCoordinator.
//
//   TANDEM_ASSIGN_OR_RETURN(auto builder, strategy->NewBuilder());
//   … build steps (strategies/builder.h) …
//   TANDEM_ASSIGN_OR_RETURN(auto coordinator, Coordinator::Create(*strategy, *builder));
//   TANDEM_ASSIGN_OR_RETURN(const int step, coordinator->AddProgram(signature));
//   for (…) TANDEM_ASSIGN_OR_RETURN(ScheduledStep result, coordinator->Schedule(step, input));
//   TANDEM_RETURN_IF_ERROR(coordinator->Join());
//   TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, result.Fetch());
//
// A scheduled step runs at least once, on any worker, and counts once. The first error of one is
// given to the next Schedule or Join, once; all steps that have not ended by then are cancelled.
// Afterwards steps may be scheduled again.
//
// Works with every strategy; those of one process run the steps one by one.
//
// Threads: any, but for AddProgram, before the first Schedule. Lifetime: the strategy and the
// builder outlive it. The destructor waits for the steps.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_COORDINATOR_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_COORDINATOR_H_

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/passes/prune.h"
#include "core/tensor/tensor.h"
#include "strategies/builder.h"
#include "strategies/runner.h"
#include "strategies/strategy.h"

namespace tandem::parameter_server {

// What a step will give. May be copied; outlives the coordinator.
class ScheduledStep {
 public:
  // Waits for the step. DeadlineExceeded: it has not ended by then. Else its own error; Cancelled:
  // an earlier one had one.
  absl::StatusOr<std::vector<Tensor>> Fetch(absl::Time deadline = absl::InfiniteFuture()) const;
  bool HasEnded() const { return state_->ended.IsSet(); }

 private:
  friend class Coordinator;
  struct State {
    mutable Event ended;
    StrategyRunner::Result result{std::vector<Tensor>{}};  // Set before `ended`.
  };
  explicit ScheduledStep(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class Coordinator {
 public:
  struct Options {
    // Schedule waits while so many steps have not ended.
    int most_scheduled = 256;
  };

  // Makes a runner, and gives all variables their initial values (or finds them, see
  // parameter_runner.h). Errors: those of Strategy::NewRunner and StrategyRunner::Initialize.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(const Strategy& strategy,
                                                             const StrategyBuilder& builder,
                                                             Options options);
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(const Strategy& strategy,
                                                             const StrategyBuilder& builder) {
    return Create(strategy, builder, Options());
  }
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // See StrategyRunner::AddProgram.
  absl::StatusOr<int> AddProgram(const RunSignature& signature);
  // Errors: of an earlier step, which is then forgotten; this step is not scheduled.
  absl::StatusOr<ScheduledStep> Schedule(int program, StepInput input);
  // Waits for all steps. Errors as Schedule.
  absl::Status Join();
  // All that was scheduled has ended.
  bool Done() const;
  // All of their values, in order; the first error, if one has one.
  static absl::StatusOr<std::vector<std::vector<Tensor>>> Fetch(
      const std::vector<ScheduledStep>& steps);

  // For state and members. Its steps are not the coordinator's.
  StrategyRunner& runner() { return *runner_; }

 private:
  Coordinator(std::unique_ptr<StrategyRunner> runner, Options options)
      : options_(options), runner_(std::move(runner)) {}

  struct Waiting {
    int program = 0;
    StepInput input;
    std::shared_ptr<ScheduledStep::State> state;
  };

  // Waits until at most `most` steps are there, or one has failed; then it is told.
  absl::Status WaitUntilAtMost(size_t most);
  // Starts steps as long as the runner wants more. One thread at a time does, since a runner has
  // one driver; others leave it to that one.
  void StartWaiting();
  void Ended(const std::shared_ptr<ScheduledStep::State>& state, StrategyRunner::Result result);

  const Options options_;
  mutable Mutex mu_;
  CondVar changed_;
  bool is_starting_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  size_t running_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mu_);  // Not told yet.
  // Last: its end waits for the steps that call this object.
  const std::unique_ptr<StrategyRunner> runner_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_COORDINATOR_H_
