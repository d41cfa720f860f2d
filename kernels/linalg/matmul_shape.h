// Sizes of matrix products: what MatMul, its fused form and the batched products share.
#ifndef TANDEM_KERNELS_LINALG_MATMUL_SHAPE_H_
#define TANDEM_KERNELS_LINALG_MATMUL_SHAPE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/op/shape_context.h"
#include "core/tensor/shape.h"

namespace tandem {

// An m x k matrix by a k x n matrix.
struct MatMulSizes {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// InvalidArgument: `a` and `b` are not matrices, or do not fit each other.
absl::StatusOr<MatMulSizes> SizesOfMatMul(const Shape& a, const Shape& b, bool transpose_a,
                                          bool transpose_b);

// The shape function of MatMul and _FusedMatMul.
absl::Status MatMulShape(ShapeContext& c);

}  // namespace tandem

#endif  // TANDEM_KERNELS_LINALG_MATMUL_SHAPE_H_
