// Tensors in float, for kernels that compute float16 and bfloat16 in it.
#ifndef TANDEM_KERNELS_NN_TENSOR_CONVERSION_H_
#define TANDEM_KERNELS_NN_TENSOR_CONVERSION_H_

#include "absl/status/statusor.h"
#include "core/kernel/kernel.h"
#include "core/tensor/tensor.h"

namespace tandem {

// `values` (float32, float16 or bfloat16) in float, sharing memory if they are already.
absl::StatusOr<Tensor> ToFloat(KernelContext& c, const Tensor& values);
// The way back, rounding. Does nothing when `result` is float: then it is `values`.
void FromFloat(const Tensor& values, Tensor& result, ParallelRunner& parallel);

// Sets every bit of the elements to 0.
void SetZero(Tensor& tensor);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_TENSOR_CONVERSION_H_
