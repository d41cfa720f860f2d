#include "strategies/parameter_server/coordinator.h"

#include <utility>

#include "core/base/status.h"

namespace tandem::parameter_server {

absl::StatusOr<std::vector<Tensor>> ScheduledStep::Fetch(absl::Time deadline) const {
  if (!state_->ended.Wait(deadline)) {
    return errors::DeadlineExceeded("the scheduled step has not ended yet");
  }
  return state_->result;
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(const Strategy& strategy,
                                                                 const StrategyBuilder& builder,
                                                                 Options options) {
  if (options.most_scheduled < 1) {
    return errors::InvalidArgument(options.most_scheduled,
                                   " steps may be scheduled at once; 1 is the least");
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<StrategyRunner> runner, strategy.NewRunner(builder));
  TANDEM_RETURN_IF_ERROR(runner->Initialize());
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(runner), options));
}

Coordinator::~Coordinator() {
  MutexLock lock(mu_);
  while (running_ > 0 || !waiting_.empty() || is_starting_) changed_.Wait(mu_);
}

absl::StatusOr<int> Coordinator::AddProgram(const RunSignature& signature) {
  return runner_->AddProgram(signature);
}

absl::Status Coordinator::WaitUntilAtMost(size_t most) {
  absl::Status error;
  std::deque<Waiting> given_up;
  {
    MutexLock lock(mu_);
    while (running_ + waiting_.size() > most && error_.ok()) changed_.Wait(mu_);
    if (error_.ok()) return absl::OkStatus();
    error = error_;
    given_up.swap(waiting_);
  }
  const absl::Status reason =
      errors::Cancelled("an earlier scheduled step has failed: ", error.message());
  for (const Waiting& step : given_up) {
    step.state->result = reason;
    step.state->ended.Set();
  }
  runner_->CancelSteps(reason);
  MutexLock lock(mu_);
  while (running_ > 0) changed_.Wait(mu_);
  // Told once; what was cancelled has the same cause.
  if (error_.ok()) return absl::OkStatus();
  error_ = absl::OkStatus();
  return error;
}

absl::StatusOr<ScheduledStep> Coordinator::Schedule(int program, StepInput input) {
  TANDEM_RETURN_IF_ERROR(WaitUntilAtMost(static_cast<size_t>(options_.most_scheduled) - 1));
  auto state = std::make_shared<ScheduledStep::State>();
  {
    MutexLock lock(mu_);
    waiting_.push_back({program, std::move(input), state});
  }
  StartWaiting();
  return ScheduledStep(std::move(state));
}

void Coordinator::StartWaiting() {
  {
    MutexLock lock(mu_);
    if (is_starting_) return;
    is_starting_ = true;
  }
  for (;;) {
    Waiting step;
    {
      MutexLock lock(mu_);
      const size_t most = static_cast<size_t>(runner_->max_steps_in_flight());
      if (waiting_.empty() || running_ >= most || !error_.ok()) {
        is_starting_ = false;
        changed_.NotifyAll();
        return;
      }
      step = std::move(waiting_.front());
      waiting_.pop_front();
      ++running_;
    }
    runner_->Start(step.program, std::move(step.input),
                   [this, state = std::move(step.state)](StrategyRunner::Result result) {
                     Ended(state, std::move(result));
                   });
  }
}

void Coordinator::Ended(const std::shared_ptr<ScheduledStep::State>& state,
                        StrategyRunner::Result result) {
  const absl::Status status = result.status();
  state->result = std::move(result);
  state->ended.Set();
  {
    MutexLock lock(mu_);
    if (!status.ok() && error_.ok()) error_ = status;
    --running_;
    changed_.NotifyAll();
    // Under the lock: nobody is left who could end the coordinator before this returns.
    if (waiting_.empty() || !error_.ok()) return;
  }
  // The steps that wait keep the coordinator here.
  StartWaiting();
}

absl::Status Coordinator::Join() { return WaitUntilAtMost(0); }

bool Coordinator::Done() const {
  MutexLock lock(mu_);
  return running_ == 0 && waiting_.empty();
}

absl::StatusOr<std::vector<std::vector<Tensor>>> Coordinator::Fetch(
    const std::vector<ScheduledStep>& steps) {
  std::vector<std::vector<Tensor>> values;
  for (const ScheduledStep& step : steps) {
    TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> one, step.Fetch());
    values.push_back(std::move(one));
  }
  return values;
}

}  // namespace tandem::parameter_server
