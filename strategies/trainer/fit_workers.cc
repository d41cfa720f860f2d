// A training that several processes do together: how they meet, take steps, and give each other
// what they have.
//
// All take the same batches from the same data. So what one of them needs that comes late, or was
// away, is what a checkpoint has, with one addition: where the others are about to repeat a step,
// the batch of that step, which their input has given already.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "strategies/trainer/fit_run.h"

namespace tandem {
namespace {

// The tensors of the batch to be repeated, by their numbers. Never in a file.
constexpr char kBatchNote[] = "_tandem/batch/";

}  // namespace

class Trainer::FitRun::Party final : public WorkerGroup::Party {
 public:
  explicit Party(FitRun& run) : run_(run) {}

  std::string occupation() const override { return "a training"; }
  int64_t completed_step() const override {
    return run_.trainer_.step_ - 1 - (run_.repeated_ == nullptr ? 0 : 1);
  }
  absl::StatusOr<StrategyState> Give() override { return run_.Give(); }
  absl::Status Take(StrategyState state) override { return run_.Take(std::move(state)); }
  absl::Status TakeCheckpoint() override { return run_.TakeCheckpoint(); }
  absl::Status CheckStop() const override {
    // There is nobody to stop together with.
    return run_.IsStopWanted() ? run_.StopNow() : absl::OkStatus();
  }

