// Trainer::Fit: epochs, steps in flight, callbacks, and how a training ends.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <deque>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/trainer/log_callback.h"
#include "strategies/trainer/signals.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

// Payload of the status of a training that was stopped: the exit code, in decimal.
constexpr char kExitCode[] = "tandem.dev/exit_code";

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

absl::Status Stopped(StopReason reason, int64_t step) {
  const bool preempted = reason == StopReason::kPreempted;
  absl::Status status =
      errors::Cancelled("training was stopped after step ", step,
                        preempted ? ", since the process was told to end (SIGTERM)" : "");
  status.SetPayload(kExitCode, absl::Cord(preempted ? "143" : "130"));
  return status;
}

}  // namespace

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return 0;
  if (const absl::optional<absl::Cord> code = status.GetPayload(kExitCode)) {
    int value = 0;
    if (absl::SimpleAtoi(std::string(*code), &value)) return value;
  }
  return absl::IsCancelled(status) ? 130 : absl::IsInvalidArgument(status) ? 2 : 1;
}

// One call of Fit.
class Trainer::FitRun {
 public:
  // `known_steps`: how many an epoch will have; -1: not known.
  FitRun(Trainer& trainer, const OpenEpoch& data, const FitOptions& options, int64_t known_steps)
      : trainer_(trainer),
        data_(data),
        options_(options),
        signals_(options.handle_signals),
        steps_of_last_epoch_(known_steps) {}

  absl::StatusOr<std::vector<EpochResult>> Run() {
    absl::Status status;
    std::vector<CallbackPtr> begun;
    for (const CallbackPtr& callback : options_.callbacks) {
      status = callback->OnBegin(trainer_);
      if (!status.ok()) break;
      begun.push_back(callback);
    }
    if (status.ok()) status = Train();
    // A request is fulfilled once.
    trainer_.stop_.store(StopReason::kNone, std::memory_order_relaxed);
    for (const CallbackPtr& callback : begun) {
      const absl::Status end = callback->OnEnd(trainer_, status);
      if (status.ok()) status = end;
    }
    if (!status.ok()) return status;
    return std::move(history_);
  }

 private:
  // A step that was started.
  struct Flight {
    StepInput input;
    int64_t examples = 0;
    int program = 0;
    int attempts = 1;
    double learning_rate = 0;
    std::shared_ptr<std::vector<StepTracer::Event>> trace;  // Null: not traced.
  };
  struct Landing {
    Flight flight;
    StrategyRunner::Result result;
  };

  absl::Status Train() {
    for (int epoch = 0; epoch < options_.epochs && !ends_; ++epoch) {
      TANDEM_RETURN_IF_ERROR(CheckStop());
      progress_ = TrainingProgress();
      progress_.epoch = epoch;
      progress_.epochs = options_.epochs;
      progress_.steps = steps_of_last_epoch_;
      begin_ = absl::Now();
      totals_.reset();
      // Nothing may be in flight when the callers look at the variables.
      TANDEM_RETURN_IF_ERROR(LandAll(TrainEpoch()));
      if (progress_.step == 0) {
        return errors::InvalidArgument("epoch ", epoch + 1,
                                       " has no batch: the data set is empty, or its batches are "
                                       "larger than the data and incomplete ones are dropped");
      }
      TANDEM_RETURN_IF_ERROR(CheckStop());
      if (!ends_ && options_.steps_per_epoch < 0) steps_of_last_epoch_ = progress_.step;
      TANDEM_RETURN_IF_ERROR(EndEpoch(epoch));
    }
    return absl::OkStatus();
  }

  // The next batch of the epoch, or nothing at its end. An epoch that ended because it had its
  // number of steps leaves its input to the next one, which goes on there.
  absl::StatusOr<absl::optional<std::vector<Tensor>>> NextOfEpoch(int64_t started) {
    if (started == options_.steps_per_epoch) return absl::optional<std::vector<Tensor>>();
    for (;;) {
      const bool is_new = !input_;
      if (is_new) {
        TANDEM_ASSIGN_OR_RETURN(input_, data_(inputs_opened_++));
        if (!input_)
          return errors::InvalidArgument("epoch ", inputs_opened_, " has an empty NextBatch");
      }
      TANDEM_ASSIGN_OR_RETURN(absl::optional<std::vector<Tensor>> batch, input_());
      if (batch.has_value()) return batch;
      input_ = nullptr;
      // Nothing was left of it.
      if (started == 0 && !is_new) continue;
      return batch;
    }
  }

