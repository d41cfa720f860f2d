// The file `checkpoint` in a folder of checkpoints: which ones are there, and which is the newest.
// TensorFlow's `tf.train.latest_checkpoint` and its managers read and write it.
//
// Threads: any; two writers of one folder at the same time leave the file of one of them.
#ifndef TANDEM_CORE_IO_CHECKPOINT_STATE_H_
#define TANDEM_CORE_IO_CHECKPOINT_STATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/io/file.h"

namespace tandem {

struct CheckpointState {
  struct Checkpoint {
    // The files' prefix, with the folder's path in front where it lies there.
    std::string prefix;
    // When it was written, in seconds since 1970; 0 when the file does not say.
    double timestamp = 0;
  };
  // Oldest first.
  std::vector<Checkpoint> all;
  // The newest; empty: there is none.
  std::string latest;
  // When the last one was written that is kept for good; 0: none was.
  double last_preserved_timestamp = 0;
};

// "FOLDER/checkpoint"
std::string CheckpointStatePath(absl::string_view folder);

// NotFound: there is no such file. DataLoss: it is not what is expected; the message has file, line
// and column.
absl::StatusOr<CheckpointState> ReadCheckpointState(FileSystem* files, const std::string& folder);

// Replaces the file atomically. Prefixes below the folder are written relative to it, so that the
// folder can be moved; others as absolute paths.
absl::Status WriteCheckpointState(FileSystem* files, const std::string& folder,
                                  const CheckpointState& state);

// The prefix of the newest checkpoint, as the file says. NotFound: there is no file, it names none,
// or the index of what it names is not there.
absl::StatusOr<std::string> LatestCheckpoint(FileSystem* files, const std::string& folder);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_CHECKPOINT_STATE_H_
