#include "core/io/confined_files.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// Empty when it leads nowhere that can be looked at.
std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? std::string() : std::string(resolved);
}

bool IsSymbolicLink(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

// Splits the last name off `path`. False when there is none that could be a new file's.
bool SplitLast(std::string* path, std::string* name) {
  while (path->size() > 1 && path->back() == '/') path->pop_back();
  const size_t slash = path->rfind('/');
  *name = slash == std::string::npos ? *path : path->substr(slash + 1);
  if (name->empty() || *name == "." || *name == "..") return false;
  if (slash == std::string::npos) {
    *path = ".";
  } else {
    path->resize(slash == 0 ? 1 : slash);
  }
  return true;
}

// Where `path` leads, absolute and without links. What of it is not there is taken as it is. Empty
// when nobody can tell. `follows`: also a link that the path itself is.
std::string Place(const std::string& path, bool follows) {
  std::string head = path;
  std::string tail;
  std::string name;
  if (!follows && SplitLast(&head, &name)) tail = absl::StrCat("/", name);
  while (!head.empty()) {
    const std::string real = RealPath(head);
    if (!real.empty()) return real == "/" ? (tail.empty() ? real : tail) : absl::StrCat(real, tail);
    if (IsSymbolicLink(head) || !SplitLast(&head, &name)) break;
    tail = absl::StrCat("/", name, tail);
  }
  return "";
}

class ConfinedFiles final : public FileSystem {
 public:
  ConfinedFiles(std::vector<std::string> folders, std::string hint)
      : folders_(std::move(folders)), hint_(std::move(hint)) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                            WriteMode mode) override {
    TANDEM_RETURN_IF_ERROR(Check(path));
    return files_.OpenToWrite(path, mode);
  }
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenToRead(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path));
    return files_.OpenToRead(path);
  }
  absl::StatusOr<std::unique_ptr<SequentialFile>> OpenSequential(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path));
    return files_.OpenSequential(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    TANDEM_RETURN_IF_ERROR(Check(from, /*follows=*/false));
    TANDEM_RETURN_IF_ERROR(Check(to, /*follows=*/false));
    return files_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path, /*follows=*/false));
    return files_.Remove(path);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path));
    return files_.Stat(path);
  }
  absl::StatusOr<bool> IsLink(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path, /*follows=*/false));
    return files_.IsLink(path);
  }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path));
    return files_.ListDirectory(path);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path));
    return files_.MakeDirectories(path);
  }
  absl::Status RemoveDirectory(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path, /*follows=*/false));
    return files_.RemoveDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    TANDEM_RETURN_IF_ERROR(Check(path));
    return files_.SyncDirectory(path);
  }

 private:
  absl::Status Check(const std::string& path, bool follows = true) const {
    const std::string place = Place(path, follows);
    for (const std::string& folder : folders_) {
      absl::string_view rest = place;
      if (!place.empty() && absl::ConsumePrefix(&rest, folder) &&
          (rest.empty() || folder == "/" || absl::StartsWith(rest, "/"))) {
        return absl::OkStatus();
      }
    }
    // Where it leads is nobody's business who may not go there.
    return errors::PermissionDenied(
        "'", path, "' lies outside of the folders that graphs may touch ", "here; ", hint_);
  }

  FileSystem& files_ = *PosixFileSystem();
  const std::vector<std::string> folders_;  // As Place gives them.
  const std::string hint_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FileSystem>> ConfinedFileSystem(
    const std::vector<std::string>& folders, std::string hint) {
  std::vector<std::string> places;
  for (const std::string& folder : folders) {
    TANDEM_ASSIGN_OR_RETURN(const FileInfo info, PosixFileSystem()->Stat(folder));
    if (!info.is_directory) return errors::FailedPrecondition("'", folder, "' is no folder");
    places.push_back(RealPath(folder));
    if (places.back().empty()) {
      return errors::Unknown("cannot tell where the folder '", folder, "' lies");
    }
  }
  return std::make_unique<ConfinedFiles>(std::move(places), std::move(hint));
}

}  // namespace tandem
