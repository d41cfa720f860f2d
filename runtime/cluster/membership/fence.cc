#include "runtime/cluster/membership/fence.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"

namespace tandem::membership {
namespace {

constexpr char kOpen[] = "chief-";
constexpr char kClosed[] = "closed-";
constexpr char kStep[] = "step";

// The folders of chiefs that are there.
struct ChiefFolder {
  std::string path;
  uint64_t generation = 0;
  bool is_open = false;
};

absl::StatusOr<std::vector<ChiefFolder>> ChiefFolders(const std::string& folder) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          PosixFileSystem()->ListDirectory(folder));
  std::vector<ChiefFolder> found;
  for (const std::string& name : names) {
    ChiefFolder chief;
    absl::string_view rest = name;
    chief.is_open = absl::ConsumePrefix(&rest, kOpen);
    if (!chief.is_open && !absl::ConsumePrefix(&rest, kClosed)) continue;
    if (!absl::SimpleAtoi(rest, &chief.generation)) continue;
    chief.path = JoinPath(folder, name);
    found.push_back(std::move(chief));
  }
  return found;
}

// -1: none was noted. What cannot be read does not count: members' own state is as new.
int64_t StepIn(const std::string& folder) {
  const auto text = ReadRegularFile(PosixFileSystem(), JoinPath(folder, kStep), /*max_bytes=*/64);
  int64_t step = -1;
  if (!text.ok() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &step)) return -1;
  return step;
}

void RemoveFolder(const std::string& path) {
  FileSystem* const files = PosixFileSystem();
  const auto names = files->ListDirectory(path);
  if (!names.ok()) return;
  // What its chief could not finish: files, and folders of parts.
  for (const std::string& name : *names) {
    const std::string entry = JoinPath(path, name);
    if (!files->Remove(entry).ok()) RemoveFolder(entry);
  }
  files->RemoveDirectory(path).IgnoreError();
}

// `fence` may be null.
class ChiefFiles final : public FileSystem {
 public:
  ChiefFiles(Fence* fence, uint64_t generation) : fence_(fence), generation_(generation) {}

  absl::Status Rename(const std::string& from, const std::string& to) override {
    return fence_ == nullptr ? files_.Rename(from, to) : fence_->Rename(generation_, from, to);
  }
  absl::Status Remove(const std::string& path) override {
    return fence_ == nullptr ? files_.Remove(path) : fence_->Remove(generation_, path);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                            WriteMode mode) override {
    return files_.OpenToWrite(path, mode);
  }
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenToRead(const std::string& path) override {
    return files_.OpenToRead(path);
  }
  absl::StatusOr<std::unique_ptr<SequentialFile>> OpenSequential(const std::string& path) override {
    return files_.OpenSequential(path);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override { return files_.Stat(path); }
  absl::StatusOr<bool> IsLink(const std::string& path) override { return files_.IsLink(path); }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    return files_.ListDirectory(path);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    return files_.MakeDirectories(path);
  }
  absl::Status RemoveDirectory(const std::string& path) override {
    return files_.RemoveDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return files_.SyncDirectory(path);
  }

 private:
  Fence* const fence_;
  const uint64_t generation_;
  FileSystem& files_ = *PosixFileSystem();
};

}  // namespace

absl::StatusOr<std::unique_ptr<Fence>> Fence::Open(const std::string& folder) {
  const std::string path = JoinPath(folder, ".membership");
  TANDEM_RETURN_IF_ERROR(PosixFileSystem()->MakeDirectories(path));
  return std::unique_ptr<Fence>(new Fence(path));
}

std::string Fence::OwnFolder(uint64_t generation) const {
  return JoinPath(folder_, absl::StrCat(kOpen, generation));
}

uint64_t Fence::LeadingLocked(uint64_t generation) const {
  return led_since_ <= generation && generation < leads_ ? leads_ : generation;
}

std::string Fence::PassageLocked(uint64_t generation, const std::string& path) {
  return JoinPath(OwnFolder(generation),
                  absl::StrCat(passages_++, ".", getpid(), ".", path.substr(path.rfind('/') + 1)));
}

