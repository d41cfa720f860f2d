#include "kernels/linalg/matmul_shape.h"

#include "core/base/status.h"

namespace tandem {

absl::StatusOr<MatMulSizes> SizesOfMatMul(const Shape& a, const Shape& b, bool transpose_a,
                                          bool transpose_b) {
  if (!a.IsMatrix() || !b.IsMatrix()) {
    return errors::InvalidArgument("a product wants two matrices, not shapes ", a.DebugString(),
                                   " and ", b.DebugString());
  }
  const MatMulSizes sizes{a.dim(transpose_a ? 1 : 0), b.dim(transpose_b ? 0 : 1),
                          a.dim(transpose_a ? 0 : 1)};
  if (b.dim(transpose_b ? 1 : 0) != sizes.k) {
    return errors::InvalidArgument(
        "matrices of shapes ", a.DebugString(), " (transposed: ", transpose_a, ") and ",
        b.DebugString(), " (transposed: ", transpose_b, ") differ in their inner size: ", sizes.k,
        " and ", b.dim(transpose_b ? 1 : 0));
  }
  return sizes;
}

absl::Status MatMulShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 2));
  const bool ta = c.Attr<bool>("transpose_a");
  const bool tb = c.Attr<bool>("transpose_b");
  const auto dim = [&](int input, int i) {
    return c.input(input).has_rank() ? c.input(input).dim(i) : PartialShape::kUnknownDim;
  };
  const int64_t inner_a = dim(0, ta ? 0 : 1);
  const int64_t inner_b = dim(1, tb ? 1 : 0);
  if (inner_a >= 0 && inner_b >= 0 && inner_a != inner_b) {
    return errors::InvalidArgument("matrices of shapes ", c.input(0).DebugString(), " and ",
                                   c.input(1).DebugString(),
                                   " differ in their inner size: ", inner_a, " and ", inner_b);
  }
  return c.SetOutput(0, PartialShape({dim(0, ta ? 1 : 0), dim(1, tb ? 0 : 1)}));
}

}  // namespace tandem
