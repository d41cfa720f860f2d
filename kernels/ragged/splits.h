// Row splits: how ragged tensors say where their rows end. Row i of a ragged dimension holds the
// values [splits[i], splits[i + 1]) of the next one.
#ifndef TANDEM_KERNELS_RAGGED_SPLITS_H_
#define TANDEM_KERNELS_RAGGED_SPLITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace tandem::ragged {

using RowSplits = std::vector<int64_t>;

// The splits in a vector of int32 or int64. InvalidArgument names the argument: it is no vector, is
// empty, does not begin with 0, or falls.
absl::StatusOr<RowSplits> ReadSplits(const Tensor& tensor, absl::string_view name);
// InvalidArgument: the splits do not end with the number of values that there are.
absl::Status CheckEnd(const RowSplits& splits, absl::string_view name, int64_t values);

// Writes splits to a vector of int32 or int64. InvalidArgument: one does not fit.
// REQUIRES: as many elements as splits.
absl::Status WriteSplits(const RowSplits& splits, Tensor* tensor);

inline int64_t NumRows(const RowSplits& splits) { return static_cast<int64_t>(splits.size()) - 1; }

}  // namespace tandem::ragged

#endif  // TANDEM_KERNELS_RAGGED_SPLITS_H_