absl::StatusOr<Fence::State> Fence::Raise(uint64_t generation) {
  FileSystem* const files = PosixFileSystem();
  const std::string own = OwnFolder(generation);
  MutexLock lock(mu_);
  bool leads_on = false;
  State state;
  state.generation = generation;
  // Twice: who comes later, and looked before this one's folder was there, is seen the second time.
  for (const bool is_made : {false, true}) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<ChiefFolder> chiefs, ChiefFolders(folder_));
    for (const ChiefFolder& chief : chiefs) {
      const bool is_shut_out = chief.generation == generation && !chief.is_open;
      if (chief.generation <= generation && !is_shut_out) continue;
      state.generation = std::max(state.generation, chief.generation + (is_shut_out ? 1 : 0));
    }
    if (state.generation > generation) {
      if (is_made) RemoveFolder(own);
      return state;
    }
    if (!is_made) TANDEM_RETURN_IF_ERROR(files->MakeDirectories(own));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<ChiefFolder> before, ChiefFolders(folder_));
  std::vector<std::string> closed;
  state.step = StepIn(own);
  for (const ChiefFolder& chief : before) {
    if (chief.generation >= generation) continue;
    std::string path = chief.path;
    if (chief.is_open) {
      path = JoinPath(folder_, absl::StrCat(kClosed, chief.generation));
      const absl::Status renamed = files->Rename(chief.path, path);
      // Another chief may have been quicker; a later one makes this one fail soon.
      if (!renamed.ok() && !absl::IsNotFound(renamed)) return renamed;
      // It was open until now: nobody came between.
      leads_on |= renamed.ok() && chief.generation == leads_;
    }
    // After it was closed: what is noted now stays so.
    state.step = std::max(state.step, StepIn(path));
    closed.push_back(std::move(path));
  }
  TANDEM_RETURN_IF_ERROR(files->SyncDirectory(folder_));
  if (state.step >= 0) TANDEM_RETURN_IF_ERROR(NoteStepLocked(generation, state.step));
  for (const std::string& path : closed) RemoveFolder(path);
  if (!leads_on && generation != leads_) led_since_ = generation;
  leads_ = generation;
  return state;
}

absl::Status Fence::Explain(uint64_t generation, const absl::Status& status) const {
  if (status.ok() || PosixFileSystem()->Stat(OwnFolder(generation)).ok()) return status;
  uint64_t newest = generation;
  if (const auto chiefs = ChiefFolders(folder_); chiefs.ok()) {
    for (const ChiefFolder& chief : *chiefs) newest = std::max(newest, chief.generation);
  }
  return errors::FailedPrecondition(
      "this process was the chief of generation ", generation, ", but ",
      newest > generation ? absl::StrCat("generation ", newest) : std::string("another one"),
      " leads the job now: it may not write into '", DirectoryOf(folder_), "'");
}

absl::Status Fence::Rename(uint64_t generation, const std::string& from, const std::string& to) {
  FileSystem* const files = PosixFileSystem();
  MutexLock lock(mu_);
  const uint64_t leading = LeadingLocked(generation);
  const std::string passage = PassageLocked(leading, from);
  const absl::Status in = files->Rename(from, passage);
  if (!in.ok()) return Explain(leading, in);
  return Explain(leading, files->Rename(passage, to));
}

absl::Status Fence::Remove(uint64_t generation, const std::string& path) {
  FileSystem* const files = PosixFileSystem();
  MutexLock lock(mu_);
  const uint64_t leading = LeadingLocked(generation);
  const std::string passage = PassageLocked(leading, path);
  const absl::Status in = files->Rename(path, passage);
  if (!in.ok()) return Explain(leading, in);
  // From here on it is gone; a new chief may have swept it up.
  const absl::Status removed = files->Remove(passage);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

absl::Status Fence::NoteStep(uint64_t generation, int64_t step) {
  MutexLock lock(mu_);
  const uint64_t leading = LeadingLocked(generation);
  if (leading != generation && step <= StepIn(OwnFolder(leading))) return absl::OkStatus();
  return NoteStepLocked(leading, step);
}

absl::Status Fence::NoteStepLocked(uint64_t generation, int64_t step) {
  return Explain(generation,
                 WriteFileAtomically(PosixFileSystem(), JoinPath(OwnFolder(generation), kStep),
                                     absl::StrCat(step, "\n")));
}

std::unique_ptr<FileSystem> Fence::Files(uint64_t generation) {
  return std::make_unique<ChiefFiles>(this, generation);
}

std::unique_ptr<FileSystem> UnfencedFiles() { return std::make_unique<ChiefFiles>(nullptr, 0); }

}  // namespace tandem::membership
