#include "runtime/cluster/membership/fence.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/io/file.h"

namespace tandem::membership {

// Held until it is destroyed.
class Fence::Lock {
 public:
  static absl::StatusOr<Lock> Take(const std::string& folder, absl::Duration patience) {
    constexpr absl::Duration kBetweenTries = absl::Milliseconds(5);
    const std::string path = JoinPath(folder, "fence.lock");
    Lock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (lock.file_ < 0) {
      return errors::Unavailable("cannot open '", path, "': ", std::strerror(errno));
    }
    const absl::Time deadline = absl::Now() + patience;
    while (flock(lock.file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) {
        TANDEM_LOG_EVERY(Warning, absl::Hours(1))
            << "'" << path << "' cannot be locked (" << std::strerror(errno)
            << "): a chief that was stopped may write a checkpoint when it wakes up";
        break;
      }
      if (absl::Now() >= deadline) {
        return errors::DeadlineExceeded(
            "somebody holds '", path, "' since ", absl::FormatDuration(patience),
            "; a process that was stopped in the middle of a save? End it");
      }
      absl::SleepFor(kBetweenTries);
    }
    return lock;
  }
  explicit Lock(int file) : file_(file) {}
  Lock(Lock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Lock& operator=(Lock&&) = delete;
  ~Lock() {
    if (file_ >= 0) close(file_);
  }

 private:
  int file_;
};

absl::StatusOr<std::unique_ptr<Fence>> Fence::Open(const std::string& folder,
                                                   absl::Duration patience) {
  const std::string path = JoinPath(folder, ".membership");
  TANDEM_RETURN_IF_ERROR(PosixFileSystem()->MakeDirectories(path));
  return std::unique_ptr<Fence>(new Fence(path, patience));
}

absl::StatusOr<Fence::State> Fence::Read() const {
  const std::string path = JoinPath(folder_, "fence");
  const auto text = ReadRegularFile(PosixFileSystem(), path, /*max_bytes=*/64);
  State state;
  if (absl::IsNotFound(text.status())) return state;
  TANDEM_RETURN_IF_ERROR(text.status());
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &state.generation) ||
      !absl::SimpleAtoi(words[1], &state.step)) {
    return errors::DataLoss("the file '", path,
                            "' does not hold the numbers of a generation and of a step; if no job "
                            "uses the folder, remove it");
  }
  return state;
}

absl::Status Fence::Store(const State& state) const {
  return WriteFileAtomically(PosixFileSystem(), JoinPath(folder_, "fence"),
                             absl::StrCat(state.generation, " ", state.step, "\n"));
}

absl::StatusOr<Fence::State> Fence::RaiseLocked(uint64_t generation) const {
  TANDEM_ASSIGN_OR_RETURN(State state, Read());
  if (state.generation >= generation) return state;
  state.generation = generation;
  TANDEM_RETURN_IF_ERROR(Store(state));
  return state;
}

absl::StatusOr<Fence::State> Fence::Raise(uint64_t generation) {
  TANDEM_ASSIGN_OR_RETURN(const Lock lock, Lock::Take(folder_, patience_));
  return RaiseLocked(generation);
}

absl::Status Fence::Write(uint64_t generation, int64_t step,
                          absl::FunctionRef<absl::Status()> write) {
  TANDEM_ASSIGN_OR_RETURN(const Lock lock, Lock::Take(folder_, patience_));
  TANDEM_ASSIGN_OR_RETURN(State state, RaiseLocked(generation));
  if (state.generation > generation) {
    return errors::FailedPrecondition(
        "this process was the chief of generation ", generation, ", but generation ",
        state.generation, " leads the job now: it may not write into '", DirectoryOf(folder_), "'");
  }
  TANDEM_RETURN_IF_ERROR(write());
  // Should this fail, or never come to pass, the step is too low: then members' own state, which is
  // at least as old, is preferred.
  state.step = step;
  return Store(state);
}

}  // namespace tandem::membership
