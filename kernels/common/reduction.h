// The geometry of a reduction: which dimensions go, seen through collapsed ones.
//
// Neighbouring dimensions that are all kept or all reduced become one, so that kept and reduced
// dimensions alternate. Sizes of 1 vanish.
#ifndef TANDEM_KERNELS_COMMON_REDUCTION_H_
#define TANDEM_KERNELS_COMMON_REDUCTION_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"

namespace tandem {

struct ReductionGeometry {
  // InvalidArgument: an axis outside [-rank, rank), or one that is named twice.
  static absl::StatusOr<ReductionGeometry> Make(const Shape& input, absl::Span<const int64_t> axes,
                                                bool keep_dims);

  struct Dim {
    int64_t size;
    int64_t stride;  // Of the input, in elements.
  };
  Shape output_shape;
  absl::InlinedVector<Dim, 4> kept;     // Outermost first, as the output has them.
  absl::InlinedVector<Dim, 4> reduced;  // Outermost first.
  int64_t num_kept = 1;                 // Elements of the output.
  int64_t num_reduced = 1;              // Elements that go into each.
  // True when the innermost dimension (stride 1) is a kept one. Meaningless without any dimension.
  bool inner_is_kept = false;
};

// The offset of element `index` of the grid that `dims` span.
int64_t GridOffset(absl::Span<const ReductionGeometry::Dim> dims, int64_t index);

}  // namespace tandem

#endif  // TANDEM_KERNELS_COMMON_REDUCTION_H_
