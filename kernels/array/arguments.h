// Shapes, axes and sizes of ops that move elements, in kernels and, as far as values are known
// before the run, in shape functions. Beside kernels/common/arguments.h, which reads them.
#ifndef TANDEM_KERNELS_ARRAY_ARGUMENTS_H_
#define TANDEM_KERNELS_ARRAY_ARGUMENTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "core/op/shape_context.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"
#include "kernels/common/arguments.h"

namespace tandem::array {

using Ints = SmallInts;

// Resolves a negative axis. InvalidArgument when it lies outside [-rank, rank).
inline absl::StatusOr<int> ResolveAxis(int64_t axis, int rank) {
  return ShapeContext::ResolveAxis(axis, rank);
}

// Product of dims [begin, end).
int64_t Product(absl::Span<const int64_t> dims, int begin, int end);

// The elements of input `i`, an integer tensor, where its value is known.
absl::optional<Ints> KnownInts(const ShapeContext& c, int i);

// A product of two sizes that may be unknown.
int64_t MultiplySizes(int64_t a, int64_t b);
// A sum of two sizes that may be unknown. InvalidArgument when it does not fit into int64.
absl::StatusOr<int64_t> AddSizes(int64_t a, int64_t b);
// What both say of one size. InvalidArgument when they contradict each other.
absl::StatusOr<int64_t> MergeSizes(int64_t a, int64_t b);

// Dims [begin, end) of a shape. REQUIRES: it has a rank, and they exist.
PartialShape Subshape(const PartialShape& shape, int begin, int end);
// The dims of one shape, then those of another; unknown when the rank of one is.
PartialShape Concatenate(const PartialShape& a, const PartialShape& b);
// The shape in which there is one dim less or more.
PartialShape WithoutDim(const PartialShape& shape, int dim);
PartialShape WithDim(const PartialShape& shape, int at, int64_t size);

}  // namespace tandem::array

#endif  // TANDEM_KERNELS_ARRAY_ARGUMENTS_H_
