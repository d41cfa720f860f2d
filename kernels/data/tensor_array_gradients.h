// Gradients of the ops on tensor arrays, by TensorFlow's rules: what an op takes out of an array is
// put into the array of its gradients, and the other way round.
#ifndef TANDEM_KERNELS_DATA_TENSOR_ARRAY_GRADIENTS_H_
#define TANDEM_KERNELS_DATA_TENSOR_ARRAY_GRADIENTS_H_

#include "absl/status/status.h"
#include "core/op/gradient_context.h"

namespace tandem::data {

absl::Status ArrayWriteGradient(GradientContext& g);
absl::Status ArrayReadGradient(GradientContext& g);
absl::Status ArrayGatherGradient(GradientContext& g);
absl::Status ArrayScatterGradient(GradientContext& g);
absl::Status ArrayConcatGradient(GradientContext& g);
absl::Status ArraySplitGradient(GradientContext& g);

}  // namespace tandem::data

#endif  // TANDEM_KERNELS_DATA_TENSOR_ARRAY_GRADIENTS_H_
