#include "core/base/status.h"
#include "core/io/npz.h"
#include "tests/clients/formats/command.h"
#include "tests/clients/formats/tensors_file.h"

namespace tandem::formats {
namespace {

// TENSORS FILE stored|deflated
absl::Status WriteArrays(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const NamedTensors tensors, ReadTensors(words[0]));
  std::vector<NamedArray> arrays;
  for (const auto& [name, tensor] : tensors) arrays.push_back({name, tensor});
  return WriteNpz(PosixFileSystem(), words[1], arrays, words[2] == "deflated");
}

// FILE TENSORS
absl::Status ReadArrays(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<NamedArray> arrays,
                          ReadNpz(PosixFileSystem(), words[0]));
  NamedTensors tensors;
  for (const NamedArray& array : arrays) tensors.emplace_back(array.name, array.tensor);
  return WriteTensors(words[1], tensors);
}

constexpr Command kCommands[] = {
    {"write_npz", "TENSORS FILE stored|deflated", 3, WriteArrays},
    {"read_npz", "FILE TENSORS", 2, ReadArrays},
};

}  // namespace

const absl::Span<const Command> kArrayCommands = kCommands;

}  // namespace tandem::formats
