// Trainer::Fit: epochs, and how a training ends.
#include <csignal>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "strategies/chief.h"
#include "strategies/trainer/fit_run.h"
#include "strategies/trainer/log_callback.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

// Payload of the status of a training that was stopped: the exit code, in decimal.
constexpr char kExitCode[] = "tandem.dev/exit_code";

constexpr absl::Duration kLookForStop = absl::Milliseconds(50);

// `signal`: 0 when Trainer::Stop was called.
absl::Status Stopped(StopReason reason, int signal, int64_t step) {
  absl::string_view why;
  if (signal == SIGINT) why = ", since it was interrupted (SIGINT)";
  if (signal == SIGTERM) why = ", since the process was told to end (SIGTERM)";
  if (signal == SIGHUP) why = ", since its terminal went away (SIGHUP)";
  absl::Status status = errors::Cancelled("training was stopped after step ", step, why);
  const int preempted_or_not = reason == StopReason::kPreempted ? SIGTERM : SIGINT;
  const int code = 128 + (signal != 0 ? signal : preempted_or_not);
  status.SetPayload(kExitCode, absl::Cord(absl::StrCat(code)));
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

absl::StatusOr<std::vector<EpochResult>> Trainer::FitRun::Run() {
  if (IsEvaluatorByEnvironment()) {
    absl::StatusOr<std::vector<EpochResult>> results = EvaluateCheckpoints();
    // A request is fulfilled once.
    trainer_.stop_.store(StopReason::kNone, std::memory_order_relaxed);
    return results;
  }
  if (!options_.checkpoint_dir.empty()) {
    // Of several workers the first meeting tells who writes.
    const bool writes = workers_ == nullptr && trainer_.is_chief();
    TANDEM_ASSIGN_OR_RETURN(checkpoints_, FitCheckpoints::Open(options_, writes));
    if (workers_ != nullptr) {
      TANDEM_RETURN_IF_ERROR(workers_->SetFolder(options_.checkpoint_dir));
    }
  }
  absl::Status status;
  if (checkpoints_ != nullptr || workers_ != nullptr) {
    status = CheckCallbackNames(options_.callbacks);
  }
  if (status.ok() && checkpoints_ != nullptr) status = Resume();
  if (status.ok() && workers_ != nullptr) status = workers_->has_met() ? EnterGroup() : Meet();
  std::vector<CallbackPtr> begun;
  if (status.ok()) {
    for (const CallbackPtr& callback : options_.callbacks) {
      status = callback->OnBegin(trainer_);
      if (!status.ok()) break;
      begun.push_back(callback);
    }
  }
  if (status.ok()) {
    have_callbacks_begun_ = true;
    status = RestoreCallbacks(options_.callbacks, std::exchange(kept_callbacks_, {}));
  }
  // Before callbacks put the best variables in the place of the last ones.
  status = status.ok() ? TrainAndSave() : EndCheckpoints(status);
  // A request is fulfilled once.
  trainer_.stop_.store(StopReason::kNone, std::memory_order_relaxed);
  for (const CallbackPtr& callback : begun) {
    const absl::Status end = callback->OnEnd(trainer_, status);
    if (status.ok()) status = end;
  }
  if (!status.ok()) return status;
  return std::move(history_);
}

absl::Status Trainer::FitRun::TrainAndSave() {
  for (int attempts = 1;; ++attempts) {
    const absl::Status status = EndCheckpoints(Train());
    if (workers_ == nullptr) return status;
    if (!status.ok() && !IsStop(status)) {
      workers_->Leave();
      return status;
    }
    // Nobody ends before the chief has saved: it would be one that was lost.
    absl::Status ended = workers_->Barrier("the end of Fit");
    if (ended.ok()) {
      // Nor before all know that. Whoever misses it now was the last to be told.
      workers_->Barrier("the end of Fit is known").IgnoreError();
      return status;
    }
    if (!status.ok()) return status;
    // Maybe another one was lost in the last step; then that needs the state of this one. Where the
    // state is that of the end, Train has nothing to do.
    if (absl::IsAborted(ended) && attempts < trainer_.options_.max_step_attempts) ended = Meet();
    if (ended.ok()) continue;
    TANDEM_LOG(Warning) << "the training is done here; whether it is at the other workers is not "
                        << "known: " << ended.message();
    return status;
  }
}

absl::Status Trainer::FitRun::Train() {
  // One that is resumed in mid-epoch ends that epoch, whatever callbacks wanted.
  while (epoch_ < options_.epochs && (!ends_ || running_.has_value())) {
    TANDEM_RETURN_IF_ERROR(CheckStop());
    moved_ = false;
    BeginEpoch();
    // Nothing may be in flight when the callers look at the variables.
    TANDEM_RETURN_IF_ERROR(LandAll(TrainEpoch()));
    if (moved_) continue;
    TANDEM_RETURN_IF_ERROR(RestoreWithoutBatch());
    if (progress_.step == 0) {
      return errors::InvalidArgument("epoch ", epoch_ + 1,
                                     " has no batch: the data set is empty, or its batches are "
                                     "larger than the data and incomplete ones are dropped");
    }
    TANDEM_RETURN_IF_ERROR(CheckStop());
    if (!ends_ && options_.steps_per_epoch < 0) steps_of_last_epoch_ = progress_.step;
    TANDEM_RETURN_IF_ERROR(EndEpoch());
  }
  return RestoreWithoutBatch();
}

void Trainer::FitRun::BeginEpoch() {
  progress_ = TrainingProgress();
  progress_.epoch = epoch_;
  progress_.epochs = options_.epochs;
  progress_.steps = steps_of_last_epoch_;
  begin_ = absl::Now();
  totals_.reset();
  if (!running_.has_value()) return;
  progress_.step = running_->steps;
  begin_ -= running_->elapsed;
}

absl::Status Trainer::FitRun::TrainEpoch() {
  for (int64_t started = progress_.step; !ends_; ++started) {
    TANDEM_RETURN_IF_ERROR(CheckStop());
    if (workers_ != nullptr && !workers_->has_met()) {
      TANDEM_RETURN_IF_ERROR(Meet());
      if (moved_) return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(absl::optional<std::vector<Tensor>> batch, TakeBatch(started));
    if (!batch.has_value()) break;
    TANDEM_RETURN_IF_ERROR(CheckBatch(*batch));
    TANDEM_RETURN_IF_ERROR(PrepareFor(*batch));
    TANDEM_RETURN_IF_ERROR(TakeNote());
    if (moved_) return absl::OkStatus();
    TANDEM_RETURN_IF_ERROR(RestoreVariables());
    TANDEM_RETURN_IF_ERROR(CheckCheckpointMetric());
    if (!totals_.has_value()) {
      totals_.emplace(trainer_.metrics_, trainer_.train_step_.metric_sums);
    }
    TANDEM_ASSIGN_OR_RETURN(Flight flight, NewFlight(*std::move(batch)));
    if (workers_ != nullptr) {
      TANDEM_ASSIGN_OR_RETURN(const bool is_done, RunTogether(flight));
      if (!is_done) return absl::OkStatus();
    } else if (trainer_.runner_->max_steps_in_flight() == 1) {
      // On this thread, without a hand-over.
      TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                              trainer_.RunStep(flight.program, flight.input, NameOf(flight)));
      TANDEM_RETURN_IF_ERROR(Report(flight, fetched));
    } else {
      TakeOff(std::move(flight));
      while (in_flight_ >= trainer_.runner_->max_steps_in_flight()) {
        // Steps may wait for other processes, which may not come before somebody wants to stop.
        absl::optional<Landing> landing = WaitForLanding(absl::Now() + kLookForStop);
        TANDEM_RETURN_IF_ERROR(landing.has_value() ? Land(*std::move(landing)) : CheckStop());
      }
    }
    if (trainer_.runner_->WantsNote()) TANDEM_RETURN_IF_ERROR(KeepNote());
    if (checkpoints_ != nullptr) TANDEM_RETURN_IF_ERROR(SaveIfDue());
    if (workers_ != nullptr) TANDEM_RETURN_IF_ERROR(EndStepTogether());
  }
  return absl::OkStatus();
}

NextBatch::Result Trainer::FitRun::TakeBatch(int64_t started) {
  if (given_batch_.has_value()) return std::exchange(given_batch_, absl::nullopt);
  return input_.Next(started);
}

absl::Status Trainer::FitRun::EndEpoch() {
  EpochResult result = totals_->Result(absl::Now() - begin_);
  result.damaged = input_.damaged();
  SayDamage(result.damaged);
  if (options_.validation.has_value()) {
    absl::StatusOr<EpochResult> validation = ValidateTogether();
    if (moved_) return absl::OkStatus();
    if (!validation.ok()) return WithContext(validation.status(), "validation");
    result.validation = std::make_shared<EpochResult>(*std::move(validation));
  }
  history_.push_back(result);
  if (options_.on_epoch && !options_.on_epoch(epoch_, result)) ends_ = true;
  for (const CallbackPtr& callback : options_.callbacks) {
    TANDEM_ASSIGN_OR_RETURN(const Callback::Next next, callback->OnEpoch(trainer_, epoch_, result));
    if (next == Callback::Next::kStop) ends_ = true;
  }
  // From here on a checkpoint stands before the next epoch.
  ++epoch_;
  totals_.reset();
  if (trainer_.runner_->KeepsNotes()) {
    TANDEM_RETURN_IF_ERROR(NoteCallbacks());
    TANDEM_RETURN_IF_ERROR(KeepNote());
  }
  return checkpoints_ == nullptr ? absl::OkStatus() : SaveAfterEpoch(result);
}

void Trainer::FitRun::SayDamage(int64_t damaged) {
  // Each epoch meets the same places again.
  if (damaged <= damage_said_) return;
  damage_said_ = damaged;
  TANDEM_LOG(Warning) << damaged << (damaged == 1 ? " damaged record was" : " damaged records were")
                      << " passed over until the end of epoch " << epoch_ + 1 << ": "
                      << input_.DescribeDamage();
}

bool Trainer::FitRun::IsStopWanted() const {
  return trainer_.stop_.load(std::memory_order_relaxed) != StopReason::kNone ||
         signals_.received() != 0;
}

absl::Status Trainer::FitRun::CheckStop() {
  if (!IsStopWanted()) return absl::OkStatus();
  if (workers_ == nullptr) return StopNow();
  const int signal = signals_.received();
  const bool leaves = signal == SIGTERM || signal == SIGHUP ||
                      trainer_.stop_.load(std::memory_order_relaxed) == StopReason::kPreempted;
  if (leaves && !std::exchange(has_asked_to_leave_, true)) workers_->RequestPreemption();
  return absl::OkStatus();
}

absl::Status Trainer::FitRun::StopNow() const {
  return Stopped(trainer_.stop_.load(std::memory_order_relaxed), signals_.received(),
                 trainer_.step_);
}

absl::Status Trainer::FitRun::WithMore(const absl::Status& status, absl::string_view more) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), more));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { longer.SetPayload(type, payload); });
  return longer;
}

bool Trainer::FitRun::IsStop(const absl::Status& status) {
  return status.GetPayload(kExitCode).has_value();
}

std::string Trainer::FitRun::Where() const {
  return absl::StrCat(" (epoch ", progress_.epoch + 1, ")");
}

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
  if (options.resume && options.checkpoint_dir.empty()) {
    return errors::InvalidArgument(
        "a training is to be resumed (FitOptions::resume), but there is no folder of checkpoints "
        "(checkpoint_dir)");
  }
  if (strategy_.workers() == nullptr && !is_chief() &&
      !(options.log_dir.empty() && options.checkpoint_dir.empty())) {
    TANDEM_LOG(Info) << "another worker of this job (the chief) writes its log and its checkpoints";
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
