// FileSystem: the few things that writers and readers of files ask of one, so that tests can put
// faults in between (core/io/testing/faulty_file_system.h).
//
// Threads: a FileSystem and a RandomAccessFile may be used from any thread; a WritableFile and a
// SequentialFile by one at a time.
//
// Lifetime: a FileSystem outlives its files. A file that is destroyed is closed.
//
// Errors have the codes that TensorFlow gives to the system's, and name the action, the path and
// the system's reason: NotFound (no such file or folder), AlreadyExists, PermissionDenied (also on
// a file system that is mounted read-only), ResourceExhausted (the disk is full, a quota or the
// number of open files is reached), FailedPrecondition (a folder where a file is expected or the
// other way round, a folder that is not empty), Unknown (the device failed).
#ifndef TANDEM_CORE_IO_FILE_H_
#define TANDEM_CORE_IO_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tandem {

// A file that is being written, without a buffer: callers gather small pieces.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual const std::string& path() const = 0;

  // Writes the pieces one after the other at the end of the file. After an error some of the bytes
  // may be there.
  virtual absl::Status AppendPieces(absl::Span<const absl::string_view> pieces) = 0;
  absl::Status Append(absl::string_view bytes) { return AppendPieces(absl::MakeSpan(&bytes, 1)); }
  // When it returns OK, what was appended survives a crash of the machine. The file's name only
  // does after SyncDirectory.
  virtual absl::Status Sync() = 0;
  // No other call may follow. An error means that bytes may be lost.
  virtual absl::Status Close() = 0;
};

class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  virtual const std::string& path() const = 0;

  // Reads from `offset` (>= 0) on and returns how much; less than asked for at the end of the file
  // only.
  virtual absl::StatusOr<size_t> Read(int64_t offset, absl::Span<char> bytes) const = 0;
  // The size as it is now.
  virtual absl::StatusOr<int64_t> Size() const = 0;
  // These bytes will be read soon: whoever can begins to fetch them, and does not wait for them.
  virtual void WillRead(int64_t /*offset*/, int64_t /*size*/) const {}

  // Fills all of `bytes`. DataLoss: the file ends before.
  absl::Status ReadExactly(int64_t offset, absl::Span<char> bytes) const;
};

// Reads from the beginning to the end; the file may be a pipe.
class SequentialFile {
 public:
  virtual ~SequentialFile() = default;
  virtual const std::string& path() const = 0;

  // Returns how much was read; less than asked for at the end of the file only.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> bytes) = 0;
};

struct FileInfo {
  int64_t size = 0;
  bool is_directory = false;
  absl::Time modified;
  bool is_regular = true;  // Neither a folder nor a pipe, a socket or a device.
};

enum class WriteMode {
  kReplace,  // Create it, or cut an existing one to nothing.
  kAppend,   // Create it, or go on at its end.
  kNew,      // Create it; AlreadyExists when it is there.
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The folder must be there.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                                    WriteMode mode) = 0;
  // FailedPrecondition, without waiting for anybody: it is a pipe or a device.
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenToRead(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<SequentialFile>> OpenSequential(
      const std::string& path) = 0;

  // Replaces `to` if it is there, in one step: everybody sees the old or the new file. A crash of
  // the machine can undo it until SyncDirectory returns.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Follows links, as everything here but Rename, Remove and IsLink does.
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path) = 0;
  // True for a symbolic link, wherever it leads. A file system without links need not say more.
  virtual absl::StatusOr<bool> IsLink(const std::string& path);

  // The names in a folder, sorted.
  virtual absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) = 0;
  // Makes a folder and those above it that are missing, so that they survive a crash of the
  // machine; OK when it is there already.
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // The folder must be empty.
  virtual absl::Status RemoveDirectory(const std::string& path) = 0;
  // When it returns OK, names that were made, renamed and removed in the folder stay so after a
  // crash of the machine.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
};

// The machine's own files. Lives as long as the process.
FileSystem* PosixFileSystem();

// The contents of a file, which may be a pipe. ResourceExhausted: there are more than `max_bytes`.
absl::StatusOr<std::string> ReadFile(FileSystem* files, const std::string& path,
                                     int64_t max_bytes = int64_t{1} << 31);
// The same for what is read because of where it lies, not because a user named it: a pipe or device
// there is refused (FailedPrecondition) instead of being waited for.
absl::StatusOr<std::string> ReadRegularFile(FileSystem* files, const std::string& path,
                                            int64_t max_bytes = int64_t{1} << 31);

// Creates or replaces a small file such that after a crash at any moment the old or the new
// contents are there: writes another name beside it, syncs, renames, syncs the folder. After an
// error the old contents are there (when syncing the folder failed, the new ones may be).
absl::Status WriteFileAtomically(FileSystem* files, const std::string& path,
                                 absl::string_view contents);

// `path` with an ending that no other file has: ".tempstate" and a random number, TensorFlow's mark
// for files that are not complete yet.
std::string TemporaryPath(absl::string_view path);

// The folder of a file: "a/b" for "a/b/c", "/" for "/c", "." for "c".
std::string DirectoryOf(absl::string_view path);
// What comes after the last slash.
absl::string_view FileNameOf(absl::string_view path);
// `name` below `directory`; `name` alone when it is an absolute path or there is no directory.
std::string JoinPath(absl::string_view directory, absl::string_view name);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_FILE_H_
