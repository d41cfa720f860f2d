// How two checkpoints differ, for `tandem checkpoint diff`.
#ifndef TANDEM_TOOLS_CLI_CHECKPOINT_DIFF_H_
#define TANDEM_TOOLS_CLI_CHECKPOINT_DIFF_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tools/cli/tensor_text.h"

namespace tandem::cli {

// A tensor that differs.
struct CheckpointDifference {
  enum class Kind { kOnlyInFirst, kOnlyInSecond, kTypeOrShape, kValues };
  std::string name;
  Kind kind = Kind::kValues;
  std::string first;   // Type and shape, where it is there.
  std::string second;  // The same.
  int64_t elements = 0;
  TensorDifference values;  // For kValues.
};

struct CheckpointDiff {
  int64_t compared = 0;  // Tensors that either has.
  std::vector<CheckpointDifference> differences;
};

// Compares bit for bit; numbers that differ by no more than `tolerance` are equal. Holds two
// tensors in memory at a time. Errors: those of reading.
absl::StatusOr<CheckpointDiff> DiffCheckpoints(const Checkpoint& first, const Checkpoint& second,
                                               double tolerance);

// A line for people: "5 of 10 elements, by up to 0.25".
std::string DifferenceText(const CheckpointDifference& difference);
nlohmann::json DifferenceJson(const CheckpointDifference& difference);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_CHECKPOINT_DIFF_H_
