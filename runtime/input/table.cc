#include "runtime/input/table.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/status.h"
#include "proto/input.pb.h"

namespace tandem::data {
namespace {

// In blocks of a fixed length, which the compiler turns into vector instructions; loops of unknown
// length, and those whose pointers may overlap, it leaves alone at -O2.
void ScaleToUnit(const uint8_t* __restrict in, int64_t count, float* __restrict out) {
  constexpr int64_t kBlock = 32;
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (int64_t k = 0; k < kBlock; ++k) {
      out[i + k] = static_cast<float>(in[i + k]) / 255.0f;
    }
  }
  for (; i < count; ++i) out[i] = static_cast<float>(in[i]) / 255.0f;
}

// Row `row` of `column` to row `to` of `out`.
void CopyRow(const Column& column, int64_t row, int64_t to, Tensor* out) {
  const int64_t count = column.row_shape.num_elements();
  if (column.scale_to_unit) {
    ScaleToUnit(column.data.Elements<uint8_t>().data() + row * count, count,
                out->MutableElements<float>().data() + to * count);
  } else if (IsTriviallyCopyable(column.data.dtype())) {
    const size_t bytes = static_cast<size_t>(count) * DataTypeSize(column.data.dtype());
    if (bytes == 0) return;
    std::memcpy(static_cast<char*>(out->mutable_data()) + static_cast<size_t>(to) * bytes,
                static_cast<const char*>(column.data.data()) + static_cast<size_t>(row) * bytes,
                bytes);
  } else {
    const std::string* const in = column.data.Elements<std::string>().data() + row * count;
    std::copy(in, in + count, out->MutableElements<std::string>().data() + to * count);
  }
}

// Rows come in random order, and the processor reads ahead only after a row's first few lines.
// Bytes that are scaled came a quarter faster with this.
void PrefetchRow(const Column& column, int64_t row) {
  constexpr size_t kLine = 64;
  constexpr size_t kLines = 8;
  const size_t bytes = column.data.num_bytes() / static_cast<size_t>(column.data.shape().dim(0));
  const char* const begin =
      static_cast<const char*>(column.data.data()) + bytes * static_cast<size_t>(row);
  for (size_t i = 0; i < std::min(bytes, kLine * kLines); i += kLine) {
    __builtin_prefetch(begin + i);
  }
}

DataType TypeOf(const Column& column) {
  return column.scale_to_unit ? kFloat32 : column.data.dtype();
}

class TablePass final : public Pass {
 public:
  TablePass(const char* kind, const RowSource& rows, uint32_t fingerprint)
      : kind_(kind), rows_(rows), fingerprint_(fingerprint) {}

  absl::StatusOr<MaybeElement> Next() override { return NextFromRows(*this, rows_); }

  absl::Status NextRows(int64_t count, std::vector<int64_t>* rows) override {
    const int64_t end = next_ + std::min(count, rows_.size() - next_);
    for (; next_ < end; ++next_) rows->push_back(next_);
    return absl::OkStatus();
  }

  absl::Status Save(InputState* state) override {
    state->set_kind(kind_);
    state->add_numbers(next_);
    state->add_numbers(rows_.size());
    state->add_numbers(fingerprint_);
    return absl::OkStatus();
  }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(CheckState(state, kind_, 3, 0));
    if (state.numbers(0) < 0 || state.numbers(0) > rows_.size()) {
      return BadState(kind_,
                      absl::StrCat("stands at row ", state.numbers(0), " of ", rows_.size()));
    }
    if (state.numbers(1) != rows_.size() || state.numbers(2) != fingerprint_) {
      return BadState(kind_, absl::StrCat("is of other data (", state.numbers(1), " rows, here ",
                                          rows_.size(), ")"));
    }
    next_ = state.numbers(0);
    return absl::OkStatus();
  }

 private:
  const char* const kind_;
  const RowSource& rows_;
  const uint32_t fingerprint_;
  int64_t next_ = 0;
};

class TableStage final : public OpenedStage {
 public:
  TableStage(const char* kind, std::unique_ptr<const RowSource> rows, uint32_t fingerprint)
      : kind_(kind), rows_(std::move(rows)), fingerprint_(fingerprint) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext&) const override {
    return std::make_unique<TablePass>(kind_, *rows_, fingerprint_);
  }
  int64_t cardinality() const override { return rows_->size(); }
  const RowSource* rows() const override { return rows_.get(); }

 private:
  const char* const kind_;
  const std::unique_ptr<const RowSource> rows_;
  const uint32_t fingerprint_;
};

}  // namespace

absl::StatusOr<Element> ColumnRows::Row(int64_t row) const {
  Element result;
  result.reserve(columns_.size());
  for (const Column& column : columns_) {
    if (column.scale_to_unit) {
      TANDEM_ASSIGN_OR_RETURN(Tensor scaled, Tensor::Create(kFloat32, column.row_shape));
      CopyRow(column, row, 0, &scaled);
      result.push_back(std::move(scaled));
    } else {
      TANDEM_ASSIGN_OR_RETURN(Tensor slice,
                              column.data.Slice(row, row + 1).Reshaped(column.row_shape));
      result.push_back(std::move(slice));
    }
  }
  return result;
}

absl::StatusOr<Element> ColumnRows::Gather(absl::Span<const int64_t> rows) const {
  Element result;
  result.reserve(columns_.size());
  for (const Column& column : columns_) {
    Shape::Dims dims{static_cast<int64_t>(rows.size())};
    dims.insert(dims.end(), column.row_shape.dims().begin(), column.row_shape.dims().end());
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor batch, Tensor::Create(TypeOf(column), std::move(shape)));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + 1 < rows.size()) PrefetchRow(column, rows[i + 1]);
      CopyRow(column, rows[i], static_cast<int64_t>(i), &batch);
    }
    result.push_back(std::move(batch));
  }
  return result;
}

OpenedStagePtr MakeTableStage(const char* kind, std::unique_ptr<const RowSource> rows,
                              uint32_t fingerprint) {
  return std::make_shared<const TableStage>(kind, std::move(rows), fingerprint);
}

absl::StatusOr<MaybeElement> NextFromRows(Pass& pass, const RowSource& source) {
  std::vector<int64_t> row;
  TANDEM_RETURN_IF_ERROR(pass.NextRows(1, &row));
  if (row.empty()) return MaybeElement();
  TANDEM_ASSIGN_OR_RETURN(Element element, source.Row(row[0]));
  return MaybeElement(std::move(element));
}

}  // namespace tandem::data
