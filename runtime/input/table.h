// TableStage: a source that holds its data in memory, and its passes.
#ifndef TANDEM_RUNTIME_INPUT_TABLE_H_
#define TANDEM_RUNTIME_INPUT_TABLE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {

// One component of all rows.
struct Column {
  Tensor data;      // Row i is data.Slice(i, i + 1).
  Shape row_shape;  // As many elements as a row of data has.
  // `data` is uint8, the component float32: x / 255. Images stay a quarter of their size in memory.
  bool scale_to_unit = false;
};

class ColumnRows final : public RowSource {
 public:
  // REQUIRES: at least one column, all with the same first size.
  explicit ColumnRows(std::vector<Column> columns) : columns_(std::move(columns)) {}

  int64_t size() const override { return columns_[0].data.shape().dim(0); }
  // Shares memory with the table, unless the column is scaled.
  absl::StatusOr<Element> Row(int64_t row) const override;
  absl::StatusOr<Element> Gather(absl::Span<const int64_t> rows) const override;

 private:
  const std::vector<Column> columns_;
};

// A stage of which a pass is row 0, 1, 2, … of `rows`. `kind` lives as long as the process. A state
// is refused when the table has another size or `fingerprint` than where it was saved.
OpenedStagePtr MakeTableStage(const char* kind, std::unique_ptr<const RowSource> rows,
                              uint32_t fingerprint = 0);

// The next element of a pass that has rows: one row of `source`.
absl::StatusOr<MaybeElement> NextFromRows(Pass& pass, const RowSource& source);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_TABLE_H_
