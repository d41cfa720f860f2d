#include "core/tensor/shape.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace tandem {
namespace {

std::string Describe(absl::Span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ",";
    if (dims[i] == PartialShape::kUnknownDim) {
      text += "?";
    } else {
      absl::StrAppend(&text, dims[i]);
    }
  }
  return text + "]";
}

// Checks sizes of which those equal to -1 are unknown where `allow_unknown`.
absl::Status Check(absl::Span<const int64_t> dims, bool allow_unknown) {
  if (dims.size() > kMaxRank) {
    return errors::InvalidArgument("a shape of ", dims.size(), " dimensions; at most ", kMaxRank,
                                   " are possible");
  }
  int64_t product = 1;
  bool overflow = false;
  for (const int64_t size : dims) {
    if (allow_unknown && size == PartialShape::kUnknownDim) continue;
    if (size < 0) {
      return errors::InvalidArgument("shape ", Describe(dims), " holds the negative size ", size);
    }
    // Sizes of 0 are left out: kernels multiply some of the sizes, so that the product of the
    // others has to fit even if the shape is empty.
    if (size == 0) continue;
    if (product > std::numeric_limits<int64_t>::max() / size) {
      overflow = true;
    } else {
      product *= size;
    }
  }
  if (overflow) {
    return errors::InvalidArgument("shape ", Describe(dims),
                                   " has more elements than fit into 64 bits");
  }
  return absl::OkStatus();
}

}  // namespace

Shape::Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) { Recount(); }

absl::StatusOr<Shape> Shape::FromDims(absl::Span<const int64_t> dims) {
  TANDEM_RETURN_IF_ERROR(Check(dims, /*allow_unknown=*/false));
  return Shape(dims);
}

void Shape::AddDim(int64_t size) {
  dims_.push_back(size);
  num_elements_ *= size;
}

void Shape::SetDim(int i, int64_t size) {
  dims_[static_cast<size_t>(i)] = size;
  Recount();
}

void Shape::RemoveDim(int i) {
  dims_.erase(dims_.begin() + i);
  Recount();
}

void Shape::Recount() {
  num_elements_ = 1;
  for (const int64_t size : dims_) num_elements_ *= size;
}

std::string Shape::DebugString() const { return Describe(dims_); }

absl::StatusOr<PartialShape> PartialShape::FromDims(absl::Span<const int64_t> dims) {
  TANDEM_RETURN_IF_ERROR(Check(dims, /*allow_unknown=*/true));
  return PartialShape(dims);
}

PartialShape PartialShape::UnknownOfRank(int rank) {
  PartialShape result;
  result.known_rank_ = true;
  result.dims_.resize(static_cast<size_t>(rank), kUnknownDim);
  return result;
}

bool PartialShape::IsFullyDefined() const {
  if (!known_rank_) return false;
  for (const int64_t size : dims_) {
    if (size == kUnknownDim) return false;
  }
  return true;
}

absl::StatusOr<Shape> PartialShape::ToShape() const {
  if (!IsFullyDefined()) {
    return errors::InvalidArgument("shape ", DebugString(), " is not fully known");
  }
  return Shape::FromDims(dims_);
}

bool PartialShape::IsCompatibleWith(const PartialShape& other) const {
  if (!known_rank_ || !other.known_rank_) return true;
  if (dims_.size() != other.dims_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (dims_[i] != kUnknownDim && other.dims_[i] != kUnknownDim && dims_[i] != other.dims_[i]) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<PartialShape> PartialShape::MergeWith(const PartialShape& other) const {
  if (!IsCompatibleWith(other)) {
    return errors::InvalidArgument("shapes ", DebugString(), " and ", other.DebugString(),
                                   " contradict each other");
  }
  if (!known_rank_) return other;
  PartialShape result = *this;
  if (other.known_rank_) {
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (result.dims_[i] == kUnknownDim) result.dims_[i] = other.dims_[i];
    }
  }
  return result;
}

std::string PartialShape::DebugString() const {
  return known_rank_ ? Describe(dims_) : "<unknown>";
}

}  // namespace tandem
