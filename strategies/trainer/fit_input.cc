#include "strategies/trainer/fit_input.h"

#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/input/describe.h"

namespace tandem {
namespace {

// Positions of pipelines that differ may well look the same (numbers of rows, of a random state).
absl::Status CheckDataSet(const std::string& there, const std::string& here) {
  if (there.empty() || here.empty() || there == here) return absl::OkStatus();
  return errors::InvalidArgument(
      "it stands in mid-epoch, and the data set is another one: ", data::DifferenceOf(there, here),
      ". Give the same data set, files under the same paths; another one can follow after an "
      "epoch's end");
}

}  // namespace

absl::Status FitInput::Open() {
  TANDEM_ASSIGN_OR_RETURN(next_, data_(opened_++));
  batches_ = 0;
  if (next_) return absl::OkStatus();
  return errors::InvalidArgument("epoch ", opened_, " has an empty NextBatch");
}

NextBatch::Result FitInput::Next(int64_t started) {
  if (started == steps_per_epoch_) return absl::optional<std::vector<Tensor>>();
  for (;;) {
    const bool is_new = !next_;
    // The source ended with the batch before: a training was resumed right there.
    if (is_new && started > 0) return absl::optional<std::vector<Tensor>>();
    if (is_new) TANDEM_RETURN_IF_ERROR(Open());
    TANDEM_ASSIGN_OR_RETURN(absl::optional<std::vector<Tensor>> batch, next_());
    if (batch.has_value()) {
      ++batches_;
      return batch;
    }
    damaged_before_ = next_.damaged();
    damage_before_ = next_.DescribeDamage();
    next_ = NextBatch();
    // Nothing was left of it.
    if (started == 0 && !is_new) continue;
    return batch;
  }
}

absl::StatusOr<std::vector<Tensor>> FitInput::Sample() const {
  TANDEM_ASSIGN_OR_RETURN(const NextBatch next, data_(0));
  if (!next) return errors::InvalidArgument("epoch 1 has an empty NextBatch");
  TANDEM_ASSIGN_OR_RETURN(absl::optional<std::vector<Tensor>> batch, next());
  if (!batch.has_value()) return errors::InvalidArgument("epoch 1 has no batch");
  return *std::move(batch);
}

absl::StatusOr<TrainingState::Input> FitInput::Save() const {
  TrainingState::Input state;
  state.opened = opened_;
  state.is_open = static_cast<bool>(next_);
  state.batches = batches_;
  if (state.is_open) state.data_set = next_.Describe();
  if (state.is_open && next_.has_position()) {
    TANDEM_ASSIGN_OR_RETURN(state.position, next_.SavePosition());
  }
  return state;
}

absl::Status FitInput::Restore(const TrainingState::Input& state,
                               absl::FunctionRef<absl::Status()> check_stop) {
  opened_ = state.opened;
  next_ = NextBatch();  // Whatever was open here.
  batches_ = 0;
  if (!state.is_open) return absl::OkStatus();
  --opened_;
  TANDEM_RETURN_IF_ERROR(Open());
  if (state.position.has_value()) {
    if (!next_.has_position()) {
      return errors::InvalidArgument(
          "the training to resume read a data set, whose position the checkpoint has; this one "
          "reads a function, which has none. Give the same data set");
    }
    constexpr char kWhat[] = "the input cannot go on where the training was";
    TANDEM_RETURN_IF_ERROR(WithContext(CheckDataSet(state.data_set, next_.Describe()), kWhat));
    TANDEM_RETURN_IF_ERROR(WithContext(next_.RestorePosition(*state.position), kWhat));
  } else {
    TANDEM_LOG(Info) << "the input is a function without a position: its first " << state.batches
                     << " batches are read once more and passed over";
    for (int64_t i = 0; i < state.batches; ++i) {
      TANDEM_RETURN_IF_ERROR(check_stop());
      TANDEM_ASSIGN_OR_RETURN(const absl::optional<std::vector<Tensor>> batch, next_());
      if (batch.has_value()) continue;
      return errors::InvalidArgument("the input ends after ", i,
                                     " batches; the training to resume ", "had taken ",
                                     state.batches, " from it. Is it the same data?");
    }
  }
  batches_ = state.batches;
  return absl::OkStatus();
}

}  // namespace tandem
