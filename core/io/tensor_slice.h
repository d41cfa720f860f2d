// TensorSlice: a rectangular part of a tensor, as checkpoints store partitioned variables.
//
// As text, which the ops SaveV2 and RestoreV2 take: "start,length" for each dimension, joined by
// ":"; "-" is a whole dimension. "0,2:-" are the first two rows of a matrix.
#ifndef TANDEM_CORE_IO_TENSOR_SLICE_H_
#define TANDEM_CORE_IO_TENSOR_SLICE_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tensorflow {
class TensorSliceProto;
}  // namespace tensorflow

namespace tandem {

class TensorSlice {
 public:
  static constexpr int64_t kWhole = -1;
  struct Extent {
    int64_t start = 0;
    int64_t length = kWhole;  // kWhole: the whole dimension; start is 0.
    friend bool operator==(const Extent& a, const Extent& b) {
      return a.start == b.start && a.length == b.length;
    }
  };
  using Extents = absl::InlinedVector<Extent, 4>;

  // All of a tensor.
  explicit TensorSlice(int rank = 0) : extents_(static_cast<size_t>(rank)) {}
  // REQUIRES: starts >= 0; lengths >= 0 or kWhole with start 0.
  explicit TensorSlice(Extents extents) : extents_(std::move(extents)) {}

  // InvalidArgument: not of this form, or with numbers that no slice has.
  static absl::StatusOr<TensorSlice> Parse(absl::string_view text);
  static absl::StatusOr<TensorSlice> FromProto(const tensorflow::TensorSliceProto& proto);
  void ToProto(tensorflow::TensorSliceProto* proto) const;
  std::string DebugString() const;

  int rank() const { return static_cast<int>(extents_.size()); }
  const Extents& extents() const { return extents_; }

  // The same part with numbers in place of "whole". InvalidArgument: a tensor of this shape has no
  // such part; the message has both.
  absl::StatusOr<TensorSlice> Resolve(const Shape& full) const;

  // REQUIRES, for all that follow: the slices are resolved, of tensors of the same rank.

  Shape shape() const;
  bool Covers(const Shape& full) const { return shape() == full; }
  // The part that both have; nothing when it is empty (also when one of them is).
  absl::optional<TensorSlice> Intersection(const TensorSlice& other) const;

  friend bool operator==(const TensorSlice& a, const TensorSlice& b) {
    return a.extents_ == b.extents_;
  }

 private:
  Extents extents_;
};

// What the ops take for one tensor: "4 5 0,2:-", the shape of the whole tensor and a part of it; or
// "" for all of it, whatever its shape.
struct ShapeAndSlice {
  bool whole = true;  // The text is empty; the rest is not set.
  Shape full;
  TensorSlice slice;  // As it stands in the text; it fits `full`.
};
// InvalidArgument: not of this form, or the part is outside of the shape.
absl::StatusOr<ShapeAndSlice> ParseShapeAndSlice(absl::string_view text);

// The key of a part in the index of a tensor bundle. Keys sort by name, then by place.
std::string TensorSliceKey(absl::string_view name, const TensorSlice& slice);

// Copies what `from`, which holds the part `from_slice` of some tensor, and `to`, which is to hold
// `to_slice` of it, have in common. REQUIRES: equal types, shapes as the slices say, both resolved.
void CopyCommonPart(const Tensor& from, const TensorSlice& from_slice, const TensorSlice& to_slice,
                    Tensor* to);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_TENSOR_SLICE_H_