 private:
  FitRun& run_;
};

absl::Status Trainer::FitRun::Meet() {
  Party party(*this);
  const absl::Status met = workers_->Meet(party);
  trainer_.NoteMembers();
  if (absl::IsCancelled(met) && !IsStop(met) && IsStopWanted()) return StopNow();
  TANDEM_RETURN_IF_ERROR(met);
  return EnterGroup();
}

absl::Status Trainer::FitRun::EnterGroup() {
  has_been_in_group_ = true;
  const bool is_beginning = Party(*this).completed_step() < trainer_.options_.first_step;
  shares_beginning_ = is_beginning && !IsPending();
  if (trainer_.HasOtherReplicas()) {
    if (taken_.has_value()) {
      trainer_.runner_.reset();
      trainer_.builder_.reset();
    } else {
      TANDEM_RETURN_IF_ERROR(trainer_.Rebuild());
    }
  }
  if (checkpoints_ == nullptr) return absl::OkStatus();
  if (!workers_->is_chief()) {
    checkpoints_->Follow();
    return absl::OkStatus();
  }
  checkpoints_->set_on_saved([this](int64_t step) {
    // The step that it was, not how many there were.
    const absl::Status noted = workers_->NoteCheckpoint(step - 1);
    if (!noted.ok()) {
      TANDEM_LOG(Warning) << "the checkpoint of step " << step
                          << " is there, but the job was not told: " << noted.message();
    }
  });
  return checkpoints_->Lead(workers_->ChiefFiles(), is_beginning);
}

absl::StatusOr<StrategyState> Trainer::FitRun::Give() {
  const int64_t step = trainer_.step_;
  if (repeated_ != nullptr) --trainer_.step_;
  absl::StatusOr<NamedTensors> captured = Capture();
  trainer_.step_ = step;
  if (!captured.ok()) return captured.status();
  StrategyState state = *std::move(captured);
  const std::vector<Tensor>* batch = nullptr;
  if (repeated_ != nullptr) {
    batch = &repeated_->input.batch;
  } else if (given_batch_.has_value()) {
    batch = &*given_batch_;
  }
  for (size_t i = 0; batch != nullptr && i < batch->size(); ++i) {
    state.emplace_back(absl::StrCat(kBatchNote, i), (*batch)[i]);
  }
  return state;
}

absl::Status Trainer::FitRun::Take(StrategyState state) {
  std::map<std::string, Tensor> notes;
  StrategyState variables;
  std::vector<Tensor> batch;
  for (auto& [name, value] : state) {
    absl::string_view number = name;
    size_t index = 0;
    if (absl::ConsumePrefix(&number, kBatchNote)) {
      if (!absl::SimpleAtoi(number, &index) || index != batch.size()) {
        return errors::InvalidArgument("another worker gave the batch of its step in disorder");
      }
      batch.push_back(std::move(value));
    } else if (absl::StartsWith(name, kNotePrefix)) {
      notes[name] = std::move(value);
    } else {
      variables.emplace_back(name, std::move(value));
    }
  }
  constexpr char kWhere[] = "the other workers";
  TANDEM_ASSIGN_OR_RETURN(TrainingState training, FromNotes(kWhere, notes));
  if (checkpoints_ != nullptr) checkpoints_->Forget();
  taken_ = std::move(variables);
  given_batch_.reset();
  if (!batch.empty()) given_batch_ = std::move(batch);
  repeated_ = nullptr;
  moved_ = true;
  return GoTo(std::move(training), kWhere);
}

absl::Status Trainer::FitRun::TakeCheckpoint() {
  if (checkpoints_ == nullptr) {
    return errors::FailedPrecondition(
        "the job goes on from a checkpoint, but this worker has no folder of checkpoints "
        "(FitOptions::checkpoint_dir)");
  }
  if (!options_.resume && !has_been_in_group_) {
    return errors::FailedPrecondition(
        "the folder '", options_.checkpoint_dir,
        "' has checkpoints of an earlier training; resume it (FitOptions::resume), or train into a "
        "folder of its own");
  }
  TANDEM_RETURN_IF_ERROR(checkpoints_->LookAgain());
  if (!checkpoints_->found().has_value()) return absl::OkStatus();
  taken_.reset();
  given_batch_.reset();
  repeated_ = nullptr;
  moved_ = true;
  return Resume();
}

absl::Status Trainer::FitRun::ShareBeginning() {
  if (!shares_beginning_) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(StrategyState state, trainer_.runner_->CaptureState());
  TANDEM_RETURN_IF_ERROR(workers_->BroadcastFromChief(state));
  TANDEM_RETURN_IF_ERROR(trainer_.runner_->TakeState(std::move(state)));
  shares_beginning_ = false;
  return absl::OkStatus();
}

float Trainer::FitRun::CastVote() { return IsStopWanted() && !has_asked_to_leave_ ? 1 : 0; }

absl::StatusOr<bool> Trainer::FitRun::RunTogether(Flight& flight) {
  StrategyRunner::Result result = absl::UnknownError("");
  for (int attempts = 1;; ++attempts) {
    flight.input.values.back() = Tensor::Scalar<float>(CastVote());
    const absl::Status begun = ShareBeginning();
    result = begun.ok() ? trainer_.runner_->Run(flight.program, flight.input) : begun;
    if (result.ok()) break;
    TANDEM_RETURN_IF_ERROR(trainer_.MayRepeat(result.status(), attempts, NameOf(flight)));
    repeated_ = &flight;
    const absl::Status met = Meet();
    repeated_ = nullptr;
    TANDEM_RETURN_IF_ERROR(met);
    if (moved_) return false;
  }
  TANDEM_RETURN_IF_ERROR(Report(flight, *result));
  size_t sums = 0;
  for (const int count : trainer_.train_step_.metric_sums) sums += static_cast<size_t>(count);
  stop_is_voted_ = (*result)[1 + sums].ScalarValue<float>() > 0;
  return true;
}

absl::Status Trainer::FitRun::EndStepTogether() {
  const absl::StatusOr<WorkerGroup::Advice> advice = workers_->CompletedStep(trainer_.step_ - 1);
  // After a loss the next step begins with a meeting.
  if (!advice.ok() && !absl::IsAborted(advice.status())) return advice.status();
  if (advice.ok() && checkpoints_ != nullptr) {
    if (advice->save) {
      TANDEM_RETURN_IF_ERROR(checkpoints_->SaveLast(trainer_.step_, [this] { return Capture(); }));
    }
    // What is being written when another group begins may be fenced off.
    if (advice->meet) TANDEM_RETURN_IF_ERROR(checkpoints_->Finish());
  }
  if (!stop_is_voted_) return absl::OkStatus();
  return IsStopWanted() ? StopNow() : WithMore(StopNow(), ", since another worker was interrupted");
}

absl::StatusOr<EpochResult> Trainer::FitRun::ValidateTogether() {
  for (int attempts = 1;; ++attempts) {
    absl::StatusOr<EpochResult> result = trainer_.EvaluateUnlessStopped(
        Epochs(*options_.validation), [this] { return CheckStop(); });
    if (result.ok() || workers_ == nullptr) return result;
    TANDEM_RETURN_IF_ERROR(trainer_.MayRepeat(result.status(), attempts, "the validation"));
    TANDEM_RETURN_IF_ERROR(Meet());
    if (moved_) return result;
  }
}

}  // namespace tandem
