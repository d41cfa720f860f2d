// Fence: keeps the chief of an old generation from writing into a folder of checkpoints.
//
// A chief that stood still, or was cut off, may wake up in the middle of a save, when another chief
// leads the job long since. So what makes a checkpoint valid (the last rename) is done under a
// lock, and only if no later generation has raised the fence; and a new chief raises it, under the
// same lock, before its group begins.
//
//   FOLDER/.membership/fence       "12 400": the newest generation, and the step of the newest
//                                  checkpoint, -1 for none
//   FOLDER/.membership/fence.lock  an advisory lock (flock) for the time of a look or a rename
//
// Threads: any; it blocks. Where the file system has no locks, it goes without and says so once: a
// write may then slip through in the moment between the look and the rename.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FENCE_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FENCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::membership {

class Fence {
 public:
  // Makes the folder if need be. `patience`: how long to wait for the lock; who is stopped while it
  // holds it keeps the others out (DeadlineExceeded).
  static absl::StatusOr<std::unique_ptr<Fence>> Open(const std::string& folder,
                                                     absl::Duration patience = absl::Seconds(10));

  struct State {
    uint64_t generation = 0;
    int64_t step = -1;  // Of the newest checkpoint that was written behind it.
  };

  // Raises it to `generation` if it is lower. Returns how it is then.
  absl::StatusOr<State> Raise(uint64_t generation);

  // Calls `write`, which makes the checkpoint of `step` valid, if no generation after `generation`
  // has raised the fence, and returns what it does. FailedPrecondition: one has.
  absl::Status Write(uint64_t generation, int64_t step, absl::FunctionRef<absl::Status()> write);

 private:
  Fence(std::string folder, absl::Duration patience)
      : folder_(std::move(folder)), patience_(patience) {}

  class Lock;
  absl::StatusOr<State> Read() const;
  absl::Status Store(const State& state) const;
  absl::StatusOr<State> RaiseLocked(uint64_t generation) const;

  const std::string folder_;
  const absl::Duration patience_;
};

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_FENCE_H_
