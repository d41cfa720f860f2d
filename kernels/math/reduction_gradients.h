// Gradients of reductions along axes.
#ifndef TANDEM_KERNELS_MATH_REDUCTION_GRADIENTS_H_
#define TANDEM_KERNELS_MATH_REDUCTION_GRADIENTS_H_

#include "absl/status/status.h"
#include "core/op/gradient_context.h"

namespace tandem::math {

absl::Status SumGradient(GradientContext& g);
absl::Status MeanGradient(GradientContext& g);
absl::Status ProdGradient(GradientContext& g);
// Of Max and Min: shared evenly by the elements that are equal to the result.
absl::Status ExtremeGradient(GradientContext& g);

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_REDUCTION_GRADIENTS_H_
