// FolderLock: one process at a time trains into a folder of checkpoints.
//
// The lock is an advisory one of the system (flock) on the file FOLDER/.lock, which also names who
// holds it. It ends with this object, and with its process however that ends; the file stays, and
// means nothing by itself. Whoever only reads checkpoints does not ask for it.
//
// Threads: one. Two locks of one process exclude one another, too.
#ifndef TANDEM_RUNTIME_CHECKPOINT_FOLDER_LOCK_H_
#define TANDEM_RUNTIME_CHECKPOINT_FOLDER_LOCK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem {

class FolderLock {
 public:
  // How long Take waits for a holder by default: the system lets go of the locks of a process that
  // was killed only after it has taken back its memory.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  // `folder` is one of the machine's own files (PosixFileSystem), and is there. Where no lock can
  // be had, since the file system has none or the folder may not be written to, it logs that and
  // gives a lock that holds nothing. FailedPrecondition, with the folder and the holder: somebody
  // else has it.
  static absl::StatusOr<FolderLock> Take(const std::string& folder,
                                         absl::Duration patience = kPatience);

  FolderLock() = default;  // Holds nothing.
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  bool is_held() const { return file_ >= 0; }

 private:
  explicit FolderLock(int file) : file_(file) {}

  int file_ = -1;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECKPOINT_FOLDER_LOCK_H_
