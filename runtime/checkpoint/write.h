// Writing checkpoints: tensors by name, into the files that TensorFlow's Savers read
// (core/io/bundle.h).
#ifndef TANDEM_RUNTIME_CHECKPOINT_WRITE_H_
#define TANDEM_RUNTIME_CHECKPOINT_WRITE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/io/bundle.h"
#include "core/io/file.h"
#include "core/tensor/tensor.h"

namespace tandem {

// What a checkpoint holds. StrategyRunner::CaptureState gives one.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// One that is read, or made, when it is its turn to be written.
struct LazyTensor {
  std::string name;
  int64_t bytes = 0;  // About so many.
  std::function<absl::StatusOr<Tensor>()> read;
};

// Sums and reads the pieces of large tensors on the cores that are idle.
ParallelFor IdleCores();

// Shard numbers have five digits; more than a few files only help when there are as many disks.
inline constexpr int kMaxCheckpointShards = 1000;

// Writes a checkpoint of `num_shards` data files, its tensors spread over them by size. Each tensor
// is let go as soon as it is written.
//
// Nothing is seen of it before it is complete. A checkpoint of the same prefix is replaced in one
// step: the new one then has a shard more than was asked for, since names of data files have their
// number in them. After an error what was there before is there; after a crash too, with temporary
// files beside it (RemoveLeftovers in folder.h).
//
//   InvalidArgument  a number of shards outside of [1, kMaxCheckpointShards], and what
//                    BundleWriter::Add refuses.
// and errors of the files.
absl::Status WriteCheckpoint(FileSystem* files, const std::string& prefix, NamedTensors tensors,
                             int num_shards = 1);
// The same of more than memory holds: each is read once, and let go before the next one is. Errors
// also: those of reading.
absl::Status WriteCheckpointLazily(FileSystem* files, const std::string& prefix,
                                   const std::vector<LazyTensor>& tensors, int num_shards = 1);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECKPOINT_WRITE_H_
