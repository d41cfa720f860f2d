#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/file.h"

namespace tandem {
namespace {

absl::Status Error(int error, absl::string_view action, absl::string_view path) {
  std::string message = absl::StrCat("cannot ", action, " '", path, "'");
  const absl::Status status = absl::ErrnoToStatus(error, message);
  const char* cure = nullptr;
  if (error == ENOSPC || error == EDQUOT) cure = "free space there or choose another disk";
  if (error == EACCES || error == EPERM) cure = "give this user the right to";
  if (error == ENOENT) cure = "check the path";
  if (error == EFBIG) cure = "allow larger files (ulimit -f)";
  if (error == EMFILE) cure = "allow more open files (ulimit -n)";
  if (cure == nullptr) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; ", cure));
}

// Repeats a system call that a signal interrupts.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

// While it lives, a write beyond the process's limit of a file's size (ulimit -f) is an error,
// EFBIG. By default the system sends the writing thread SIGXFSZ as well, which ends the process
// without a word. The process's handlers stay as they are.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
    sigset_t pending;
    // One that waits already is somebody else's.
    leave_pending_ = sigismember(&before_, SIGXFSZ) == 1 && sigpending(&pending) == 0 &&
                     sigismember(&pending, SIGXFSZ) == 1;
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;
  ~NoFileSizeSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // After a write that gave `error`.
  void Take(int error) {
    if (error != EFBIG || leave_pending_) return;
    const timespec at_once{};
    sigtimedwait(&signal_, nullptr, &at_once);
  }

 private:
  sigset_t signal_;
  sigset_t before_;
  bool leave_pending_ = false;
};

// An open descriptor, closed with its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int get() const { return number_; }
  // Not repeated after EINTR: Linux has closed the descriptor by then.
  int Close() { return close(std::exchange(number_, -1)) == 0 || errno == EINTR ? 0 : -1; }

 private:
  int number_;
};

absl::StatusOr<Descriptor> Open(const std::string& path, int flags, absl::string_view action) {
  Descriptor file(Retry([&] { return open(path.c_str(), flags | O_CLOEXEC, 0666); }));
  if (file.get() < 0) return Error(errno, action, path);
  return file;
}

// A folder can be opened for reading, and only then fails.
absl::StatusOr<Descriptor> OpenFileToRead(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(Descriptor file, Open(path, O_RDONLY, "open"));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return Error(errno, "stat", path);
  if (S_ISDIR(info.st_mode)) return Error(EISDIR, "open", path);
  return file;
}

// Without O_NONBLOCK a pipe that nobody writes to would hold this up for ever.
absl::StatusOr<Descriptor> OpenRegularFile(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(Descriptor file, Open(path, O_RDONLY | O_NONBLOCK, "open"));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return Error(errno, "stat", path);
  if (S_ISDIR(info.st_mode)) return Error(EISDIR, "open", path);
  if (S_ISREG(info.st_mode)) return file;
  return errors::FailedPrecondition("cannot open '", path, "': it is a ",
                                    S_ISFIFO(info.st_mode) ? "pipe" : "device",
                                    "; a regular file is expected");
}

// Bytes after which the system is told to begin to write.
constexpr int64_t kWriteOutBytes = int64_t{8} << 20;

class PosixWritableFile : public WritableFile {
 public:
  // `write_out`: let the disk work while the rest is appended, instead of in Sync alone. A disk
  // that is slower than the writer holds it up then.
  PosixWritableFile(std::string path, Descriptor file, bool write_out)
      : path_(std::move(path)), file_(std::move(file)), write_out_(write_out) {}

  const std::string& path() const override { return path_; }

