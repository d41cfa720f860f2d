#include <memory>

#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "core/io/bundle_reader.h"
#include "core/io/bundle_writer.h"
#include "core/io/checkpoint_state.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/write.h"
#include "tests/clients/formats/command.h"
#include "tests/clients/formats/tensors_file.h"

namespace tandem::formats {
namespace {

// TENSORS PREFIX SHARDS
absl::Status WriteBundle(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(NamedTensors tensors, ReadTensors(words[0]));
  int shards = 1;
  if (!absl::SimpleAtoi(words[2], &shards)) return errors::InvalidArgument(words[2]);
  TANDEM_RETURN_IF_ERROR(WriteCheckpoint(PosixFileSystem(), words[1], std::move(tensors), shards));
  CheckpointState state;
  state.latest = words[1];
  state.all.push_back({words[1], 0});
  return WriteCheckpointState(PosixFileSystem(), DirectoryOf(words[1]), state);
}

// TENSORS PREFIX: each row of a tensor is a part of its own, as of a partitioned variable.
absl::Status WriteSlices(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const NamedTensors tensors, ReadTensors(words[0]));
  TANDEM_ASSIGN_OR_RETURN(auto writer, BundleWriter::Create(PosixFileSystem(), words[1]));
  for (const auto& [name, tensor] : tensors) {
    if (tensor.shape().rank() == 0) return errors::InvalidArgument("'", name, "' has no rows");
    for (int64_t row = 0; row < tensor.shape().dim(0); ++row) {
      TensorSlice::Extents extents(static_cast<size_t>(tensor.shape().rank()));
      extents[0] = {row, 1};
      TANDEM_RETURN_IF_ERROR(
          writer->AddSlice(name, tensor.shape(), TensorSlice(extents), tensor.Slice(row, row + 1)));
    }
  }
  return writer->Finish();
}

// PATH TENSORS [NAME…]: all tensors of a bundle, or those that are called so in one of the ways of
// Checkpoint::Resolve.
absl::Status ReadBundle(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(words[0]));
  std::vector<std::string> names(words.begin() + 2, words.end());
  if (names.empty()) names = checkpoint->Names();
  NamedTensors tensors;
  for (const std::string& name : names) {
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, checkpoint->Read(name));
    tensors.emplace_back(name, std::move(tensor));
  }
  return WriteTensors(words[1], tensors);
}

constexpr Command kCommands[] = {
    {"write_bundle", "TENSORS PREFIX SHARDS", 3, WriteBundle},
    {"write_slices", "TENSORS PREFIX", 2, WriteSlices},
    {"read_bundle", "PATH TENSORS [NAME…]", 2, ReadBundle},
};

}  // namespace

const absl::Span<const Command> kBundleCommands = kCommands;

}  // namespace tandem::formats
