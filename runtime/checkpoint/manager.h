// CheckpointManager: the checkpoints of one training run, over time. It says when to save, saves
// beside the training, and keeps the newest, some for good, and the best.
//
//   TANDEM_ASSIGN_OR_RETURN(auto manager, CheckpointManager::Create("run/ckpt", options));
//   for (int64_t step = 1; …; ++step) {
//     …
//     if (manager->IsDue(step)) {
//       TANDEM_ASSIGN_OR_RETURN(StrategyState state, runner->CaptureState());
//       TANDEM_RETURN_IF_ERROR(manager->Save(step, std::move(state)).status());
//     }
//   }
//   TANDEM_RETURN_IF_ERROR(manager->Wait());
//
// A save writes the checkpoint (WriteCheckpoint), then names it in the file `checkpoint`, then
// removes those that are not kept, and then their names. Whatever interrupts it, the checkpoints
// before stay as they are. A save that fails leaves no files of its own; those that a killed
// process left are removed when a manager of the same folder and name is made.
//
// Asynchronous saves write on a thread of the manager's own. The tensors that are handed over are
// shared, not copied: nobody may write into their memory. Variables keep to that by themselves,
// since an update of a value that somebody else holds goes into fresh memory (Tensor's
// OwnsBufferAlone); so a save costs the training a second copy of what changes meanwhile, in
// memory.
//
// Errors of an asynchronous save come back from the next call of Save or Wait, once. A manager goes
// on after errors: whether the training does is its caller's choice.
//
// Threads: one at a time. Lifetime: the file system and the clock outlive it. Its destructor waits
// for the save that is running; the error of that one is logged.
#ifndef TANDEM_RUNTIME_CHECKPOINT_MANAGER_H_
#define TANDEM_RUNTIME_CHECKPOINT_MANAGER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/io/file.h"
#include "runtime/checkpoint/retention.h"
#include "runtime/checkpoint/write.h"

namespace tandem {

struct CheckpointManagerOptions {
  FileSystem* files = PosixFileSystem();
  Clock* clock = Clock::Real();
  // Checkpoints are FOLDER/NAME-<step>.
  std::string name = "ckpt";
  int num_shards = 1;

  // When IsDue says so: at steps that are multiples of `save_every_steps` (0: at none), and when
  // `save_every` has passed since the last save began.
  int64_t save_every_steps = 0;
  absl::Duration save_every = absl::InfiniteDuration();

  Retention retention;

  bool asynchronous = true;
  // What Save does while another save is running.
  enum class WhenBusy { kWait, kSkip };
  WhenBusy when_busy = WhenBusy::kWait;
  // How long Save and Wait wait for a save that is running.
  absl::Duration patience = absl::Minutes(10);
};

class CheckpointManager {
 public:
  using Options = CheckpointManagerOptions;

  // Makes the folder, reads which checkpoints it has, and removes what a killed process left.
  // InvalidArgument: options that make no sense. Errors of the files.
  static absl::StatusOr<std::unique_ptr<CheckpointManager>> Create(const std::string& folder,
                                                                   const Options& options);
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // True when it is time to save, after `step` steps. Call it after every step, or after every few:
  // a multiple of save_every_steps that was passed since the last call counts. False where Save
  // would skip, so that nobody gathers the state for nothing.
  bool IsDue(int64_t step);

  enum class Saved {
    kDone,     // The checkpoint is there.
    kStarted,  // It is being written; Wait, or the next Save, says how it ended.
    kSkipped,  // Another one is being written (WhenBusy::kSkip).
  };
  // Saves `tensors` as the checkpoint of `step`; one of that step that exists is replaced. What a
  // run notes beside its variables (where it stands in its data) has names that begin with
  // kNotePrefix (checkpoint.h). `metric`
  // is what Retention::keep_best compares.
  //
  // The error of an asynchronous save before: then this one was not begun, and may be asked for
  // again. DeadlineExceeded: the one before did not end. InvalidArgument: a negative step, or a
  // tensor under the manager's own name for the metric. Else, for one that is not asynchronous,
  // those of WriteCheckpoint.
  absl::StatusOr<Saved> Save(int64_t step, NamedTensors tensors,
                             absl::optional<double> metric = absl::nullopt);

  // Waits for the save that is running. The error of an asynchronous save; DeadlineExceeded.
  absl::Status Wait();

  // The prefixes of the checkpoints that are kept in the list, the oldest first. While a save is
  // running, it is not among them.
  std::vector<std::string> checkpoints() const;
  // The newest; empty: there is none.
  std::string latest() const;
  // The one with the best metric; empty: none has one.
  std::string best() const;

 private:
  struct Job {
    int64_t step = 0;
    NamedTensors tensors;
    absl::optional<double> metric;
  };

  CheckpointManager(std::string folder, Options options)
      : folder_(std::move(folder)), options_(std::move(options)) {}

  absl::Status ReadFolder();
  std::string PrefixOf(int64_t step) const;
  // The save itself. One at a time.
  absl::Status Write(Job job);
  void RemoveDropped(std::vector<KeptCheckpoint> all, absl::Time last_preserved);
  absl::Status WriteState(const std::vector<KeptCheckpoint>& kept, absl::Time last_preserved);
  // Waits until no save is running, and takes the error of the last one.
  absl::Status WaitUntilIdle() ABSL_LOCKS_EXCLUDED(mu_);
  void Serve() ABSL_LOCKS_EXCLUDED(mu_);

  const std::string folder_;
  const Options options_;
  // For IsDue.
  int64_t last_step_ = -1;
  absl::Time last_save_;

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<KeptCheckpoint> kept_ ABSL_GUARDED_BY(mu_);
  absl::Time last_preserved_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Job> job_ ABSL_GUARDED_BY(mu_);  // Not begun yet.
  bool running_ ABSL_GUARDED_BY(mu_) = false;      // From Save until the end of the job.
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // Started with the first asynchronous save.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECKPOINT_MANAGER_H_
