// The one loop behind slices, transposes, concatenation, padding, tiles and broadcasts: elements
// move from a regular grid in one array to a regular grid in another.
#ifndef TANDEM_KERNELS_ARRAY_STRIDED_COPY_H_
#define TANDEM_KERNELS_ARRAY_STRIDED_COPY_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/kernel/parallel.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tandem::array {

// One dimension of both grids. Strides are in elements; that of the target may be negative, that of
// the source also 0, which repeats an element.
struct LoopDim {
  int64_t size;
  int64_t to_stride;
  int64_t from_stride;
};
using LoopDims = absl::InlinedVector<LoopDim, 6>;

// to[Σ i·to_stride] = from[Σ i·from_stride] for all positions i of the grid, in any order and on
// several threads when that is worth it. `dims` may come in any order too: it is brought into the
// one that suits the target's memory, and dimensions that lie one in the other are joined.
// REQUIRES: no element is written twice, and the two grids do not overlap.
void CopyStrided(ParallelRunner& parallel, DataType dtype, void* to, const void* from,
                 LoopDims dims);

// A walk over a grid, row-major, from any position. REQUIRES: `dims` outlives it, and no size is 0.
class Odometer {
 public:
  Odometer(absl::Span<const LoopDim> dims, int64_t position) : dims_(dims) {
    position_.resize(dims.size());
    for (size_t i = dims.size(); i-- > 0;) {
      position_[i] = position % dims[i].size;
      position /= dims[i].size;
      to_ += position_[i] * dims[i].to_stride;
      from_ += position_[i] * dims[i].from_stride;
    }
  }
  int64_t to() const { return to_; }
  int64_t from() const { return from_; }
  void Next() {
    for (size_t i = dims_.size(); i-- > 0;) {
      to_ += dims_[i].to_stride;
      from_ += dims_[i].from_stride;
      if (++position_[i] < dims_[i].size) return;
      to_ -= dims_[i].size * dims_[i].to_stride;
      from_ -= dims_[i].size * dims_[i].from_stride;
      position_[i] = 0;
    }
  }

 private:
  const absl::Span<const LoopDim> dims_;
  absl::InlinedVector<int64_t, 6> position_;
  int64_t to_ = 0;
  int64_t from_ = 0;
};

// Row-major strides of a shape.
absl::InlinedVector<int64_t, 6> Strides(absl::Span<const int64_t> dims);

}  // namespace tandem::array

#endif  // TANDEM_KERNELS_ARRAY_STRIDED_COPY_H_
