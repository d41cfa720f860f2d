#include "runtime/checkpoint/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/io/file.h"

namespace tandem {
namespace {

constexpr absl::Duration kBetweenTries = absl::Milliseconds(20);

std::string Self() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return absl::StrCat("pid ", getpid(), host[0] == '\0' ? "" : " on ", host);
}

// What a holder wrote; it may be writing just now, and what is in a file is not to be trusted.
std::string HolderOf(const std::string& path) {
  const auto contents = ReadFile(PosixFileSystem(), path, /*max_bytes=*/512);
  if (!contents.ok()) return "";
  const absl::string_view line = absl::StripAsciiWhitespace(*contents);
  const bool is_text = std::all_of(line.begin(), line.end(), absl::ascii_isprint);
  return is_text ? std::string(line) : "";
}

}  // namespace

FolderLock::FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder, absl::Duration patience) {
  const std::string path = JoinPath(folder, ".lock");
  const auto without = [&](int error) {
    TANDEM_LOG(Warning) << "the folder '" << folder << "' cannot be locked (" << path << ": "
                        << std::strerror(error)
                        << "): nobody notices when a second process trains into it";
    return FolderLock();
  };
  int file;
  do {
    file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  } while (file < 0 && errno == EINTR);
  if (file < 0) return without(errno);
  FolderLock lock(file);
  const absl::Time deadline = absl::Now() + patience;
  while (flock(file, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    if (error != EWOULDBLOCK) return without(error);
    if (absl::Now() >= deadline) {
      const std::string holder = HolderOf(path);
      return errors::FailedPrecondition("another training writes its checkpoints into the folder '",
                                        folder, "'",
                                        holder.empty() ? "" : absl::StrCat(" (", holder, ")"),
                                        "; wait for its end, or give this one a folder of its own");
    }
    absl::SleepFor(kBetweenTries);
  }
  // For whoever asks in vain; without it there is a lock all the same.
  const auto note = PosixFileSystem()->OpenToWrite(path, WriteMode::kReplace);
  if (note.ok()) (*note)->Append(absl::StrCat(Self(), "\n")).IgnoreError();
  return lock;
}

}  // namespace tandem
