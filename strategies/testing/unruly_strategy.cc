#include "strategies/testing/unruly_strategy.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "strategies/local/local_runner.h"
#include "strategies/one_device/one_device.h"

namespace tandem::testing {

class UnrulyStrategy::Runner final : public StrategyRunner {
 public:
  Runner(const UnrulyStrategy& strategy, std::unique_ptr<LocalRunner> runner)
      : strategy_(strategy), runner_(std::move(runner)) {}

  absl::Status Initialize() override { return runner_->Initialize(); }
  absl::StatusOr<int> AddProgram(const RunSignature& signature) override {
    return runner_->AddProgram(signature);
  }
  // Evaluation and the like, whose step is 0; with one step in flight those of a training too.
  Result Run(int program, StepInput input) override {
    if (input.step > 0) TANDEM_RETURN_IF_ERROR(LoseMember(input.step));
    return runner_->Run(program, std::move(input));
  }
  int max_steps_in_flight() const override { return strategy_.options_.steps_in_flight; }
  // What is held is told; groups that have begun will not be complete.
  void CancelSteps(const absl::Status& reason) override {
    runner_->CancelSteps(reason);
    std::map<int64_t, std::map<int64_t, Ended>> held;
    {
      MutexLock lock(mu_);
      complete_ = last_group_;
      held.swap(held_);
    }
    for (auto& group : held) Tell(group.second);
  }

  void Start(int program, StepInput input, Done done) override {
    const int64_t step = input.step;
    {
      MutexLock lock(mu_);
      last_group_ = std::max(last_group_, step / strategy_.options_.steps_in_flight);
    }
    if (absl::Status lost = LoseMember(step); !lost.ok()) {
      done(std::move(lost));
      return;
    }
    runner_->Start(program, std::move(input),
                   [this, step, done = std::move(done)](Result result) mutable {
                     ++strategy_.steps_run_;
                     End(step, {std::move(done), std::move(result)});
                   });
  }

  std::vector<MemberEvent> TakeMemberEvents() override { return std::exchange(events_, {}); }

  absl::StatusOr<StrategyState> CaptureState() override { return runner_->CaptureState(); }
  absl::Status RestoreState(const StrategyState& state) override {
    return runner_->RestoreState(state);
  }
  absl::StatusOr<StrategyState> CaptureDetails() override { return runner_->CaptureDetails(); }
  absl::StatusOr<std::vector<std::string>> RestoreDetails(const StrategyState& details) override {
    return runner_->RestoreDetails(details);
  }
  absl::StatusOr<Tensor> ReadVariable(const std::string& name) override {
    return runner_->ReadVariable(name);
  }

 private:
  struct Ended {
    Done done;
    Result result;
  };

  // The error of a step that shall fail.
  absl::Status LoseMember(int64_t step) {
    if (step != strategy_.options_.lost_step || failures_ == strategy_.options_.failures) {
      return absl::OkStatus();
    }
    ++failures_;
    events_.push_back(
        {MemberEvent::Kind::kLeft, "/job:worker/task:1", "was killed", ++generation_});
    events_.push_back(
        {MemberEvent::Kind::kJoined, "/job:worker/task:1", "was started again", ++generation_});
    return errors::Aborted("step ", step, ": /job:worker/task:1 was lost");
  }

  // Tells of a group's steps when its last one has ended, the latest first.
  void End(int64_t step, Ended ended) {
    const int64_t size = strategy_.options_.steps_in_flight;
    std::map<int64_t, Ended> group;
    {
      MutexLock lock(mu_);
      std::map<int64_t, Ended>& held = held_[step / size];
      held.emplace(step, std::move(ended));
      if (static_cast<int64_t>(held.size()) < size && step / size > complete_) return;
      group = std::move(held);
      held_.erase(step / size);
    }
    strategy_.steps_out_of_order_ += static_cast<int64_t>(group.size()) - 1;
    Tell(group);
  }

  static void Tell(std::map<int64_t, Ended>& group) {
    for (auto entry = group.rbegin(); entry != group.rend(); ++entry) {
      entry->second.done(std::move(entry->second.result));
    }
  }

  const UnrulyStrategy& strategy_;
  // Of the driving thread.
  int failures_ = 0;
  int64_t generation_ = 1;
  std::vector<MemberEvent> events_;

  Mutex mu_;
  std::map<int64_t, std::map<int64_t, Ended>> held_ ABSL_GUARDED_BY(mu_);  // By group and step.
  int64_t last_group_ ABSL_GUARDED_BY(mu_) = -1;                           // That was begun.
  int64_t complete_ ABSL_GUARDED_BY(mu_) = -1;  // Groups up to this one wait for nobody.

  // The last member: it waits for its steps, which use the others.
  const std::unique_ptr<LocalRunner> runner_;
};

absl::StatusOr<std::unique_ptr<StrategyBuilder>> UnrulyStrategy::NewBuilder() const {
  return NewOneDeviceBuilder("/device:CPU:0");
}

absl::StatusOr<std::unique_ptr<StrategyRunner>> UnrulyStrategy::NewRunner(
    const StrategyBuilder& builder) const {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<LocalRunner> runner, LocalRunner::Create(builder, {}));
  return std::make_unique<Runner>(*this, std::move(runner));
}

}  // namespace tandem::testing
