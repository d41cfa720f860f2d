// The checkpoints of a training: what they hold, when they are written, and how one is gone on
// from.
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "strategies/trainer/fit_run.h"

namespace tandem {

absl::Status Trainer::FitRun::Resume() {
  if (!checkpoints_->found().has_value()) return absl::OkStatus();
  has_looked_for_note_ = true;  // A checkpoint has variables and data of the same moment.
  return GoTo(*std::exchange(checkpoints_->found(), absl::nullopt),
              absl::StrCat("the checkpoint '", checkpoints_->prefix(), "'"));
}

absl::Status Trainer::FitRun::GoTo(TrainingState state, const std::string& where) {
  where_ = where;
  if (state.seed != trainer_.options_.seed) {
    return errors::InvalidArgument("the training of ", where_, " has the seed ", state.seed,
                                   ", this one has ", trainer_.options_.seed,
                                   " (TrainerOptions::seed)");
  }
  if (have_callbacks_begun_) {
    TANDEM_RETURN_IF_ERROR(RestoreCallbacks(options_.callbacks, state.callbacks));
  } else {
    kept_callbacks_ = std::move(state.callbacks);
  }
  TANDEM_RETURN_IF_ERROR(input_.Restore(state.input, [this] { return CheckStop(); }));
  const bool is_done = state.epoch >= options_.epochs || (state.ended && !state.running);
  resumed_ = absl::StrCat(is_done ? "the training is done: " : "goes on after ", state.step,
                          " steps, ", state.epoch, " epochs",
                          state.ended ? ", ended by a callback" : "", " (", where_, ")");
  trainer_.step_ = state.step;
  epoch_ = state.epoch;
  ends_ = state.ended;
  history_ = std::move(state.history);
  running_ = std::move(state.running);
  details_ = std::move(state.strategy);
  if (!is_done) optimizer_before_ = std::move(state.trained_with);
  return absl::OkStatus();
}

absl::Status Trainer::FitRun::CheckOptimizer() const {
  if (!optimizer_before_.has_value()) return absl::OkStatus();
  const std::vector<std::string> differences =
      DifferencesOf(*optimizer_before_, *trainer_.optimizer_);
  if (differences.empty()) return absl::OkStatus();
  if (options_.accept_optimizer_changes) {
    TANDEM_LOG(Warning) << "the training goes on with another optimizer than before: "
                        << absl::StrJoin(differences, "; ");
    return absl::OkStatus();
  }
  return errors::InvalidArgument(
      "the training of ", where_,
      " would go on with another optimizer: ", absl::StrJoin(differences, "; "),
      ". Give the same, or say that this is meant (FitOptions::accept_optimizer_changes)");
}

bool Trainer::FitRun::IsPending() const {
  return taken_.has_value() || (checkpoints_ != nullptr && checkpoints_->is_pending());
}

absl::Status Trainer::FitRun::RestoreVariables() {
  if (!IsPending() && !is_noted_) return absl::OkStatus();
  StrategyState state;
  if (taken_.has_value()) {
    state = *std::exchange(taken_, absl::nullopt);
  } else if (IsPending()) {
    TANDEM_ASSIGN_OR_RETURN(state, checkpoints_->TakeVariables(*trainer_.builder_));
  }
  TANDEM_RETURN_IF_ERROR(CheckOptimizer());
  if (!std::exchange(is_noted_, false)) {
    TANDEM_RETURN_IF_ERROR(trainer_.runner_->TakeState(std::move(state)));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> unknown,
                          trainer_.runner_->RestoreDetails(std::exchange(details_, {})));
  if (!unknown.empty()) {
    TANDEM_LOG(Info) << unknown.size() << " positions of random ops and copies of variables are "
                     << "passed over, which another strategy saved: " << unknown[0]
                     << (unknown.size() > 1 ? ", …" : "");
  }
  if (running_.has_value()) {
    TANDEM_RETURN_IF_ERROR(trainer_.CheckSums(*running_));
    totals_.emplace(trainer_.metrics_, trainer_.train_step_.metric_sums);
    totals_->set_sums(std::move(running_->sums));
    running_.reset();
  }
  TANDEM_LOG(Info) << resumed_;
  return absl::OkStatus();
}

absl::Status Trainer::FitRun::RestoreWithoutBatch() {
  if (!IsPending() && !is_noted_) return absl::OkStatus();
  if (trainer_.runner_ == nullptr) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> batch, input_.Sample());
    TANDEM_RETURN_IF_ERROR(CheckBatch(batch));
    TANDEM_RETURN_IF_ERROR(PrepareFor(batch));
  }
  return RestoreVariables();
}

