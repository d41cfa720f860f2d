#include "runtime/parameter_server/snapshot.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/io/checkpoint_state.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/start_thread.h"

namespace tandem::parameter_server {
namespace {

constexpr char kName[] = "shard";  // Snapshots are FOLDER/shard-<number>.
const std::string& NoteName() {
  static const std::string& name = *new std::string(absl::StrCat(kNotePrefix, "shard"));
  return name;
}

absl::Status ReadState(const Checkpoint& checkpoint, ShardState* state) {
  const std::string where = absl::StrCat("'", checkpoint.prefix(), "'");
  const BundleEntry* const entry = checkpoint.bundle().Find(NoteName());
  if (entry == nullptr || entry->dtype != kString || !entry->shape.IsScalar()) {
    return errors::DataLoss(where, " is no snapshot of a shard: it has no '", NoteName(), "'");
  }
  TANDEM_ASSIGN_OR_RETURN(const Tensor bytes, checkpoint.bundle().Read(NoteName()));
  ShardSnapshot note;
  if (!note.ParseFromString(bytes.ScalarValue<std::string>()) || note.version() < 0) {
    return errors::DataLoss(where, ": its note '", NoteName(), "' cannot be read");
  }
  state->version = note.version();
  state->applied.assign(note.applied().begin(), note.applied().end());
  const std::vector<std::string> names = checkpoint.Names();
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, checkpoint.bundle().ReadAll(names));
  state->variables.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    state->variables.emplace_back(names[i], std::move(values[i]));
  }
  return absl::OkStatus();
}

NamedTensors ToTensors(ShardState state) {
  ShardSnapshot note;
  note.set_version(state.version);
  for (AppliedSequences& applied : state.applied) *note.add_applied() = std::move(applied);
  NamedTensors tensors = std::move(state.variables);
  tensors.emplace_back(NoteName(), Tensor::Scalar<std::string>(note.SerializeAsString()));
  return tensors;
}

}  // namespace

absl::StatusOr<ShardState> LoadSnapshot(FileSystem* files, const std::string& folder) {
  ShardState state;
  Checkpoint::Options options;
  options.files = files;
  options.verify = false;  // Everything is read here.
  TANDEM_RETURN_IF_ERROR(
      Checkpoint::OpenAccepted(folder, options, [&](const Checkpoint& checkpoint) {
        return ReadState(checkpoint, &state);
      }).status());
  return state;
}

absl::Status RemoveSnapshots(FileSystem* files, const std::string& folder) {
  const auto prefixes = CheckpointsNewestFirst(files, folder);
  if (absl::IsNotFound(prefixes.status())) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(prefixes.status());
  absl::Status first;
  for (const std::string& prefix : *prefixes) {
    if (!absl::StartsWith(FileNameOf(prefix), absl::StrCat(kName, "-"))) continue;
    const absl::Status removed = RemoveCheckpoint(files, prefix);
    if (first.ok()) first = removed;
  }
  RemoveLeftovers(files, folder, kName);
  const absl::Status list = files->Remove(CheckpointStatePath(folder));
  if (first.ok() && !absl::IsNotFound(list)) first = list;
  return first;
}

absl::StatusOr<std::unique_ptr<Snapshotter>> Snapshotter::Create(
    const std::string& folder, Shard* shard, const SnapshotterOptions& options) {
  if (folder.empty() || options.every <= absl::ZeroDuration() || options.keep < 1) {
    return errors::InvalidArgument("snapshots into '", folder, "' every ",
                                   absl::FormatDuration(options.every), ", of which ", options.keep,
                                   " are kept, make no sense");
  }
  TANDEM_RETURN_IF_ERROR(options.files->MakeDirectories(folder));
  std::unique_ptr<Snapshotter> snapshotter(new Snapshotter(folder, shard, options));
  snapshotter->thread_ = StartThread("snapshots", [raw = snapshotter.get()] { raw->Serve(); });
  if (!snapshotter->thread_.joinable()) {
    return errors::ResourceExhausted("there is no thread for the snapshots into '", folder, "'");
  }
  return snapshotter;
}

Snapshotter::~Snapshotter() {
  {
    MutexLock lock(mu_);
    ending_ = true;
    wake_.NotifyAll();
  }
  if (!thread_.joinable()) return;
  ScopedRunTokenRelease released;
  thread_.join();
}

// Only once there is something to write, since the one before may still have the folder.
absl::Status Snapshotter::Open() {
  if (manager_ != nullptr) return absl::OkStatus();
  if (options_.files == PosixFileSystem() && !lock_.is_held()) {
    TANDEM_ASSIGN_OR_RETURN(lock_, FolderLock::Take(folder_));
  }
  CheckpointManagerOptions options;
  options.files = options_.files;
  options.name = kName;
  options.retention.max_to_keep = options_.keep;
  options.asynchronous = false;
  TANDEM_ASSIGN_OR_RETURN(manager_, CheckpointManager::Create(folder_, options));
  // Above all that are there, damaged ones and those of a shard that was further on, too.
  const auto prefixes = CheckpointsNewestFirst(options_.files, folder_);
  if (!prefixes.ok()) return prefixes.status();
  for (const std::string& prefix : *prefixes) {
    next_number_ = std::max(next_number_, CheckpointStep(prefix).value_or(-1) + 1);
  }
  return absl::OkStatus();
}

absl::Status Snapshotter::WriteNow() {
  ScopedRunTokenRelease released;
  MutexLock writing(write_mu_);
  const int64_t changes = shard_->changes();
  if (changes == written_changes_) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(Open());
  TANDEM_ASSIGN_OR_RETURN(ShardState state, shard_->Capture());
  const int64_t version = state.version;
  TANDEM_RETURN_IF_ERROR(manager_->Save(next_number_, ToTensors(std::move(state))).status());
  ++next_number_;
  written_changes_ = changes;
  MutexLock lock(mu_);
  version_ = version;
  return absl::OkStatus();
}

void Snapshotter::WriteSoon() {
  MutexLock lock(mu_);
  write_soon_ = true;
  wake_.NotifyAll();
}

int64_t Snapshotter::version() const {
  MutexLock lock(mu_);
  return version_;
}

void Snapshotter::Serve() {
  while (true) {
    {
      const absl::Time next = absl::Now() + options_.every;
      MutexLock lock(mu_);
      while (!ending_ && !write_soon_ && wake_.WaitUntil(mu_, next)) {
      }
      if (ending_) return;
      write_soon_ = false;
    }
    const absl::Status status = WriteNow();
    if (!status.ok()) {
      TANDEM_LOG_EVERY(Warning, absl::Seconds(60))
          << "a snapshot into '" << folder_ << "' was not written: " << status.message();
    }
  }
}

}  // namespace tandem::parameter_server
