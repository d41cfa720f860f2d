#include "strategies/trainer/fit_checkpoints.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/load.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<FitCheckpoints>> FitCheckpoints::Open(const FitOptions& options,
                                                                     bool writes) {
  std::unique_ptr<FitCheckpoints> checkpoints(new FitCheckpoints(options));
  if (!writes) {
    // What is there otherwise may be what the other one has just begun.
    if (options.resume) TANDEM_RETURN_IF_ERROR(checkpoints->Look(/*may_go_on=*/true));
    return checkpoints;
  }
  if (options.checkpoints.files == PosixFileSystem()) {
    // First, lest another training writes between the look and the lock.
    TANDEM_RETURN_IF_ERROR(options.checkpoints.files->MakeDirectories(options.checkpoint_dir));
    TANDEM_ASSIGN_OR_RETURN(checkpoints->lock_, FolderLock::Take(options.checkpoint_dir));
  }
  TANDEM_RETURN_IF_ERROR(checkpoints->Look(options.resume));
  TANDEM_ASSIGN_OR_RETURN(checkpoints->manager_,
                          CheckpointManager::Create(options.checkpoint_dir, options.checkpoints));
  return checkpoints;
}

absl::Status FitCheckpoints::Look(bool may_go_on) {
  FileSystem* const files = options_.checkpoints.files;
  const std::string& folder = options_.checkpoint_dir;
  const absl::StatusOr<std::vector<std::string>> there = CheckpointsNewestFirst(files, folder);
  if (absl::IsNotFound(there.status())) return absl::OkStatus();
  if (!there.ok()) return there.status();
  if (there->empty()) return absl::OkStatus();
  if (!may_go_on) {
    return errors::FailedPrecondition(
        "the folder '", folder, "' has ", there->size(), " checkpoint",
        there->size() == 1 ? "" : "s", " of an earlier training, the newest of which is '",
        FileNameOf(there->front()), "'; resume it (FitOptions::resume), or train into a folder of ",
        "its own");
  }
  // All of it, before the model is built: what is damaged is passed over, and read but once.
  const auto accept = [this](const Checkpoint& checkpoint) -> absl::Status {
    std::map<std::string, Tensor> tensors;
    const std::vector<std::string> names = checkpoint.bundle().Names();
    TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, checkpoint.bundle().ReadAll(names));
    for (size_t i = 0; i < names.size(); ++i) tensors[names[i]] = std::move(values[i]);
    TANDEM_ASSIGN_OR_RETURN(TrainingState state, FromNotes(checkpoint.prefix(), tensors));
    found_ = std::move(state);
    variables_.clear();
    for (const std::string& name : checkpoint.Names()) variables_[name] = std::move(tensors[name]);
    return absl::OkStatus();
  };
  TANDEM_ASSIGN_OR_RETURN(checkpoint_,
                          Checkpoint::OpenAccepted(folder, {files, /*verify=*/false}, accept));
  prefix_ = checkpoint_->prefix();
  is_saved_ = true;
  return absl::OkStatus();
}

absl::StatusOr<StrategyState> FitCheckpoints::TakeVariables(const StrategyBuilder& builder) {
  const std::vector<std::string> names = checkpoint_->Names();
  std::set<std::string> unused(names.begin(), names.end());
  std::vector<std::string> missing;
  std::vector<WantedTensor> wanted;
  for (const StrategyVariable* variable : builder.variables()) {
    const VariableSpec& spec = variable->spec();
    if (unused.erase(spec.name) == 0) {
      missing.push_back(spec.name);
    } else {
      wanted.push_back({spec.name, spec.dtype, spec.shape});
    }
  }
  LoadOptions load;
  load.read = [this](const std::string& name) -> absl::StatusOr<Tensor> {
    return std::move(variables_[name]);
  };
  absl::StatusOr<LoadedTensors> loaded = LoadFrom(*checkpoint_, wanted, load);
  if (!loaded.ok() && !absl::IsInvalidArgument(loaded.status())) return loaded.status();
  // One message has all that differs.
  std::vector<std::string> differences;
  if (!loaded.ok()) differences.emplace_back(loaded.status().message());
  if (!missing.empty()) {
    differences.push_back(
        absl::StrCat("it lacks variables of the model: ", absl::StrJoin(missing, ", ")));
  }
  if (!unused.empty()) {
    differences.push_back(
        absl::StrCat("it has some that the model has not: ", absl::StrJoin(unused, ", ")));
  }
  if (!differences.empty()) {
    return errors::InvalidArgument(
        "the training of the checkpoint '", prefix_,
        "' cannot go on with this model: ", absl::StrJoin(differences, "; "),
        ". A training is resumed with the model and the optimizer that it began with; another one "
        "needs a folder of its own");
  }
  checkpoint_.reset();
  variables_.clear();
  return std::move(loaded->tensors);
}