absl::StatusOr<TrainingState> Trainer::FitRun::CaptureProgress() const {
  TrainingState state;
  state.step = trainer_.step_;
  state.seed = trainer_.options_.seed;
  state.epoch = epoch_;
  state.ended = ends_;
  if (running_.has_value()) {
    state.running = running_;
  } else if (totals_.has_value() && progress_.step + in_flight_ > 0) {
    TrainingState::RunningEpoch running;
    running.steps = progress_.step + in_flight_;
    running.elapsed = absl::Now() - begin_;
    running.sums = totals_->sums();
    // Those are changed by the next step, while the checkpoint is being written.
    for (Tensor& sum : running.sums.metrics) {
      TANDEM_ASSIGN_OR_RETURN(sum, sum.Clone());
    }
    for (const MetricPtr& metric : trainer_.metrics_) running.metrics.push_back(metric->name());
    state.running = std::move(running);
  }
  state.history = history_;
  state.trained_with = Describe(*trainer_.optimizer_, trainer_.step_);
  TANDEM_ASSIGN_OR_RETURN(state.input, input_.Save());
  return state;
}

absl::StatusOr<NamedTensors> Trainer::FitRun::Capture() {
  TANDEM_ASSIGN_OR_RETURN(TrainingState state, CaptureProgress());
  if (have_callbacks_begun_) {
    TANDEM_ASSIGN_OR_RETURN(state.callbacks, SaveCallbacks(options_.callbacks));
  } else {
    state.callbacks = kept_callbacks_;
  }
  // What was not restored yet is handed on as it came.
  NamedTensors tensors;
  if (IsPending()) {
    state.strategy = details_;
    tensors = taken_.has_value() ? *taken_ : checkpoints_->Variables();
  } else {
    TANDEM_ASSIGN_OR_RETURN(state.strategy, trainer_.runner_->CaptureDetails());
    TANDEM_ASSIGN_OR_RETURN(tensors, trainer_.runner_->CaptureState());
  }
  for (auto& note : ToNotes(std::move(state))) tensors.push_back(std::move(note));
  return tensors;
}

absl::Status Trainer::FitRun::CheckCheckpointMetric() {
  if (std::exchange(is_metric_checked_, true)) return absl::OkStatus();
  if (checkpoints_ == nullptr || options_.checkpoints.retention.keep_best <= 0) {
    return absl::OkStatus();
  }
  std::vector<std::string> names = {"loss"};
  for (const MetricPtr& metric : trainer_.metrics_) names.push_back(metric->name());
  if (options_.validation.has_value()) {
    const size_t count = names.size();
    for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat("validation_", names[i]));
  }
  if (absl::c_linear_search(names, options_.checkpoint_metric)) return absl::OkStatus();
  const bool lacks_validation = !options_.validation.has_value() &&
                                absl::StartsWith(options_.checkpoint_metric, "validation_");
  return errors::InvalidArgument(
      "the best checkpoints are to be kept by '", options_.checkpoint_metric,
      "' (FitOptions::checkpoint_metric), which epochs of this training do not have; they have ",
      absl::StrJoin(names, ", "), lacks_validation ? "; FitOptions::validation is not set" : "");
}

absl::Status Trainer::FitRun::SaveIfDue() {
  checkpoints_->Changed();
  if (!checkpoints_->IsDue(trainer_.step_)) return absl::OkStatus();
  // The one after the epoch follows at once.
  if (options_.checkpoint_epochs && !options_.validation.has_value() &&
      progress_.step == progress_.steps) {
    return absl::OkStatus();
  }
  TANDEM_RETURN_IF_ERROR(LandAll(absl::OkStatus()));
  return checkpoints_->Save(trainer_.step_, [this] { return Capture(); });
}

absl::Status Trainer::FitRun::SaveAfterEpoch(const EpochResult& result) {
  checkpoints_->Changed();
  if (!options_.checkpoint_epochs && options_.checkpoints.retention.keep_best == 0) {
    return absl::OkStatus();
  }
  absl::optional<double> metric;
  if (options_.checkpoints.retention.keep_best > 0) {
    metric = result.Value(options_.checkpoint_metric);
  }
  return checkpoints_->Save(
      trainer_.step_, [this] { return Capture(); }, metric);
}

absl::Status Trainer::FitRun::EndCheckpoints(const absl::Status& status) {
  if (checkpoints_ == nullptr) {
    return !IsStop(status) ? status
                           : WithMore(status,
                                      "; there are no checkpoints of it "
                                      "(FitOptions::checkpoint_dir)");
  }
  const bool may_save = (status.ok() || IsStop(status)) && are_variables_whole_ &&
                        trainer_.runner_ != nullptr && !IsPending();
  const absl::Status saved =
      may_save ? checkpoints_->SaveLast(trainer_.step_, [this] { return Capture(); })
               : checkpoints_->Finish();
  if (status.ok()) return saved;
  if (!saved.ok()) {
    TANDEM_LOG(Error) << saved.message();
  }
  if (!IsStop(status)) return status;
  if (!checkpoints_->writes()) {
    return WithMore(status, "; another worker (the chief) writes its checkpoints");
  }
  const std::string newest = checkpoints_->newest();
  if (may_save && checkpoints_->is_saved()) {
    return WithMore(status, absl::StrCat("; '", newest, "' has its state"));
  }
  return WithMore(status, newest.empty()
                              ? "; there is no checkpoint of it"
                              : absl::StrCat("; its newest checkpoint is '", newest, "'"));
}

}  // namespace tandem
