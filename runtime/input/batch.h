// What Batch and PaddedBatch share.
#ifndef TANDEM_RUNTIME_INPUT_BATCH_H_
#define TANDEM_RUNTIME_INPUT_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {

struct BatchSize {
  int64_t size = 0;
  bool drop_remainder = false;

  // The attributes size and drop_remainder. InvalidArgument: below 1.
  static absl::StatusOr<BatchSize> From(const Stage& stage);
  // Batches of a data set of `input` elements (or of a cardinality that is no number).
  int64_t Cardinality(int64_t input) const;
};

// Reads up to `batch.size` elements; none at the end, and when a remainder is dropped.
absl::StatusOr<std::vector<Element>> ReadBatch(Pass& input, const BatchSize& batch);

// InvalidArgument unless the elements (of which the first of all has the index `begin`) have as
// many components as the first, of its types, and of its shapes (kShape) or ranks (kRank). `kind`
// begins the message, `advice` ends it.
enum class Same { kShape, kRank };
absl::Status CheckAlike(absl::string_view kind, const std::vector<Element>& elements, int64_t begin,
                        Same same, absl::string_view advice);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_BATCH_H_