absl::Status FitCheckpoints::LookAgain() {
  found_.reset();
  Forget();
  return Look(/*may_go_on=*/true);
}

void FitCheckpoints::Forget() {
  checkpoint_.reset();
  variables_.clear();
}

StrategyState FitCheckpoints::Variables() const {
  return StrategyState(variables_.begin(), variables_.end());
}

absl::Status FitCheckpoints::Lead(std::shared_ptr<FileSystem> files, bool is_beginning) {
  // Waits for what is being written with the former files, in vain if they are fenced off by now.
  manager_.reset();
  if (is_beginning && !options_.resume) TANDEM_RETURN_IF_ERROR(Look(/*may_go_on=*/false));
  CheckpointManagerOptions options = options_.checkpoints;
  // Other file systems are those of tests.
  if (options.files == PosixFileSystem()) options.files = files.get();
  TANDEM_ASSIGN_OR_RETURN(manager_, CheckpointManager::Create(options_.checkpoint_dir, options));
  chief_files_ = std::move(files);
  is_saved_ = false;
  saving_ = -1;
  return absl::OkStatus();
}

void FitCheckpoints::Follow() {
  manager_.reset();
  saving_ = -1;
}

void FitCheckpoints::NoteSaved() {
  const int64_t step = std::exchange(saving_, -1);
  if (step >= 0 && on_saved_) on_saved_(step);
}

absl::Status FitCheckpoints::Finish() {
  if (!writes()) return absl::OkStatus();
  const absl::Status status = manager_->Wait();
  if (status.ok()) NoteSaved();
  return Judge(status);
}

absl::Status FitCheckpoints::Judge(const absl::Status& status) {
  if (status.ok()) return status;
  is_saved_ = false;
  if (options_.stop_on_checkpoint_error) return WithContext(status, "a checkpoint was not written");
  TANDEM_LOG(Warning) << "a checkpoint was not written, and the training goes on: "
                      << status.message();
  return absl::OkStatus();
}

absl::Status FitCheckpoints::Save(int64_t step, Capture capture, absl::optional<double> metric) {
  if (!writes()) return absl::OkStatus();
  absl::StatusOr<NamedTensors> tensors = capture();
  if (!tensors.ok()) return Judge(tensors.status());
  const absl::StatusOr<CheckpointManager::Saved> saved =
      manager_->Save(step, *std::move(tensors), metric);
  if (!saved.ok()) return Judge(saved.status());
  if (*saved == CheckpointManager::Saved::kSkipped) return absl::OkStatus();
  // The one before is there.
  NoteSaved();
  saving_ = step;
  if (*saved == CheckpointManager::Saved::kDone) NoteSaved();
  is_saved_ = true;
  return absl::OkStatus();
}

absl::Status FitCheckpoints::SaveLast(int64_t step, Capture capture) {
  // That the one before failed is no reason not to try: room may have been made since.
  const absl::Status before = Finish();
  absl::Status last;
  if (!is_saved_) {
    last = Save(step, capture);
    if (last.ok()) last = Finish();
  }
  return before.ok() ? last : before;
}

absl::Status CheckCallbackNames(const std::vector<CallbackPtr>& callbacks) {
  std::set<std::string> names;
  for (const CallbackPtr& callback : callbacks) {
    const std::string name = callback->state_name();
    if (name.empty()) continue;
    if (absl::StrContains(name, '/') || !names.insert(name).second) {
      return errors::InvalidArgument(
          "a callback keeps its state under the name '", name, "', which ",
          absl::StrContains(name, '/') ? "has a slash"
                                       : "another one has, too; checkpoints could not tell them "
                                         "apart");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, StrategyState>> SaveCallbacks(
    const std::vector<CallbackPtr>& callbacks) {
  std::map<std::string, StrategyState> kept;
  for (const CallbackPtr& callback : callbacks) {
    const std::string name = callback->state_name();
    if (name.empty()) continue;
    TANDEM_ASSIGN_OR_RETURN(kept[name], callback->SaveState());
  }
  return kept;
}

absl::Status RestoreCallbacks(const std::vector<CallbackPtr>& callbacks,
                              const std::map<std::string, StrategyState>& kept) {
  std::set<std::string> names;
  for (const CallbackPtr& callback : callbacks) {
    const std::string name = callback->state_name();
    const auto found = kept.find(name);
    if (name.empty() || found == kept.end()) continue;
    TANDEM_RETURN_IF_ERROR(callback->RestoreState(found->second));
    names.insert(name);
  }
  for (const auto& entry : kept) {
    if (names.count(entry.first) > 0) continue;
    TANDEM_LOG(Warning) << "the training to resume had a callback '" << entry.first
                        << "', this one has not";
  }
  return absl::OkStatus();
}

}  // namespace tandem
