// The folder of a SavedModel as a thing that is made and replaced as a whole. Nothing but a model
// is ever replaced: what else lies in a folder, or in what a link leads to, is somebody's data.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_MODEL_FOLDER_H_
#define TANDEM_RUNTIME_SAVED_MODEL_MODEL_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/io/file.h"

namespace tandem {

// Whether a model lies where another one shall be put; false when nothing, or an empty folder,
// does.
//   InvalidArgument     the path ends in no name (".", "..", "/").
//   AlreadyExists       the folder is not empty, and overwriting was not asked for.
//   FailedPrecondition  it is a link or a file, holds something that is no part of a SavedModel
//   (the
//                       first such name is in the message), or lacks saved_model.pb and .pbtxt.
absl::StatusOr<bool> HoldsReplaceableModel(FileSystem* files, const std::string& folder,
                                           bool overwrite);

// Makes a folder beside `folder`, or where the first missing folder above it will be, and removes
// it again. Its error is the one that writing would end with.
absl::Status TryToWriteBeside(FileSystem* files, const std::string& folder);

// Renames the folder `from` to `to`, and removes the model that is there. HoldsReplaceableModel is
// asked again, also when nobody can put anything into the old folder by its name any more. After an
// error `to` is what it was; when even that fails, the message says where it is now.
absl::Status PutModelInPlace(FileSystem* files, const std::string& from, const std::string& to,
                             bool overwrite);

// Removes a folder with all that is in it, but follows no links.
absl::Status RemoveTree(FileSystem* files, const std::string& folder);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_MODEL_FOLDER_H_
