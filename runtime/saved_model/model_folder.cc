#include "runtime/saved_model/model_folder.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"

namespace tandem {
namespace {

constexpr absl::string_view kModelFiles[] = {"saved_model.pb", "saved_model.pbtxt"};
constexpr absl::string_view kOtherEntries[] = {"variables", "assets", "assets.extra",
                                               "fingerprint.pb", "keras_metadata.pb"};

bool IsModelFile(const std::string& name) { return absl::c_linear_search(kModelFiles, name); }

bool IsEntryOfModel(const std::string& name) {
  return IsModelFile(name) || absl::c_linear_search(kOtherEntries, name);
}

// Leaves what is no part of a model, so that the folder stays, too.
absl::Status RemoveModel(FileSystem* files, const std::string& folder) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->ListDirectory(folder));
  for (const std::string& name : names) {
    if (IsEntryOfModel(name)) TANDEM_RETURN_IF_ERROR(RemoveTree(files, JoinPath(folder, name)));
  }
  return files->RemoveDirectory(folder);
}

}  // namespace

absl::StatusOr<bool> HoldsReplaceableModel(FileSystem* files, const std::string& folder,
                                           bool overwrite) {
  const absl::string_view name = FileNameOf(folder);
  if (name.empty() || name == "." || name == "..") {
    return errors::InvalidArgument("a model gets its folder by a rename, which '", folder,
                                   "' cannot be the target of; name a folder, as '",
                                   JoinPath(folder, "model"), "'");
  }
  const absl::StatusOr<bool> is_link = files->IsLink(folder);
  if (absl::IsNotFound(is_link.status())) return false;
  if (!is_link.ok()) return is_link.status();
  if (*is_link) {
    return errors::FailedPrecondition(
        "it is a symbolic link, which stays as it is; name the folder that it leads to, or write "
        "to another one and change the link then");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->ListDirectory(folder));
  if (names.empty()) return false;
  if (!overwrite) {
    return errors::AlreadyExists("the folder is not empty; choose another one, or overwrite it");
  }
  const auto refuse = [](const std::string& found) {
    return errors::FailedPrecondition("the folder holds something else than a SavedModel (", found,
                                      "), which would be lost; choose another folder");
  };
  for (const std::string& entry : names) {
    if (!IsEntryOfModel(entry)) return refuse(absl::StrCat("'", entry, "'"));
  }
  for (const std::string& entry : names) {
    if (!IsModelFile(entry)) continue;
    TANDEM_ASSIGN_OR_RETURN(const FileInfo info, files->Stat(JoinPath(folder, entry)));
    if (info.is_regular) return true;
  }
  return refuse(absl::StrCat("'", names[0], "' but no file saved_model.pb"));
}

absl::Status TryToWriteBeside(FileSystem* files, const std::string& folder) {
  std::string made = folder;
  for (std::string above = DirectoryOf(made);
       above != made && absl::IsNotFound(files->Stat(above).status()); above = DirectoryOf(made)) {
    made = above;
  }
  made = TemporaryPath(made);
  TANDEM_RETURN_IF_ERROR(files->MakeDirectories(made));
  return files->RemoveDirectory(made);
}

absl::Status PutModelInPlace(FileSystem* files, const std::string& from, const std::string& to,
                             bool overwrite) {
  TANDEM_ASSIGN_OR_RETURN(const bool replaces, HoldsReplaceableModel(files, to, overwrite));
  const std::string old = TemporaryPath(to);
  absl::Status status;
  if (replaces) {
    TANDEM_RETURN_IF_ERROR(files->Rename(to, old));
    status = HoldsReplaceableModel(files, old, overwrite).status();
  }
  if (status.ok()) status = files->Rename(from, to);
  if (!status.ok()) {
    if (!replaces || files->Rename(old, to).ok()) return status;
    return WithContext(status, absl::StrCat("the former model is '", old, "' now"));
  }
  TANDEM_RETURN_IF_ERROR(files->SyncDirectory(DirectoryOf(to)));
  if (!replaces) return absl::OkStatus();
  const absl::Status removed = RemoveModel(files, old);
  if (!removed.ok()) {
    TANDEM_LOG(Warning) << "a former model stays as '" << old << "': " << removed.message();
  }
  return absl::OkStatus();
}

absl::Status RemoveTree(FileSystem* files, const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const bool is_link, files->IsLink(path));
  if (is_link) return files->Remove(path);
  TANDEM_ASSIGN_OR_RETURN(const FileInfo info, files->Stat(path));
  if (!info.is_directory) return files->Remove(path);
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->ListDirectory(path));
  for (const std::string& name : names) {
    TANDEM_RETURN_IF_ERROR(RemoveTree(files, JoinPath(path, name)));
  }
  return files->RemoveDirectory(path);
}

}  // namespace tandem
