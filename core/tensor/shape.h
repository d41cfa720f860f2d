// Shape: the sizes of a tensor's dimensions. PartialShape: the same, where the rank or single
// sizes may be unknown, as in graphs before they run.
//
// Both are values. A Shape always holds a number of elements that fits into int64.
#ifndef TANDEM_CORE_TENSOR_SHAPE_H_
#define TANDEM_CORE_TENSOR_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem {

// TensorFlow's limit on the number of dimensions.
inline constexpr int kMaxRank = 254;

class Shape {
 public:
  using Dims = absl::InlinedVector<int64_t, 4>;

  // The shape of a scalar: rank 0, one element.
  Shape() = default;
  // REQUIRES: sizes that are not negative and whose product fits into int64. For sizes that come
  // from a user or a message, use FromDims.
  Shape(std::initializer_list<int64_t> dims)  // NOLINT: Shape({2, 3}) and {2, 3} both read well.
      : Shape(absl::Span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  // InvalidArgument: a negative size, more than kMaxRank dimensions, or too many elements; the
  // message holds the sizes.
  static absl::StatusOr<Shape> FromDims(absl::Span<const int64_t> dims);
  static Shape Scalar() { return Shape(); }

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[static_cast<size_t>(i)]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  int64_t num_elements() const { return num_elements_; }
  bool IsScalar() const { return dims_.empty(); }
  bool IsVector() const { return dims_.size() == 1; }
  bool IsMatrix() const { return dims_.size() == 2; }

  // REQUIRES, for all three: the result is a valid shape.
  void AddDim(int64_t size);
  void SetDim(int i, int64_t size);
  void RemoveDim(int i);

  std::string DebugString() const;  // "[2,3]"; a scalar is "[]".

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  void Recount();

  Dims dims_;
  int64_t num_elements_ = 1;
};

class PartialShape {
 public:
  static constexpr int64_t kUnknownDim = -1;

  // Nothing is known, not even the rank.
  PartialShape() = default;
  PartialShape(std::initializer_list<int64_t> dims)  // NOLINT: a size of -1 is unknown.
      : PartialShape(absl::Span<const int64_t>(dims.begin(), dims.size())) {}
  explicit PartialShape(absl::Span<const int64_t> dims)
      : known_rank_(true), dims_(dims.begin(), dims.end()) {}
  PartialShape(const Shape& shape) : PartialShape(shape.dims()) {}  // NOLINT: every Shape is one.

  // InvalidArgument: a size below -1, more than kMaxRank dimensions, or known sizes whose product
  // does not fit into int64.
  static absl::StatusOr<PartialShape> FromDims(absl::Span<const int64_t> dims);
  static PartialShape Unknown() { return PartialShape(); }
  static PartialShape UnknownOfRank(int rank);

  bool has_rank() const { return known_rank_; }
  // REQUIRES, for the next three: has_rank().
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[static_cast<size_t>(i)]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  bool IsFullyDefined() const;

  // REQUIRES: has_rank().
  void AddDim(int64_t size) { dims_.push_back(size); }
  void SetDim(int i, int64_t size) { dims_[static_cast<size_t>(i)] = size; }

  // The shape, when it is fully defined.
  absl::StatusOr<Shape> ToShape() const;
  // True when a tensor could have both shapes.
  bool IsCompatibleWith(const PartialShape& other) const;
  // What both together say. InvalidArgument when they contradict each other.
  absl::StatusOr<PartialShape> MergeWith(const PartialShape& other) const;

  std::string DebugString() const;  // "[?,3]"; an unknown rank is "<unknown>".

  friend bool operator==(const PartialShape& a, const PartialShape& b) {
    return a.known_rank_ == b.known_rank_ && a.dims_ == b.dims_;
  }
  friend bool operator!=(const PartialShape& a, const PartialShape& b) { return !(a == b); }

 private:
  bool known_rank_ = false;
  Shape::Dims dims_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_SHAPE_H_
