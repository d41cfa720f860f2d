// FitCheckpoints: the checkpoints of one call of Fit: what it goes on from, and what it writes.
// What is in them is in training_state.h.
//
// Threads: one.
#ifndef TANDEM_STRATEGIES_TRAINER_FIT_CHECKPOINTS_H_
#define TANDEM_STRATEGIES_TRAINER_FIT_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/folder_lock.h"
#include "runtime/checkpoint/manager.h"
#include "strategies/strategy.h"
#include "strategies/trainer/trainer.h"
#include "strategies/trainer/training_state.h"

namespace tandem {

class FitCheckpoints {
 public:
  using Capture = absl::FunctionRef<absl::StatusOr<NamedTensors>()>;

  // Opens FitOptions::checkpoint_dir, which is not empty, locks it until the end of this object (in
  // the machine's own files), and looks for what to go on from. Errors: those of
  // FitOptions::resume; FailedPrecondition: another training has the folder.
  //
  // With `writes` false another process of the job writes the checkpoints, or it is not known yet
  // which one (Lead): here they are looked for where the training is resumed, and all that saves
  // does nothing.
  static absl::StatusOr<std::unique_ptr<FitCheckpoints>> Open(const FitOptions& options,
                                                              bool writes);

  // Where the training was, until it is taken; nothing: it begins.
  absl::optional<TrainingState>& found() { return found_; }
  // REQUIRES: something was found, and nothing restored yet. Gives all variables of `builder` and
  // lets go of the checkpoint. InvalidArgument: the model is another one; names all differences.
  absl::StatusOr<StrategyState> TakeVariables(const StrategyBuilder& builder);
  // True from Open on until TakeVariables, if something was found.
  bool is_pending() const { return checkpoint_ != nullptr; }
  // Of the checkpoint that was found.
  const std::string& prefix() const { return prefix_; }
  // While it is pending: its variables, whatever the model is.
  StrategyState Variables() const;
  // What was found is not wanted any more.
  void Forget();
  // Looks for the newest checkpoint of the job that runs, for found().
  absl::Status LookAgain();

  // Of several workers: this one writes from now on, or another one does. `files`: see
  // WorkerGroup::ChiefFiles. `is_beginning`: no step has been done, so that the folder must be a
  // new one unless the training is resumed (FailedPrecondition).
  absl::Status Lead(std::shared_ptr<FileSystem> files, bool is_beginning);
  void Follow();
  // Called with the step of each checkpoint that is complete.
  void set_on_saved(std::function<void(int64_t step)> on_saved) { on_saved_ = std::move(on_saved); }

  bool writes() const { return manager_ != nullptr; }
  bool IsDue(int64_t step) { return writes() && manager_->IsDue(step); }
  // Saves what `capture` gives, as the checkpoint of `step`. Errors by
  // FitOptions::stop_on_checkpoint_error, those of the save before included.
  absl::Status Save(int64_t step, Capture capture, absl::optional<double> metric = absl::nullopt);
  // Waits for the save that is running, then saves unless that very state was saved already, then
  // waits for this one.
  absl::Status SaveLast(int64_t step, Capture capture);
  // Waits for the save that is running.
  absl::Status Finish();
  // A step was done or an epoch ended since the last save.
  void Changed() { is_saved_ = false; }
  // Whether the last state is in a checkpoint, or is being written.
  bool is_saved() const { return is_saved_; }
  // The prefix of the newest checkpoint; empty: there is none.
  std::string newest() const {
    const std::string latest = writes() ? manager_->latest() : std::string();
    return latest.empty() ? prefix_ : latest;
  }

 private:
  explicit FitCheckpoints(const FitOptions& options) : options_(options) {}

  // FailedPrecondition: there is one, and the training may not go on from it.
  absl::Status Look(bool may_go_on);
  void NoteSaved();
  // OK for errors that the training bears; logs them.
  absl::Status Judge(const absl::Status& status);

  const FitOptions& options_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::map<std::string, Tensor> variables_;  // What it has beside notes; its files are read once.
  std::string prefix_;
  absl::optional<TrainingState> found_;
  FolderLock lock_;                             // Until after the last save.
  std::shared_ptr<FileSystem> chief_files_;     // What the manager may write with.
  std::unique_ptr<CheckpointManager> manager_;  // Null: another process writes.
  bool is_saved_ = false;                       // What there is, or it is being written.
  int64_t saving_ = -1;  // The step of the checkpoint that is being written; -1: none.
  std::function<void(int64_t step)> on_saved_;
};

// What callbacks keep, by Callback::state_name. InvalidArgument: two have one name, or one has a
// slash.
absl::Status CheckCallbackNames(const std::vector<CallbackPtr>& callbacks);
absl::StatusOr<std::map<std::string, StrategyState>> SaveCallbacks(
    const std::vector<CallbackPtr>& callbacks);
// A callback that nothing is kept of begins anew; what no callback wants is logged. Errors: those
// of the callbacks.
absl::Status RestoreCallbacks(const std::vector<CallbackPtr>& callbacks,
                              const std::map<std::string, StrategyState>& kept);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_FIT_CHECKPOINTS_H_
