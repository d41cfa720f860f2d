// What a strategy whose variables outlive this process keeps beside them, so that a training that
// has no checkpoints goes on when its program is started again.
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"
#include "strategies/trainer/fit_run.h"

namespace tandem {
namespace {

// Beside those of TrainingState.
constexpr char kFirstStepNote[] = "_tandem/first_step";
// More than this, such as copies of all variables, is not kept.
constexpr size_t kMostCallbackBytes = size_t{1} << 20;

}  // namespace

absl::Status Trainer::FitRun::PrepareFor(const std::vector<Tensor>& batch) {
  const absl::Status status = trainer_.Prepare(batch, [this] { return IsStopWanted(); });
  if (absl::IsCancelled(status) && IsStopWanted() && workers_ == nullptr) return StopNow();
  return status;
}

absl::Status Trainer::FitRun::KeepNote() {
  TANDEM_ASSIGN_OR_RETURN(TrainingState state, CaptureProgress());
  state.callbacks = noted_callbacks_;
  NamedTensors note = ToNotes(std::move(state));
  note.emplace_back(kFirstStepNote, Tensor::Scalar<int64_t>(first_step_));
  trainer_.runner_->KeepNote(std::move(note));
  return absl::OkStatus();
}

absl::Status Trainer::FitRun::NoteCallbacks() {
  TANDEM_ASSIGN_OR_RETURN(noted_callbacks_, SaveCallbacks(options_.callbacks));
  for (auto it = noted_callbacks_.begin(); it != noted_callbacks_.end();) {
    size_t bytes = 0;
    for (const auto& [name, value] : it->second) bytes += value.num_bytes();
    it = bytes > kMostCallbackBytes ? noted_callbacks_.erase(it) : std::next(it);
  }
  return absl::OkStatus();
}

absl::Status Trainer::FitRun::TakeNote() {
  if (workers_ != nullptr || std::exchange(has_looked_for_note_, true)) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(StrategyState note, trainer_.runner_->TakeNote());
  if (note.empty()) return absl::OkStatus();
  std::map<std::string, Tensor> tensors;
  for (auto& [name, value] : note) tensors[name] = std::move(value);
  const auto first = tensors.find(kFirstStepNote);
  if (first == tensors.end() || first->second.dtype() != kInt64 ||
      first->second.num_elements() != 1 || first->second.Elements<int64_t>()[0] != first_step_) {
    TANDEM_LOG(Warning) << "the variables are those of an earlier life of this program, which was "
                           "in another call of Fit; this one begins with its first epoch";
    return absl::OkStatus();
  }
  constexpr char kWhere[] = "an earlier life of this program";
  TANDEM_ASSIGN_OR_RETURN(TrainingState state, FromNotes(kWhere, tensors));
  is_noted_ = true;
  moved_ = true;
  return GoTo(std::move(state), kWhere);
}

}  // namespace tandem
