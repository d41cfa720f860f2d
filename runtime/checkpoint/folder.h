// The names of checkpoints in a folder: which there are, which is the newest, what a run that was
// killed left behind.
//
//   checkpoint                      which ones there are (core/io/checkpoint_state.h)
//   ckpt-100.index                  a checkpoint of step 100
//   ckpt-100.data-00000-of-00001
//   ckpt-200_temp/                  parts of one that is being written
//   NAME.tempstate123               a file that is being written
//   .lock                           who trains into the folder (folder_lock.h)
//
// Threads: any; but one process at a time writes checkpoints of one name into a folder.
#ifndef TANDEM_RUNTIME_CHECKPOINT_FOLDER_H_
#define TANDEM_RUNTIME_CHECKPOINT_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "core/io/file.h"

namespace tandem {

// The number at the end of "FOLDER/ckpt-100". Nothing: there is none that fits into int64.
absl::optional<int64_t> CheckpointStep(absl::string_view prefix);

// The prefixes of the checkpoints in a folder, in the order in which they should be tried: the
// newest of the file `checkpoint`, the others of that file from the newest to the oldest, then
// those that it does not name, the greatest step first. A path of that file that leads out of the
// folder stands for the file of the same name in it (the folder was moved). NotFound: no such
// folder.
absl::StatusOr<std::vector<std::string>> CheckpointsNewestFirst(FileSystem* files,
                                                                const std::string& folder);

// The checkpoints that a path may mean, in the order in which they should be tried.
struct CheckpointCandidates {
  std::vector<std::string> prefixes;  // At least one.
  bool is_folder = false;             // All those of a folder, else the one that `path` names.
};
// `path` is the prefix, the index or a data file of a checkpoint, or a folder. NotFound: there is
// neither, or the folder has none.
absl::StatusOr<CheckpointCandidates> CheckpointsAt(FileSystem* files, const std::string& path);

// A data file of a checkpoint.
struct DataFileName {
  std::string path;
  int shard = 0;
  int num_shards = 0;
};
// Those of one prefix, also such as do not belong together. A folder that is missing has none.
absl::StatusOr<std::vector<DataFileName>> DataFilesOf(FileSystem* files, const std::string& prefix);

// Removes a checkpoint: first the index, so that nobody takes what is left for one. OK when there
// is none.
absl::Status RemoveCheckpoint(FileSystem* files, const std::string& prefix);

// Where the parts of a checkpoint lie while it is written.
std::string PartsFolder(absl::string_view prefix);
// Removes it with the parts in it; OK when it is not there. FailedPrecondition: something else is
// in it.
absl::Status RemovePartsFolder(FileSystem* files, const std::string& folder);

// Removes what writing checkpoints NAME-<number> and the file `checkpoint` left behind when it was
// interrupted: temporary files, folders of parts, data files without an index. REQUIRES: nobody
// writes such checkpoints. Complete ones are never touched. What cannot be removed is logged.
void RemoveLeftovers(FileSystem* files, const std::string& folder, absl::string_view name);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECKPOINT_FOLDER_H_
