// Numbers to be counted that come as a sparse tensor.
#ifndef TANDEM_KERNELS_COUNTING_SPARSE_NUMBERS_H_
#define TANDEM_KERNELS_COUNTING_SPARSE_NUMBERS_H_

#include "absl/status/statusor.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "kernels/common/arguments.h"

namespace tandem::counting {

// The shape of the whole, a vector or a matrix. InvalidArgument: it is another one, or indices and
// values do not fit it or each other.
inline absl::StatusOr<Shape> WholeShape(const Tensor& indices, const Tensor& values,
                                        const Tensor& dense_shape) {
  TANDEM_ASSIGN_OR_RETURN(const Shape whole, ShapeArgument(dense_shape, "dense_shape"));
  if (whole.rank() < 1 || whole.rank() > 2) {
    return errors::InvalidArgument("dense_shape is ", whole.DebugString(),
                                   "; it must be that of a vector or a matrix");
  }
  if (!values.shape().IsVector() || !indices.shape().IsMatrix() ||
      indices.shape().dim(0) != values.num_elements() || indices.shape().dim(1) != whole.rank()) {
    return errors::InvalidArgument("indices have shape ", indices.shape().DebugString(),
                                   " and values ", values.shape().DebugString(),
                                   "; one row of indices for each value is wanted, with ",
                                   whole.rank(), " columns");
  }
  return whole;
}

}  // namespace tandem::counting

#endif  // TANDEM_KERNELS_COUNTING_SPARSE_NUMBERS_H_
