// The steps of a training: how they start and end, and what is made of their results.
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/trainer/fit_run.h"

namespace tandem {
namespace {

// Which tensor of the batch holds a number that is not finite, for the message of a bad loss.
std::string BadInput(const std::vector<Tensor>& batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].dtype() != kFloat32) continue;
    for (const float value : batch[i].Elements<float>()) {
      if (std::isfinite(value)) continue;
      return absl::StrCat("; tensor ", i, " of the batch holds numbers that are not finite");
    }
  }
  return "; a lower learning rate is the likeliest cure";
}

}  // namespace

absl::StatusOr<Trainer::FitRun::Flight> Trainer::FitRun::NewFlight(std::vector<Tensor> batch) {
  Flight flight;
  flight.examples = batch[0].shape().dim(0);
  flight.input.step = trainer_.step_;
  flight.learning_rate = trainer_.optimizer_->LearningRate(flight.input.step);
  if (!std::isfinite(flight.learning_rate) || flight.learning_rate < 0) {
    return errors::InvalidArgument("the learning rate of step ", flight.input.step + 1, Where(),
                                   " is ", flight.learning_rate,
                                   "; a schedule gives numbers from 0 up");
  }
  ++trainer_.step_;
  flight.input.batch = std::move(batch);
  if (absl::c_any_of(options_.callbacks, [&](const CallbackPtr& callback) {
        return callback->WantsTrace(flight.input.step + 1);
      })) {
    flight.trace = std::make_shared<std::vector<StepTracer::Event>>();
    flight.input.trace = flight.trace.get();
  }
  flight.program = optimizer::IsUpdateStep(*trainer_.optimizer_, flight.input.step)
                       ? trainer_.train_
                       : trainer_.accumulate_;
  flight.input.values = {Tensor::Scalar<float>(static_cast<float>(flight.examples)),
                         Tensor::Scalar<float>(static_cast<float>(flight.learning_rate)),
                         Tensor::Scalar<int64_t>(flight.input.step)};
  if (workers_ != nullptr) flight.input.values.push_back(Tensor::Scalar<float>(0));
  return flight;
}

std::string Trainer::FitRun::NameOf(const Flight& flight) {
  return absl::StrCat("step ", flight.input.step + 1);
}

void Trainer::FitRun::TakeOff(Flight flight) {
  ++in_flight_;
  StepInput input = flight.input;
  const int program = flight.program;
  trainer_.runner_->Start(
      program, std::move(input),
      [this, flight = std::move(flight)](StrategyRunner::Result result) mutable {
        MutexLock lock(mu_);
        landed_.push_back({std::move(flight), std::move(result)});
        landing_.NotifyOne();  // Under the lock: this may end when it is released.
      });
}

absl::optional<Trainer::FitRun::Landing> Trainer::FitRun::WaitForLanding(absl::Time deadline) {
  MutexLock lock(mu_);
  while (landed_.empty()) {
    if (!landing_.WaitUntil(mu_, deadline) && landed_.empty()) return absl::nullopt;
  }
  Landing landing = std::move(landed_.front());
  landed_.pop_front();
  --in_flight_;
  return landing;
}

absl::Status Trainer::FitRun::LandAll(absl::Status status) {
  absl::Time deadline = absl::InfiniteFuture();
  bool is_cancelled = false;
  while (in_flight_ > 0) {
    if (!status.ok() && !is_cancelled && deadline == absl::InfiniteFuture()) {
      deadline = absl::Now() + options_.step_grace;
    }
    absl::optional<Landing> landing = WaitForLanding(deadline);
    if (!landing.has_value()) {
      trainer_.runner_->CancelSteps(errors::Cancelled("the training ends: ", status.message()));
      is_cancelled = true;
      are_variables_whole_ = false;
      deadline = absl::InfiniteFuture();
    } else if (status.ok() || IsStop(status)) {
      // A training that was stopped may be resumed: its last steps count like all others.
      const absl::Status landed = Land(*std::move(landing));
      if (!landed.ok()) are_variables_whole_ = false;
      if (status.ok()) status = landed;
    } else {
      trainer_.NoteMembers();
    }
  }
  return status;
}

absl::Status Trainer::FitRun::Land(Landing landing) {
  if (landing.result.ok()) {
    // Members may go without a step that fails.
    trainer_.NoteMembers();
    return Report(landing.flight, *landing.result);
  }
  Flight& flight = landing.flight;
  TANDEM_RETURN_IF_ERROR(
      trainer_.MayRepeat(landing.result.status(), flight.attempts++, NameOf(flight)));
  TakeOff(std::move(flight));
  return absl::OkStatus();
}

absl::Status Trainer::FitRun::Report(const Flight& flight, const std::vector<Tensor>& fetched) {
  totals_->Add(fetched, flight.examples);
  const int64_t step = flight.input.step + 1;
  if (trainer_.options_.check_gradients) {
    const auto finite = fetched.back().Elements<bool>();
    for (size_t i = 0; i < finite.size(); ++i) {
      if (finite[i]) continue;
      return errors::FailedPrecondition("the gradient of variable '",
                                        trainer_.train_step_.gradient_names[i],
                                        "' is not finite in step ", step, Where(),
                                        ", with a loss of ", fetched[0].ScalarValue<float>());
    }
  }
  const float loss = fetched[0].ScalarValue<float>();
  if (options_.stop_on_non_finite_loss && !std::isfinite(loss)) {
    return errors::FailedPrecondition(
        "the loss is ", loss, " in step ", step, Where(), BadInput(flight.input.batch),
        ", and TrainerOptions::check_gradients tells which gradient went bad first");
  }
  ++progress_.step;
  progress_.examples = totals_->examples();
  progress_.loss = totals_->loss();
  progress_.learning_rate = flight.learning_rate;
  progress_.elapsed = absl::Now() - begin_;
  progress_.damaged = input_.damaged();
  progress_.number = step;
  progress_.step_loss = loss;
  progress_.step_examples = flight.examples;
  if (trainer_.options_.gradient_norm) {
    const size_t behind = trainer_.options_.check_gradients ? 1 : 0;
    progress_.gradient_norm = fetched[fetched.size() - 1 - behind].ScalarValue<float>();
  }
  progress_.trace = flight.trace.get();
  if (!options_.callbacks.empty() || options_.on_step) progress_.metrics = totals_->metrics();
  if (options_.on_step && !options_.on_step(progress_)) ends_ = true;
  for (const CallbackPtr& callback : options_.callbacks) {
    TANDEM_ASSIGN_OR_RETURN(const Callback::Next next, callback->OnStep(trainer_, progress_));
    if (next == Callback::Next::kStop) ends_ = true;
  }
  progress_.trace = nullptr;
  return absl::OkStatus();
}

}  // namespace tandem
