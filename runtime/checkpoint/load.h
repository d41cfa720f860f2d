// Loading what a program wants from a checkpoint: all of it, or what is there, under other names
// if need be.
//
//   TANDEM_ASSIGN_OR_RETURN(const LoadedTensors loaded, LoadCheckpoint("run/checkpoints", wanted));
//   TANDEM_RETURN_IF_ERROR(runner->RestoreState(loaded.tensors));
#ifndef TANDEM_RUNTIME_CHECKPOINT_LOAD_H_
#define TANDEM_RUNTIME_CHECKPOINT_LOAD_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/io/file.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/write.h"

namespace tandem {

// A tensor that a program wants.
struct WantedTensor {
  std::string name;
  DataType dtype = DataType::kInvalid;
  Shape shape;
};

struct LoadOptions {
  FileSystem* files = PosixFileSystem();
  // The program's name of a tensor to what it is called in the checkpoint, in any of the ways of
  // Checkpoint::Resolve. Names that do not stand here are the same in both.
  std::map<std::string, std::string> names;
  // What the checkpoint does not have is left out, instead of being an error. A type or shape that
  // differs stays one.
  bool partial = false;
  // Gives a tensor by its name in the checkpoint, in place of the files, to whoever has read them
  // already. Empty: the files do.
  std::function<absl::StatusOr<Tensor>(const std::string& key)> read;
};

struct LoadedTensors {
  std::string prefix;  // Of the checkpoint.
  // Under the program's names, in the order in which they were wanted.
  NamedTensors tensors;
  // Wanted, but not there; empty unless `partial`.
  std::vector<std::string> missing;
  // There, under these names, but not wanted.
  std::vector<std::string> unused;
};

//   NotFound         some are missing; all are listed, and what is there and unused.
//   InvalidArgument  a type or shape differs; all are listed, with both. Or LoadOptions::names has
//                    a name that is not wanted.
//   DataLoss         damage.
absl::StatusOr<LoadedTensors> LoadFrom(const Checkpoint& checkpoint,
                                       absl::Span<const WantedTensor> wanted,
                                       const LoadOptions& options = {});

// The same from the checkpoint at a path; for a folder, from the newest one of which everything
// that is wanted can be read undamaged (Checkpoint::Open). Everything is read once.
absl::StatusOr<LoadedTensors> LoadCheckpoint(const std::string& path,
                                             absl::Span<const WantedTensor> wanted,
                                             const LoadOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECKPOINT_LOAD_H_
