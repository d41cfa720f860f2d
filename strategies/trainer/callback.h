// Callbacks: what happens between steps and epochs of a training.
//
//   trainer.Fit(train, {.epochs = 50,
//                       .validation = test,
//                       .callbacks = {callback::Progress(),
//                                     callback::EarlyStopping({.patience = 3})}});
//
// A callback of one's own derives from Callback. Threads: all calls come from the thread that
// called Fit. A callback serves one Fit at a time and may keep state in between.
#ifndef TANDEM_STRATEGIES_TRAINER_CALLBACK_H_
#define TANDEM_STRATEGIES_TRAINER_CALLBACK_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "strategies/runner.h"
#include "strategies/trainer/progress.h"

namespace tandem {

class Trainer;

class Callback {
 public:
  enum class Next { kGoOn, kStop };

  virtual ~Callback() = default;

  // An error ends the training with it; kStop ends it with success after this step or epoch.
  virtual absl::Status OnBegin(Trainer& /*trainer*/) { return absl::OkStatus(); }
  // Whether TrainingProgress shall have the trace of step `number` (TrainingProgress::number).
  // Asked before it starts.
  virtual bool WantsTrace(int64_t /*number*/) const { return false; }
  virtual absl::StatusOr<Next> OnStep(Trainer& /*trainer*/, const TrainingProgress& /*progress*/) {
    return Next::kGoOn;
  }
  virtual absl::StatusOr<Next> OnEpoch(Trainer& /*trainer*/, int /*epoch*/,
                                       const EpochResult& /*result*/) {
    return Next::kGoOn;
  }
  // After the last epoch, also when the training was stopped or failed, which `status` tells; not
  // when OnBegin failed here or in a callback before this one.
  virtual absl::Status OnEnd(Trainer& /*trainer*/, const absl::Status& /*status*/) {
    return absl::OkStatus();
  }

  // For checkpoints: what the callback needs to go on in another process, under a name that no
  // other callback of the training has, without "/". Empty: nothing; it begins anew.
  virtual std::string state_name() const { return ""; }
  virtual absl::StatusOr<StrategyState> SaveState() { return StrategyState(); }
  // Called after OnBegin where a training goes on that had a callback of this name. What comes from
  // a file is not to be trusted: InvalidArgument, if it is not what SaveState gives.
  virtual absl::Status RestoreState(const StrategyState& /*state*/) { return absl::OkStatus(); }
};

using CallbackPtr = std::shared_ptr<Callback>;

namespace callback {

// On a terminal one live line with step, loss, metrics, examples/s and time left; elsewhere one
// line an epoch. `is_terminal`: whether `out` is one; not set: what the system says.
CallbackPtr Progress(std::FILE* out = stdout, absl::optional<bool> is_terminal = absl::nullopt);

struct WatchOptions {
  // "loss", a metric's name, or one of these after "validation_". An epoch without it is
  // InvalidArgument.
  std::string value = "validation_loss";
  bool larger_is_better = false;
  double min_delta = 0;  // Less than this is no improvement.
  int patience = 0;      // So many epochs without improvement are borne. EarlyStopping only.
  // At the end the variables (and slots) are those of the best epoch.
  bool restore_best = true;
};
// Ends the training when the value has not become better for more than `patience` epochs.
CallbackPtr EarlyStopping(WatchOptions options = {});
// Trains all epochs and keeps the variables of the best one.
CallbackPtr BestWeights(WatchOptions options = {});

}  // namespace callback
}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_CALLBACK_H_
