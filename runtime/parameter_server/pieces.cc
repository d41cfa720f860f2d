#include "runtime/parameter_server/pieces.h"

#include <algorithm>
#include <cstring>

#include "core/base/status.h"
#include "runtime/rpc/tensor_wire.h"

namespace tandem::parameter_server {
namespace {

bool HasRows(const Tensor& value) {
  return value.is_valid() && IsTriviallyCopyable(value.dtype()) && value.shape().rank() > 0 &&
         value.shape().dim(0) > 1;
}

size_t RowBytes(const Tensor& value) {
  return value.num_bytes() / static_cast<size_t>(value.shape().dim(0));
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> TakePieces(const NamedValues& values, size_t most_bytes,
                                                    Position* next, PieceList* pieces) {
  const auto count = static_cast<int64_t>(values.size());
  if (next->variable() < 0 || next->variable() > count || next->row() < 0) {
    return errors::InvalidArgument("there is no value ", next->variable(), " of ", count,
                                   " with a row ", next->row());
  }
  std::vector<NamedTensor> taken;
  size_t bytes = 0;
  while (next->variable() < count) {
    const auto& [name, value] = values[static_cast<size_t>(next->variable())];
    const size_t left = most_bytes - std::min(bytes, most_bytes);
    if (next->row() == 0 && (value.num_bytes() <= left || !HasRows(value))) {
      if (!taken.empty() && value.num_bytes() > left) break;
      bytes += value.num_bytes();
      taken.push_back({name, value});
      pieces->Add()->set_is_whole(true);
      next->set_variable(next->variable() + 1);
      continue;
    }
    if (!HasRows(value) || next->row() >= value.shape().dim(0)) {
      return errors::InvalidArgument("'", name, "' has no row ", next->row());
    }
    const size_t row_bytes = std::max<size_t>(RowBytes(value), 1);
    if (!taken.empty() && row_bytes > left) break;
    const int64_t rows =
        std::min<int64_t>(std::max<int64_t>(static_cast<int64_t>(left / row_bytes), 1),
                          value.shape().dim(0) - next->row());
    taken.push_back({name, value.Slice(next->row(), next->row() + rows)});
    bytes += static_cast<size_t>(rows) * row_bytes;
    Piece* const piece = pieces->Add();
    piece->set_rows(value.shape().dim(0));
    piece->set_first_row(next->row());
    next->set_row(next->row() + rows);
    if (next->row() == value.shape().dim(0)) {
      next->set_row(0);
      next->set_variable(next->variable() + 1);
    }
    if (bytes >= most_bytes) break;
  }
  return taken;
}

absl::Status JoinedPieces::Add(const PieceList& pieces, NamedValues values) {
  if (static_cast<size_t>(pieces.size()) != values.size()) {
    return errors::InvalidArgument("a message has ", values.size(), " values and describes ",
                                   pieces.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    TANDEM_RETURN_IF_ERROR(AddOne(pieces[static_cast<int>(i)], std::move(values[i].first),
                                  std::move(values[i].second)));
  }
  return absl::OkStatus();
}

absl::Status JoinedPieces::AddOne(const Piece& piece, std::string name, Tensor value) {
  if (!value.is_valid()) return errors::InvalidArgument("'", name, "' has no value");
  const bool begins = piece.is_whole() || piece.first_row() == 0;
  if (begins != (missing_rows_ == 0)) {
    return errors::InvalidArgument("the pieces of '", name, "' do not follow each other");
  }
  if (begins) {
    uint64_t bytes = value.num_bytes();
    if (!piece.is_whole()) {
      if (!IsTriviallyCopyable(value.dtype()) || value.shape().rank() == 0 ||
          value.shape().dim(0) < 1 || piece.rows() < value.shape().dim(0)) {
        return errors::InvalidArgument("a piece of '", name, "' has ", value.shape().DebugString(),
                                       " of ", piece.rows(), " rows");
      }
      const uint64_t row_bytes = std::max<uint64_t>(RowBytes(value), 1);
      const auto rows = static_cast<uint64_t>(piece.rows());
      bytes = rows > left_ / row_bytes ? left_ + 1 : rows * row_bytes;
    }
    if (bytes > left_) {
      return errors::ResourceExhausted("'", name, "' takes more than the ", left_,
                                       " bytes that are left for this state");
    }
    left_ -= bytes;
    if (piece.is_whole()) {
      values_.emplace_back(std::move(name), std::move(value));
      return absl::OkStatus();
    }
    std::vector<int64_t> dims(value.shape().dims().begin(), value.shape().dims().end());
    dims[0] = piece.rows();
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor whole, Tensor::Create(value.dtype(), std::move(shape)));
    values_.emplace_back(std::move(name), std::move(whole));
    missing_rows_ = piece.rows();
  }
  auto& [whole_name, whole] = values_.back();
  const int64_t filled = whole.shape().dim(0) - missing_rows_;
  const bool fits = value.dtype() == whole.dtype() &&
                    value.shape().rank() == whole.shape().rank() && value.shape().dim(0) >= 1 &&
                    value.shape().dim(0) <= missing_rows_ && RowBytes(value) == RowBytes(whole) &&
                    piece.first_row() == filled && piece.rows() == whole.shape().dim(0) &&
                    (begins || name == whole_name);
  if (!fits) {
    return errors::InvalidArgument("a piece of '", whole_name, "' does not follow the others");
  }
  std::memcpy(
      static_cast<char*>(whole.mutable_data()) + static_cast<size_t>(filled) * RowBytes(whole),
      value.data(), value.num_bytes());
  missing_rows_ -= value.shape().dim(0);
  return absl::OkStatus();
}

absl::StatusOr<NamedValues> JoinedPieces::Finish() {
  if (missing_rows_ != 0) {
    return errors::InvalidArgument("'", values_.back().first, "' lacks ", missing_rows_, " rows");
  }
  return std::move(values_);
}

}  // namespace tandem::parameter_server
