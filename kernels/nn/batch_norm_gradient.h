// The gradients of FusedBatchNormV3 and of its gradient op, as graphs of other ops.
#ifndef TANDEM_KERNELS_NN_BATCH_NORM_GRADIENT_H_
#define TANDEM_KERNELS_NN_BATCH_NORM_GRADIENT_H_

#include "absl/status/status.h"
#include "core/op/gradient_context.h"

namespace tandem {

absl::Status BatchNormGradient(GradientContext& g);
absl::Status BatchNormSecondGradient(GradientContext& g);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_BATCH_NORM_GRADIENT_H_
