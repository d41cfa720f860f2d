// What the gradients of ops that move elements need often.
#ifndef TANDEM_KERNELS_ARRAY_GRADIENT_HELPERS_H_
#define TANDEM_KERNELS_ARRAY_GRADIENT_HELPERS_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "core/op/gradient_context.h"
#include "kernels/array/arguments.h"

namespace tandem::array {

// Constants of an integer type (int32 or int64).
Output IntVector(GradientContext& g, DataType dtype, absl::Span<const int64_t> values);
Output IntScalar(GradientContext& g, DataType dtype, int64_t value);
// Row-major. REQUIRES: a multiple of `columns` values.
Output IntMatrix(GradientContext& g, DataType dtype, absl::Span<const int64_t> values,
                 int64_t columns);

// The shape of `x` as a vector of `dtype`: a constant where it is known.
Output ShapeVector(GradientContext& g, Output x, DataType dtype);
// Elements [begin, end) of a vector; `begin` and `end` are vectors of one int32. Without an end:
// all that follow.
Output SubVector(GradientContext& g, Output vector, Output begin, Output end);
Output SubVector(GradientContext& g, Output vector, int64_t begin);
// The product of the elements of a vector, a scalar.
Output ProductOf(GradientContext& g, Output vector);
// All elements of `x` in one dimension.
Output Flatten(GradientContext& g, Output x);
// `x` as `dtype`.
Output CastTo(GradientContext& g, Output x, DataType dtype);
// The value of an integer tensor, where it is a constant of the graph.
absl::optional<Ints> ConstantInts(Output x);

}  // namespace tandem::array

#endif  // TANDEM_KERNELS_ARRAY_GRADIENT_HELPERS_H_
