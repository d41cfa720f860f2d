// Snapshots of a shard: its state as a checkpoint (runtime/checkpoint), complete or not there, with
// sums over all bytes. The variables lie in it under their names; the version and the names that
// were applied in a note.
//
//   TANDEM_ASSIGN_OR_RETURN(ShardState state, LoadSnapshot(PosixFileSystem(), folder));
//   TANDEM_RETURN_IF_ERROR(shard->Restore(std::move(state)));
//   TANDEM_ASSIGN_OR_RETURN(auto snapshotter, Snapshotter::Create(folder, shard.get(), {}));
//
// One folder for each shard. Its file .lock says who writes there (folder_lock.h): a server that
// was given up and still lives cannot write between its successor's snapshots on the same machine.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SNAPSHOT_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SNAPSHOT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/io/file.h"
#include "runtime/checkpoint/folder_lock.h"
#include "runtime/checkpoint/manager.h"
#include "runtime/parameter_server/shard.h"

namespace tandem::parameter_server {

// The newest good snapshot in a folder. Newer ones that are damaged are passed over, with a line in
// the log. NotFound: there is none. DataLoss: there are only damaged ones; says how each.
absl::StatusOr<ShardState> LoadSnapshot(FileSystem* files, const std::string& folder);

// Removes the snapshots in a folder, when their job has ended for good; OK when there are none.
// REQUIRES: no Snapshotter writes there. The folder stays.
absl::Status RemoveSnapshots(FileSystem* files, const std::string& folder);

struct SnapshotterOptions {
  FileSystem* files = PosixFileSystem();
  // What changed is written so often.
  absl::Duration every = absl::Seconds(30);
  int keep = 2;
  // Of the newest snapshot that is there already; -1: there is none.
  int64_t existing_version = -1;
};

// Writes snapshots of a shard from a thread of its own: the shard's pushes are held up only while
// its variables are looked at, not while they are written. What goes wrong is logged, and tried
// again the next time.
//
// Threads: any. Lifetime: the shard outlives it; its destructor waits for the snapshot that is
// being written, and writes no other.
class Snapshotter {
 public:
  // Makes the folder. InvalidArgument: options that make no sense. Errors of the files.
  // ResourceExhausted: no thread.
  static absl::StatusOr<std::unique_ptr<Snapshotter>> Create(const std::string& folder,
                                                             Shard* shard,
                                                             const SnapshotterOptions& options);
  ~Snapshotter();
  Snapshotter(const Snapshotter&) = delete;
  Snapshotter& operator=(const Snapshotter&) = delete;

  // Writes what has changed since the last snapshot, on the calling thread; nothing, if nothing
  // has. FailedPrecondition: somebody else writes into the folder, or a variable has no value yet.
  // Errors of Shard::Capture and of writing.
  absl::Status WriteNow() ABSL_LOCKS_EXCLUDED(write_mu_, mu_);
  // The same on the thread, without waiting for the time.
  void WriteSoon() ABSL_LOCKS_EXCLUDED(mu_);

  // Of the newest snapshot; -1: there is none.
  int64_t version() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Snapshotter(std::string folder, Shard* shard, const SnapshotterOptions& options)
      : folder_(std::move(folder)),
        shard_(shard),
        options_(options),
        version_(options.existing_version) {}

  absl::Status Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mu_);
  void Serve() ABSL_LOCKS_EXCLUDED(write_mu_, mu_);

  const std::string folder_;
  Shard* const shard_;
  const SnapshotterOptions options_;

  Mutex write_mu_;  // Held while one is written.
  FolderLock lock_ ABSL_GUARDED_BY(write_mu_);
  std::unique_ptr<CheckpointManager> manager_ ABSL_GUARDED_BY(write_mu_);  // Null until Open.
  int64_t next_number_ ABSL_GUARDED_BY(write_mu_) = 0;
  int64_t written_changes_ ABSL_GUARDED_BY(write_mu_) = 0;  // Shard::changes().

  mutable Mutex mu_;
  CondVar wake_;
  int64_t version_ ABSL_GUARDED_BY(mu_);
  bool write_soon_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SNAPSHOT_H_
