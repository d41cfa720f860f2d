// TrainingState: where a training stands, beside its variables. In a checkpoint these are notes
// (kNotePrefix in runtime/checkpoint/checkpoint.h), all of which begin with "_tandem/":
//
//   step, seed             of the trainer
//   epoch                  the running one, from 0; ended: a callback wants no more steps
//   epoch/…                the running epoch's steps, seconds, sums of the loss and of metrics
//   input/…                how often the input was opened, what it reads, and where it stands
//   history/…              the results of the epochs before
//   optimizer/…            its options, and learning rates of steps that were done
//   callback/<name>/…      what callbacks keep (Callback::SaveState)
//   strategy/…             what only an equal strategy understands (StrategyRunner::CaptureDetails)
//
// Threads: one.
#ifndef TANDEM_STRATEGIES_TRAINER_TRAINING_STATE_H_
#define TANDEM_STRATEGIES_TRAINER_TRAINING_STATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/tensor/tensor.h"
#include "runtime/checkpoint/checkpoint.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/runner.h"
#include "strategies/trainer/progress.h"

namespace tandem {

struct TrainingState {
  struct RunningEpoch {
    int64_t steps = 0;  // Done.
    absl::Duration elapsed;
    EpochTotals::Sums sums;
    std::vector<std::string> metrics;  // Whose sums these are.
  };
  struct Input {
    int opened = 0;  // How often.
    bool is_open = false;
    // Of the open one. Batches that were taken, and the position after them if it has one.
    int64_t batches = 0;
    absl::optional<std::string> position;
    std::string data_set;  // Its description (data::Describe); empty: not known.
  };

  // What the training has a checkpoint's variables from.
  struct TrainedWith {
    optimizer::OptionList options;  // With its name.
    // Steps that were done, from 0, and their learning rates.
    std::vector<int64_t> steps;
    std::vector<double> learning_rates;
  };

  int64_t step = 0;
  int64_t seed = 0;
  int epoch = 0;
  bool ended = false;
  absl::optional<RunningEpoch> running;  // Nothing: the epoch has not begun.
  Input input;
  std::vector<EpochResult> history;
  absl::optional<TrainedWith> trained_with;  // Nothing: not known.
  std::map<std::string, StrategyState> callbacks;
  StrategyState strategy;
};

NamedTensors ToNotes(TrainingState state);

// From all tensors of the checkpoint `prefix`, by name. FailedPrecondition: the checkpoint is no
// training's. DataLoss: a note is none that Tandem writes.
absl::StatusOr<TrainingState> FromNotes(const std::string& prefix,
                                        const std::map<std::string, Tensor>& tensors);

// What `step` steps were trained with. It samples steps that were done, since a schedule need not
// have rates for others.
TrainingState::TrainedWith Describe(const optimizer::Optimizer& optimizer, int64_t step);
// What is another one in `now`, for people, with both values. Empty: nothing.
std::vector<std::string> DifferencesOf(const TrainingState::TrainedWith& was,
                                       const optimizer::Optimizer& now);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_TRAINING_STATE_H_