  absl::Status AppendPieces(absl::Span<const absl::string_view> pieces) override {
    iovec vectors[64];
    size_t taken = 0;  // Of the first piece.
    NoFileSizeSignal no_signal;
    while (!pieces.empty()) {
      int count = 0;
      for (const absl::string_view piece : pieces.subspan(0, std::size(vectors))) {
        const absl::string_view rest = count == 0 ? piece.substr(taken) : piece;
        vectors[count++] = {const_cast<char*>(rest.data()), rest.size()};
      }
      const ssize_t put = Retry([&] { return writev(file_.get(), vectors, count); });
      if (put < 0) {
        const int error = errno;
        no_signal.Take(error);
        return Error(error, "write", path_);
      }
      appended_ += put;
      taken += static_cast<size_t>(put);
      while (!pieces.empty() && taken >= pieces.front().size()) {
        taken -= pieces.front().size();
        pieces.remove_prefix(1);
      }
    }
    if (write_out_ && appended_ - written_out_ >= kWriteOutBytes) {
      // Only a beginning: what goes wrong, Sync reports.
      sync_file_range(file_.get(), written_out_, appended_ - written_out_, SYNC_FILE_RANGE_WRITE);
      written_out_ = appended_;
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    // Takes the size along, but not the time of the change.
    if (Retry([&] { return fdatasync(file_.get()); }) != 0) return Error(errno, "sync", path_);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (file_.Close() != 0) return Error(errno, "close", path_);
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  Descriptor file_;
  const bool write_out_;
  int64_t appended_ = 0;
  int64_t written_out_ = 0;
};

class PosixRandomAccessFile : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::string& path() const override { return path_; }

  absl::StatusOr<size_t> Read(int64_t offset, absl::Span<char> bytes) const override {
    size_t size = 0;
    while (size < bytes.size()) {
      const ssize_t got = Retry([&] {
        return pread(file_.get(), bytes.data() + size, bytes.size() - size,
                     offset + static_cast<int64_t>(size));
      });
      if (got < 0) return Error(errno, absl::StrCat("read offset ", offset, " of"), path_);
      if (got == 0) break;
      size += static_cast<size_t>(got);
    }
    return size;
  }

  absl::StatusOr<int64_t> Size() const override {
    struct stat info;
    if (fstat(file_.get(), &info) != 0) return Error(errno, "stat", path_);
    return info.st_size;
  }

  void WillRead(int64_t offset, int64_t size) const override {
    // Only advice: where it is not taken, reading waits for the disk.
    (void)posix_fadvise(file_.get(), offset, size, POSIX_FADV_WILLNEED);
  }

 private:
  const std::string path_;
  const Descriptor file_;
};

class PosixSequentialFile : public SequentialFile {
 public:
  PosixSequentialFile(std::string path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::string& path() const override { return path_; }

  absl::StatusOr<size_t> Read(absl::Span<char> bytes) override {
    size_t size = 0;
    while (size < bytes.size()) {
      const ssize_t got =
          Retry([&] { return read(file_.get(), bytes.data() + size, bytes.size() - size); });
      if (got < 0) return Error(errno, "read", path_);
      if (got == 0) break;
      size += static_cast<size_t>(got);
    }
    return size;
  }

 private:
  const std::string path_;
  const Descriptor file_;
};

class Posix : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                            WriteMode mode) override {
    int flags = O_WRONLY | O_CREAT;
    if (mode == WriteMode::kReplace) flags |= O_TRUNC;
    if (mode == WriteMode::kAppend) flags |= O_APPEND;
    if (mode == WriteMode::kNew) flags |= O_EXCL;
    TANDEM_ASSIGN_OR_RETURN(Descriptor file, Open(path, flags, "create"));
    // New files are those that get their name after a Sync.
    return std::make_unique<PosixWritableFile>(path, std::move(file), mode == WriteMode::kNew);
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenToRead(const std::string& path) override {
    TANDEM_ASSIGN_OR_RETURN(Descriptor file, OpenRegularFile(path));
    return std::make_unique<PosixRandomAccessFile>(path, std::move(file));
  }

  absl::StatusOr<std::unique_ptr<SequentialFile>> OpenSequential(const std::string& path) override {
    TANDEM_ASSIGN_OR_RETURN(Descriptor file, OpenFileToRead(path));
    struct stat info;
    if (fstat(file.get(), &info) != 0) return Error(errno, "stat", path);
    // Such as /dev/zero, which never ends. A terminal is somebody who types.
    if (S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(file.get()) == 0)) {
      return errors::FailedPrecondition("cannot open '", path,
                                        "': it is a device; a file or a pipe is expected");
    }
    return std::make_unique<PosixSequentialFile>(path, std::move(file));
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return Error(errno, absl::StrCat("rename '", from, "' to"), to);
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return absl::OkStatus();
    return Error(errno, "remove", path);
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return Error(errno, "stat", path);
    return FileInfo{info.st_size, S_ISDIR(info.st_mode), absl::TimeFromTimespec(info.st_mtim),
                    S_ISREG(info.st_mode)};
  }

  absl::StatusOr<bool> IsLink(const std::string& path) override {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) return Error(errno, "stat", path);
    return S_ISLNK(info.st_mode);
  }

  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), &closedir);
    if (folder == nullptr) return Error(errno, "list", path);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(folder.get());
      if (entry == nullptr) break;
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return Error(errno, "list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status MakeDirectories(const std::string& path) override {
    for (size_t end = 0; end < path.size();) {
      end = std::min(path.find('/', end + 1), path.size());
      const std::string folder = path.substr(0, end);
      if (mkdir(folder.c_str(), 0777) == 0) {
        // As well as it goes: who may write into a folder may be unable to open it.
        SyncDirectory(DirectoryOf(folder)).IgnoreError();
        continue;
      }
      if (errno == EEXIST) continue;
      // A folder may be there that this user cannot write into, or on a read-only disk.
      const int error = errno;
      struct stat info;
      if (stat(folder.c_str(), &info) != 0) return Error(error, "make the folder", folder);
    }
    TANDEM_ASSIGN_OR_RETURN(const FileInfo info, Stat(path));
    if (!info.is_directory) return Error(ENOTDIR, "make the folder", path);
    return absl::OkStatus();
  }

  absl::Status RemoveDirectory(const std::string& path) override {
    if (rmdir(path.c_str()) == 0) return absl::OkStatus();
    return Error(errno, "remove the folder", path);
  }

  absl::Status SyncDirectory(const std::string& path) override {
    TANDEM_ASSIGN_OR_RETURN(const Descriptor folder, Open(path, O_RDONLY | O_DIRECTORY, "open"));
    // Some file systems do not know how, and answer that the call is invalid.
    if (Retry([&] { return fsync(folder.get()); }) == 0 || errno == EINVAL) return absl::OkStatus();
    return Error(errno, "sync the folder", path);
  }
};

}  // namespace

FileSystem* PosixFileSystem() {
  static Posix* const posix = new Posix;
  return posix;
}

}  // namespace tandem
