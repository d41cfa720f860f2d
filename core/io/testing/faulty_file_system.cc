#include "core/io/testing/faulty_file_system.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace tandem {
namespace {

absl::Status Crashed() { return errors::Unavailable("the machine has crashed (a test's fault)"); }

}  // namespace

// An open file: a place in the contents of an inode.
class FaultyFile : public WritableFile, public RandomAccessFile, public SequentialFile {
 public:
  FaultyFile(FaultyFileSystem* files, std::string path,
             std::shared_ptr<FaultyFileSystem::Inode> inode, int64_t restarts)
      : files_(files), path_(std::move(path)), inode_(std::move(inode)), restarts_(restarts) {}

  const std::string& path() const override { return path_; }

  absl::Status AppendPieces(absl::Span<const absl::string_view> pieces) override {
    std::string bytes;
    for (const absl::string_view piece : pieces) absl::StrAppend(&bytes, piece);
    MutexLock lock(files_->mutex_);
    const bool was_alive = Alive();
    const absl::Status status = Effect(absl::StrCat("append ", path_, " ", bytes.size()));
    if (!status.ok()) bytes.resize(was_alive ? bytes.size() / 2 : 0);
    inode_->contents += bytes;
    return status;
  }
  absl::Status Sync() override {
    MutexLock lock(files_->mutex_);
    TANDEM_RETURN_IF_ERROR(Effect(absl::StrCat("sync ", path_)));
    inode_->synced = inode_->contents;
    return absl::OkStatus();
  }
  absl::Status Close() override {
    MutexLock lock(files_->mutex_);
    return Effect(absl::StrCat("close ", path_));
  }

  absl::StatusOr<size_t> Read(int64_t offset, absl::Span<char> bytes) const override {
    MutexLock lock(files_->mutex_);
    if (!Alive()) return Crashed();
    const std::string& contents = inode_->contents;
    const size_t begin = std::min(static_cast<size_t>(offset), contents.size());
    const size_t size = std::min(bytes.size(), contents.size() - begin);
    if (size > 0) std::memcpy(bytes.data(), contents.data() + begin, size);
    return size;
  }
  absl::StatusOr<int64_t> Size() const override {
    MutexLock lock(files_->mutex_);
    if (!Alive()) return Crashed();
    return static_cast<int64_t>(inode_->contents.size());
  }
  absl::StatusOr<size_t> Read(absl::Span<char> bytes) override {
    TANDEM_ASSIGN_OR_RETURN(const size_t got, Read(position_, bytes));
    position_ += static_cast<int64_t>(got);
    return got;
  }

 private:
  bool Alive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_->mutex_) {
    return !files_->crashed_ && files_->restarts_ == restarts_;
  }
  absl::Status Effect(const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_->mutex_) {
    if (!Alive()) return Crashed();
    return files_->Effect(what);
  }

  FaultyFileSystem* const files_;
  const std::string path_;
  const std::shared_ptr<FaultyFileSystem::Inode> inode_;
  const int64_t restarts_;
  int64_t position_ = 0;
};

FaultyFileSystem::FaultyFileSystem() = default;
FaultyFileSystem::~FaultyFileSystem() = default;

void FaultyFileSystem::FailAt(int64_t n, absl::Status error, int64_t count) {
  MutexLock lock(mutex_);
  first_fault_ = static_cast<int64_t>(log_.size()) + n;
  last_fault_ = first_fault_ + count - 1;
  error_ = std::move(error);
  fired_ = false;
}

void FaultyFileSystem::CrashAt(int64_t n) { FailAt(n, absl::OkStatus()); }

bool FaultyFileSystem::fired() const {
  MutexLock lock(mutex_);
  return fired_;
}

int64_t FaultyFileSystem::effects() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(log_.size());
}

std::vector<std::string> FaultyFileSystem::log() const {
  MutexLock lock(mutex_);
  return log_;
}