  absl::Status TrainEpoch() {
    for (int64_t started = 0; !ends_; ++started) {
      TANDEM_RETURN_IF_ERROR(CheckStop());
      TANDEM_ASSIGN_OR_RETURN(absl::optional<std::vector<Tensor>> batch, NextOfEpoch(started));
      if (!batch.has_value()) break;
      TANDEM_RETURN_IF_ERROR(CheckBatch(*batch));
      TANDEM_RETURN_IF_ERROR(trainer_.Prepare(*batch));
      if (!totals_.has_value()) {
        totals_.emplace(trainer_.metrics_, trainer_.train_step_.metric_sums);
      }
      TANDEM_ASSIGN_OR_RETURN(Flight flight, NewFlight(*std::move(batch)));
      if (trainer_.runner_->max_steps_in_flight() == 1) {
        // On this thread, without a hand-over.
        TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                                trainer_.RunStep(flight.program, flight.input, NameOf(flight)));
        TANDEM_RETURN_IF_ERROR(Report(flight, fetched));
        continue;
      }
      TakeOff(std::move(flight));
      while (in_flight_ >= trainer_.runner_->max_steps_in_flight()) {
        TANDEM_RETURN_IF_ERROR(Land(*WaitForLanding(absl::InfiniteFuture())));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Flight> NewFlight(std::vector<Tensor> batch) {
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
    return flight;
  }

  void TakeOff(Flight flight) {
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

  // Nothing: no step ended before `deadline`.
  absl::optional<Landing> WaitForLanding(absl::Time deadline) {
    MutexLock lock(mu_);
    while (landed_.empty()) {
      if (!landing_.WaitUntil(mu_, deadline) && landed_.empty()) return absl::nullopt;
    }
    Landing landing = std::move(landed_.front());
    landed_.pop_front();
    --in_flight_;
    return landing;
  }

  // Waits for all steps in flight. Once there is an error, `status` or one of theirs, or the
  // training was stopped, they get FitOptions::step_grace to end, since one that is cancelled may
  // leave some variables written and others not; then they are cancelled. Gives the first error.
  absl::Status LandAll(absl::Status status) {
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
        deadline = absl::InfiniteFuture();
      } else if (status.ok()) {
        status = Land(*std::move(landing));
      } else {
        trainer_.NoteMembers();
      }
    }
    return status;
  }

  absl::Status Land(Landing landing) {
    if (landing.result.ok()) return Report(landing.flight, *landing.result);
    Flight& flight = landing.flight;
    TANDEM_RETURN_IF_ERROR(
        trainer_.MayRepeat(landing.result.status(), flight.attempts++, NameOf(flight)));
    TakeOff(std::move(flight));
    return absl::OkStatus();
  }

  static std::string NameOf(const Flight& flight) {
    return absl::StrCat("step ", flight.input.step + 1);
  }

  absl::Status Report(const Flight& flight, const std::vector<Tensor>& fetched) {
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

  std::string Where() const { return absl::StrCat(" (epoch ", progress_.epoch + 1, ")"); }

  absl::Status EndEpoch(int epoch) {
    EpochResult result = totals_->Result(absl::Now() - begin_);
    if (options_.validation.has_value()) {
      absl::StatusOr<EpochResult> validation = trainer_.EvaluateUnlessStopped(
          Epochs(*options_.validation), [this] { return CheckStop(); });
      if (!validation.ok()) return WithContext(validation.status(), "validation");
      result.validation = std::make_shared<EpochResult>(*std::move(validation));
    }
    history_.push_back(result);
    if (options_.on_epoch && !options_.on_epoch(epoch, result)) ends_ = true;
    for (const CallbackPtr& callback : options_.callbacks) {
      TANDEM_ASSIGN_OR_RETURN(const Callback::Next next,
                              callback->OnEpoch(trainer_, epoch, result));
      if (next == Callback::Next::kStop) ends_ = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckStop() const {
    StopReason reason = trainer_.stop_.load(std::memory_order_relaxed);
    const int signal = signals_.received();
    if (signal != 0) {
      reason = signal == SIGTERM ? StopReason::kPreempted : StopReason::kInterrupted;
    }
    if (reason == StopReason::kNone) return absl::OkStatus();
    return Stopped(reason, trainer_.step_);
  }

  Trainer& trainer_;
  const OpenEpoch& data_;
  const FitOptions& options_;
  const StopOnSignals signals_;
  std::vector<EpochResult> history_;
  bool ends_ = false;  // A callback wants no more.

  NextBatch input_;  // Empty: to be opened.
  int inputs_opened_ = 0;

  // Of the epoch.
  TrainingProgress progress_;
  absl::optional<EpochTotals> totals_;
  absl::Time begin_;
  int64_t steps_of_last_epoch_;

  int in_flight_ = 0;
  Mutex mu_;
  CondVar landing_;
  std::deque<Landing> landed_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::vector<EpochResult>> Trainer::FitKnowing(int64_t steps, const OpenEpoch& data,
                                                             const FitOptions& options) {
  if (options.epochs < 0) {
    return errors::InvalidArgument("training shall last ", options.epochs, " epochs");
  }
  if (options.steps_per_epoch == 0 || options.steps_per_epoch < -1) {
    return errors::InvalidArgument("an epoch shall have ", options.steps_per_epoch,
                                   " steps; it has 1 at least, and -1 means as many as there are");
  }
  if (!data) return errors::InvalidArgument("there is no data to train with: OpenEpoch is empty");
  if (absl::c_linear_search(options.callbacks, nullptr)) {
    return errors::InvalidArgument("one of the callbacks is null");
  }
  if (options.log_dir.empty()) return FitRun(*this, data, options, steps).Run();
  FitOptions logged = options;
  logged.callbacks.push_back(callback::Log(options.log_dir));
  return FitRun(*this, data, logged, steps).Run();
}

absl::StatusOr<std::vector<EpochResult>> Trainer::Fit(const OpenEpoch& data,
                                                      const FitOptions& options) {
  return FitKnowing(options.steps_per_epoch, data, options);
}

absl::StatusOr<std::vector<EpochResult>> Trainer::Fit(const data::Dataset& data,
                                                      const FitOptions& options) {
  // Below 0: not known, or no end.
  TANDEM_ASSIGN_OR_RETURN(const int64_t all, data.Cardinality());
  int64_t steps = options.steps_per_epoch;
  if (all >= 0 && (steps < 0 || all < steps)) steps = all;
  return FitKnowing(steps, Epochs(data), options);
}

}  // namespace tandem
