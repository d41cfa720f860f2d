// FitInput: the batches of one call of Fit, over all of its epochs, and where they stand.
//
// Threads: one.
#ifndef TANDEM_STRATEGIES_TRAINER_FIT_INPUT_H_
#define TANDEM_STRATEGIES_TRAINER_FIT_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "strategies/trainer/input.h"
#include "strategies/trainer/training_state.h"

namespace tandem {

class FitInput {
 public:
  // `steps_per_epoch` as FitOptions has it. `data` outlives the input.
  FitInput(const OpenEpoch& data, int64_t steps_per_epoch)
      : data_(data), steps_per_epoch_(steps_per_epoch) {}

  // The next batch of the epoch, of which `started` were taken, or nothing at its end. An epoch
  // that ended because it had its number of steps leaves its source to the next one, which goes on
  // there.
  NextBatch::Result Next(int64_t started);

  // Of the source that is open, or was last: see NextBatch.
  int64_t damaged() const { return next_ ? next_.damaged() : damaged_before_; }
  std::string DescribeDamage() const { return next_ ? next_.DescribeDamage() : damage_before_; }

  // A batch like the others, to build the model for.
  absl::StatusOr<std::vector<Tensor>> Sample() const;

  // Right after the batch that Next gave last. Errors: the source's.
  absl::StatusOr<TrainingState::Input> Save() const;
  // Goes there. A source without position is read again up to there; `check_stop` is asked
  // meanwhile. InvalidArgument: the source is another one than that which was saved.
  absl::Status Restore(const TrainingState::Input& state,
                       absl::FunctionRef<absl::Status()> check_stop);

 private:
  absl::Status Open();

  const OpenEpoch& data_;
  const int64_t steps_per_epoch_;
  NextBatch next_;  // Empty: to be opened.
  // Of the one that ended.
  int64_t damaged_before_ = 0;
  std::string damage_before_;
  int opened_ = 0;
  int64_t batches_ = 0;  // Taken from next_.
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_FIT_INPUT_H_