void FaultyFileSystem::Restart(Unsynced unsynced, uint32_t seed) {
  MutexLock lock(mutex_);
  std::mt19937 random(seed);
  for (const NameChange& change : unsynced_changes_) {
    const bool kept =
        unsynced == Unsynced::kKept || (unsynced == Unsynced::kMixed && random() % 2 == 0);
    if (kept) Apply(change, &synced_names_);
  }
  unsynced_changes_.clear();
  names_ = synced_names_;
  std::set<Inode*> inodes;  // A name may have been changed and an inode have two.
  for (const auto& [path, inode] : names_) {
    if (!inodes.insert(inode.get()).second || unsynced == Unsynced::kKept) continue;
    std::string survivor = inode->synced;
    if (unsynced == Unsynced::kMixed && inode->contents.size() > survivor.size()) {
      const size_t more = random() % (inode->contents.size() - survivor.size() + 1);
      const bool zeros = random() % 2 == 0;
      survivor += zeros ? std::string(more, '\0') : inode->contents.substr(survivor.size(), more);
    }
    inode->contents = survivor;
  }
  for (const auto& [path, inode] : names_) {
    inode->synced = inode->contents;
    // The renaming of a folder may have been undone.
    for (std::string folder = DirectoryOf(path); folders_.insert(folder).second;) {
      folder = DirectoryOf(folder);
    }
  }
  crashed_ = false;
  last_fault_ = -1;
  ++restarts_;
}

void FaultyFileSystem::SetContents(const std::string& path, std::string contents) {
  MutexLock lock(mutex_);
  auto inode = std::make_shared<Inode>();
  inode->contents = contents;
  inode->synced = std::move(contents);
  folders_.insert(DirectoryOf(path));
  names_[path] = inode;
  synced_names_[path] = std::move(inode);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::OpenToWrite(const std::string& path,
                                                                            WriteMode mode) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(Effect(absl::StrCat("create ", path)));
  if (folders_.count(DirectoryOf(path)) == 0) {
    return errors::NotFound("cannot create '", path, "': no such folder");
  }
  const auto found = names_.find(path);
  const bool exists = found != names_.end();
  if (exists && mode == WriteMode::kNew) {
    return errors::AlreadyExists("cannot create '", path, "': it exists");
  }
  std::shared_ptr<Inode> inode = exists ? found->second : std::make_shared<Inode>();
  if (!exists) Change({{path, inode}});
  if (mode == WriteMode::kReplace) inode->contents.clear();
  return std::make_unique<FaultyFile>(this, path, std::move(inode), restarts_);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> FaultyFileSystem::OpenToRead(
    const std::string& path) {
  MutexLock lock(mutex_);
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Inode> inode, Find(path));
  return std::make_unique<FaultyFile>(this, path, std::move(inode), restarts_);
}

absl::StatusOr<std::unique_ptr<SequentialFile>> FaultyFileSystem::OpenSequential(
    const std::string& path) {
  MutexLock lock(mutex_);
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Inode> inode, Find(path));
  return std::make_unique<FaultyFile>(this, path, std::move(inode), restarts_);
}

absl::Status FaultyFileSystem::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(Effect(absl::StrCat("rename ", from, " ", to)));
  if (folders_.count(from) != 0) return RenameFolder(from, to);
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Inode> inode, Find(from));
  Change({{from, nullptr}, {to, std::move(inode)}});
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::RenameFolder(const std::string& from, const std::string& to) {
  // No files, but SyncDirectory sees where the change is.
  NameChange change = {{from, nullptr}, {to, nullptr}};
  for (const auto& [path, inode] : names_) {
    if (absl::StartsWith(path, to + "/")) {
      return errors::FailedPrecondition("cannot rename '", from, "': '", to, "' is not empty");
    }
    if (!absl::StartsWith(path, from + "/")) continue;
    change.emplace_back(path, nullptr);
    change.emplace_back(to + path.substr(from.size()), inode);
  }
  std::set<std::string> folders;
  for (const std::string& folder : folders_) {
    const bool moves = folder == from || absl::StartsWith(folder, from + "/");
    folders.insert(moves ? to + folder.substr(from.size()) : folder);
  }
  folders_ = std::move(folders);
  Change(std::move(change));
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Remove(const std::string& path) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(Effect(absl::StrCat("remove ", path)));
  TANDEM_RETURN_IF_ERROR(Find(path).status());
  Change({{path, nullptr}});
  return absl::OkStatus();
}

