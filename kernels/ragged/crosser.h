// Crosser: what SparseCross, RaggedCross and their kin have in common. Each row of the batch has
// some features in each column; a cross of the row takes one feature of each column, and all that
// can be made come out, those that differ in the last column beside each other.
#ifndef TANDEM_KERNELS_RAGGED_CROSSER_H_
#define TANDEM_KERNELS_RAGGED_CROSSER_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "core/kernel/kernel.h"
#include "core/tensor/tensor.h"

namespace tandem::ragged {

// One column of features, strings or int64. Row b has the features [starts[b], starts[b + 1]).
struct FeatureColumn {
  Tensor values;
  std::vector<int64_t> starts;
  bool is_dense = false;

  int64_t Count(int64_t row) const {
    return starts[static_cast<size_t>(row) + 1] - starts[static_cast<size_t>(row)];
  }
};

// The columns of sparse inputs and of the dense ones behind them. From input `first` on there are
// the indices of `count` sparse inputs, their values and their shapes, then `dense` matrices.
// `batch` is the number of rows, or -1: that of the first input. InvalidArgument names an input
// that does not fit: a wrong rank, not as many indices as values, rows out of order, another batch
// size.
absl::StatusOr<std::vector<FeatureColumn>> SparseAndDenseColumns(const KernelContext& c, int first,
                                                                 int count, int dense,
                                                                 int64_t batch = -1);

class Crosser {
 public:
  // The columns have one number of rows. InvalidArgument: there would be more crosses than can be
  // counted.
  static absl::StatusOr<Crosser> Make(std::vector<FeatureColumn> columns);

  int64_t num_rows() const { return num_rows_; }
  int64_t num_crosses() const { return first_.back(); }
  // The first cross of each row, and the number of all: row splits.
  const std::vector<int64_t>& splits() const { return first_; }

  // Crosses as texts, with `separator` between the features.
  void Texts(absl::string_view separator, Tensor* crosses) const;
  struct HashOptions {
    // Where the chain begins; none: with the first feature.
    absl::optional<uint64_t> first;
    // Strings count with their fingerprint, or, where there is a key, with their SipHash.
    absl::optional<std::array<uint64_t, 2>> key;
    // Numbers count with their value, or with such a hash of their 4 lowest bytes. Those of dense
    // columns are hashed only where there is a key: so it is in TensorFlow's SparseCrossHashed.
    bool hashes_numbers = false;
    uint64_t buckets = 0;  // 0: as many as there are numbers below the largest int64.
  };
  // Crosses as numbers: the hashes of the features, chained, modulo the number of buckets.
  void Hashes(const HashOptions& options, Tensor* crosses) const;

 private:
  Crosser() = default;
  // Calls `take` with the place of each column's feature, for every cross, in order.
  void ForEach(
      absl::FunctionRef<void(int64_t cross, const std::vector<int64_t>& places)> take) const;

  std::vector<FeatureColumn> columns_;
  int64_t num_rows_ = 0;
  std::vector<int64_t> first_;
};

}  // namespace tandem::ragged

#endif  // TANDEM_KERNELS_RAGGED_CROSSER_H_
