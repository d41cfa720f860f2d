// FaultyFileSystem: a file system in memory whose operations fail, or after which the machine
// "crashes", where a test says so.
//
// What is counted are effects: creating, appending, syncing, closing, renaming, removing, making
// and removing folders. Reading is not counted. A test runs once to learn how many effects there
// are, then once for each of them:
//
//   FaultyFileSystem files;
//   files.CrashAt(n);
//   ... save ...                          // Everything from effect n on fails with Unavailable.
//   files.Restart(FaultyFileSystem::Unsynced::kLost);
//   ... load ...
//
// A crash keeps what was synced: the bytes of a file up to its last Sync, and names up to the last
// SyncDirectory of their folder. What was not synced is kept or lost, as the test says. Folders
// survive from the moment they are made; renaming one is a change of the names in it, all at once,
// and counts as synced with the folder that the new name is in.
//
// Threads: any. Paths are taken as they are, without ".." and links.
#ifndef TANDEM_CORE_IO_TESTING_FAULTY_FILE_SYSTEM_H_
#define TANDEM_CORE_IO_TESTING_FAULTY_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/io/file.h"

namespace tandem {

class FaultyFileSystem : public FileSystem {
 public:
  FaultyFileSystem();
  ~FaultyFileSystem() override;

  // Effect number `n`, counted from 0 for the next one, fails with `error`; `count` effects from
  // there on do. An Append that fails has written half of its bytes.
  void FailAt(int64_t n, absl::Status error, int64_t count = 1);
  // At effect number `n` the machine crashes: an Append has written half of its bytes, other
  // effects nothing, and all calls fail until Restart.
  void CrashAt(int64_t n);
  // True when a fault that was asked for has happened.
  bool fired() const;
  // Effects so far, those that failed included.
  int64_t effects() const;
  // What they were: "append /ckpt/a.index 121".
  std::vector<std::string> log() const;

  enum class Unsynced {
    kKept,
    kLost,
    // Any of the changes of names, since nobody promises their order (a rename is done wholly or
    // not at all); of each file the synced bytes and a random part of the others, which may have
    // become zeros. `seed` decides.
    kMixed,
  };
  void Restart(Unsynced unsynced, uint32_t seed = 0);

  // For damage: replaces the contents, which count as synced.
  void SetContents(const std::string& path, std::string contents);

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                            WriteMode mode) override;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenToRead(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<SequentialFile>> OpenSequential(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::Status RemoveDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;

 private:
  friend class FaultyFile;
  struct Inode {
    std::string contents;
    std::string synced;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  // A change of names; null: the name goes.
  using NameChange = std::vector<std::pair<std::string, std::shared_ptr<Inode>>>;

  // Counts an effect; not OK when it has to fail.
  absl::Status Effect(const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RenameFolder(const std::string& from, const std::string& to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAlive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Inode>> Find(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Apply(const NameChange& change, Names* names);
  void Change(NameChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Names names_ ABSL_GUARDED_BY(mutex_);
  Names synced_names_ ABSL_GUARDED_BY(mutex_);
  // From synced_names_ to names_, in order.
  std::vector<NameChange> unsynced_changes_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> folders_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  // Numbers of effects since the beginning; first > last: no fault.
  int64_t first_fault_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_fault_ ABSL_GUARDED_BY(mutex_) = -1;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // OK: a crash.
  bool fired_ ABSL_GUARDED_BY(mutex_) = false;
  bool crashed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t restarts_ ABSL_GUARDED_BY(mutex_) = 0;  // Files opened before one stay dead.
};

}  // namespace tandem

#endif  // TANDEM_CORE_IO_TESTING_FAULTY_FILE_SYSTEM_H_
