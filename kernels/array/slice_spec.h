// What StridedSlice's begin, end, strides and masks mean for an input of a certain shape: NumPy's
// indexing, x[1:3, ..., ::-1, None, 4], spelled as three vectors and five bit masks.
#ifndef TANDEM_KERNELS_ARRAY_SLICE_SPEC_H_
#define TANDEM_KERNELS_ARRAY_SLICE_SPEC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/op/attr_value.h"
#include "core/tensor/shape.h"
#include "kernels/array/arguments.h"

namespace tandem::array {

// Bit i of each says how entry i of begin, end and strides is meant.
struct SliceMasks {
  int64_t begin = 0;  // From the first element on (from the last one, if the stride is negative).
  int64_t end = 0;    // Through the last one.
  int64_t ellipsis = 0;  // "...": as many whole dimensions as are left. At most one bit.
  int64_t new_axis = 0;  // A new dimension of size 1, which uses up none of the input's.
  int64_t shrink = 0;    // Element begin[i] alone; the dimension goes.

  // Reads attributes begin_mask, end_mask, …
  template <typename Source>
  static SliceMasks From(const Source& source) {
    return {source.template Attr<int64_t>("begin_mask"), source.template Attr<int64_t>("end_mask"),
            source.template Attr<int64_t>("ellipsis_mask"),
            source.template Attr<int64_t>("new_axis_mask"),
            source.template Attr<int64_t>("shrink_axis_mask")};
  }
};

struct SliceSpec {
  // For each dimension of the input: first element, step, and how many.
  Ints begin;
  Ints stride;
  PartialShape size;
  // The output's shape, with new dimensions and without those that shrank. It has as many elements
  // as `size`.
  PartialShape output;
};

// `entries`: how many begin, end and strides have. Where their values are not known yet they are
// null, and sizes that depend on them unknown; `begin` is right only when all is known. `input`
// must have a rank. InvalidArgument: a stride is 0, an index out of range, there are too many
// entries, …
absl::StatusOr<SliceSpec> ResolveSlice(const PartialShape& input, int64_t entries,
                                       const Ints* begin, const Ints* end, const Ints* strides,
                                       const SliceMasks& masks);

}  // namespace tandem::array

#endif  // TANDEM_KERNELS_ARRAY_SLICE_SPEC_H_