absl::StatusOr<FileInfo> FaultyFileSystem::Stat(const std::string& path) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(CheckAlive());
  if (folders_.count(path) != 0) return FileInfo{0, true, absl::UnixEpoch(), false};
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<Inode> inode, Find(path));
  return FileInfo{static_cast<int64_t>(inode->contents.size()), false, absl::UnixEpoch()};
}

absl::StatusOr<std::vector<std::string>> FaultyFileSystem::ListDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(CheckAlive());
  if (folders_.count(path) == 0) return errors::NotFound("cannot list '", path, "': no folder");
  std::vector<std::string> found;
  const auto add = [&](const std::string& name) {
    if (name != path && DirectoryOf(name) == path) found.emplace_back(FileNameOf(name));
  };
  for (const auto& [name, inode] : names_) add(name);
  for (const std::string& name : folders_) add(name);
  std::sort(found.begin(), found.end());
  return found;
}

absl::Status FaultyFileSystem::MakeDirectories(const std::string& path) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(Effect(absl::StrCat("make ", path)));
  std::string folder = path;
  while (folders_.insert(folder).second) folder = DirectoryOf(folder);
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::RemoveDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(Effect(absl::StrCat("remove ", path)));
  for (const auto& [name, inode] : names_) {
    if (DirectoryOf(name) == path) {
      return errors::FailedPrecondition("cannot remove the folder '", path, "': it holds ", name);
    }
  }
  if (folders_.erase(path) == 0) {
    return errors::NotFound("cannot remove the folder '", path, "'; there is none");
  }
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::SyncDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  TANDEM_RETURN_IF_ERROR(Effect(absl::StrCat("syncdir ", path)));
  std::vector<NameChange> others;
  for (NameChange& change : unsynced_changes_) {
    const bool here = std::any_of(change.begin(), change.end(),
                                  [&](const auto& one) { return DirectoryOf(one.first) == path; });
    if (here) {
      Apply(change, &synced_names_);
    } else {
      others.push_back(std::move(change));
    }
  }
  unsynced_changes_ = std::move(others);
  return absl::OkStatus();
}

absl::Status FaultyFileSystem::Effect(const std::string& what) {
  TANDEM_RETURN_IF_ERROR(CheckAlive());
  const int64_t number = static_cast<int64_t>(log_.size());
  log_.push_back(what);
  if (number < first_fault_ || number > last_fault_) return absl::OkStatus();
  fired_ = true;
  if (!error_.ok()) return WithContext(error_, what);
  crashed_ = true;
  return Crashed();
}

absl::Status FaultyFileSystem::CheckAlive() const {
  return crashed_ ? Crashed() : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<FaultyFileSystem::Inode>> FaultyFileSystem::Find(
    const std::string& path) const {
  TANDEM_RETURN_IF_ERROR(CheckAlive());
  const auto found = names_.find(path);
  if (found == names_.end()) return errors::NotFound("'", path, "': no such file");
  return found->second;
}

void FaultyFileSystem::Apply(const NameChange& change, Names* names) {
  for (const auto& [path, inode] : change) {
    if (inode == nullptr) {
      names->erase(path);
    } else {
      (*names)[path] = inode;
    }
  }
}

void FaultyFileSystem::Change(NameChange change) {
  Apply(change, &names_);
  unsynced_changes_.push_back(std::move(change));
}

}  // namespace tandem
