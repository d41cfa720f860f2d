// Fence: keeps the chief of an old generation from writing into a folder of checkpoints.
//
// A chief that stood still, or was cut off, may wake up in the middle of a save, when another chief
// leads the job long since. A look at who leads does not help: it may stand still between the look
// and the write. Nor does a lock: who stands still while it holds it keeps everybody out. So what
// counts, names that appear, change and go, passes through a folder of the chief's own,
//
//   FOLDER/.membership/chief-12/       of the chief of generation 12
//   FOLDER/.membership/chief-12/step   the step of the newest checkpoint
//
// by two renames: from the temporary name into that folder, and from there to the final name. A
// new chief makes its own folder and renames those before it; from then on the second rename of an
// old chief, wherever it had stopped, finds nothing. The file system sees to the rest: a rename is
// one step, on local disks and on NFS.
//
// A chief that leads the next generation, too, goes on with what it writes: names of its former
// generations pass through the folder of the present one, as long as no other chief came between.
//
// Threads: any; it blocks as files do. Folders of several jobs are several folders.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FENCE_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FENCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/io/file.h"

namespace tandem::membership {

class Fence {
 public:
  // Makes the folder if need be.
  static absl::StatusOr<std::unique_ptr<Fence>> Open(const std::string& folder);

  struct State {
    uint64_t generation = 0;
    int64_t step = -1;  // Of the newest checkpoint that was noted.
  };
  // Shuts out the chiefs of all generations before `generation`, unless a later one was here: the
  // state's generation is then that one, and nothing has changed.
  absl::StatusOr<State> Raise(uint64_t generation);

  // As FileSystem's, for the chief of `generation`, which has raised this fence.
  // FailedPrecondition: another chief leads the job since.
  absl::Status Rename(uint64_t generation, const std::string& from, const std::string& to);
  absl::Status Remove(uint64_t generation, const std::string& path);
  // A checkpoint of `step` is there. Of a former generation one that is no news does not count.
  absl::Status NoteStep(uint64_t generation, int64_t step);

  // The machine's files, but names change behind the fence: for whoever writes checkpoints
  // (CheckpointManagerOptions::files). The fence outlives it.
  std::unique_ptr<FileSystem> Files(uint64_t generation);

 private:
  explicit Fence(std::string folder) : folder_(std::move(folder)) {}

  std::string OwnFolder(uint64_t generation) const;
  // The generation through whose folder the names of `generation` pass.
  uint64_t LeadingLocked(uint64_t generation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status NoteStepLocked(uint64_t generation, int64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A name in the chief's own folder.
  std::string PassageLocked(uint64_t generation, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What an error of a rename through the own folder means.
  absl::Status Explain(uint64_t generation, const absl::Status& status) const;

  const std::string folder_;
  // Also held over the renames: none of this process's own is under way while it raises the fence.
  Mutex mu_;
  uint64_t passages_ ABSL_GUARDED_BY(mu_) = 0;
  // This process is the chief of all generations from the first to the last of these; 0: of none.
  uint64_t led_since_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t leads_ ABSL_GUARDED_BY(mu_) = 0;
};

// The machine's files, for a chief without a fence.
std::unique_ptr<FileSystem> UnfencedFiles();

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FENCE_H_
