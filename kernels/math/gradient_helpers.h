// What gradient functions of this family share.
#ifndef TANDEM_KERNELS_MATH_GRADIENT_HELPERS_H_
#define TANDEM_KERNELS_MATH_GRADIENT_HELPERS_H_

#include "absl/status/status.h"
#include "core/op/gradient_context.h"

namespace tandem::math {

// For ops whose derivative is zero wherever it exists: no gradient flows.
absl::Status NoGradient(GradientContext& g);

// `factor` times `x`, a number times a tensor.
Output Scaled(GradientContext& g, double factor, Output x);
inline Output Multiplied(GradientContext& g, Output a, Output b) { return g.Call("Mul", {a, b}); }

// Sums `gradient`, which has the shape of `whole`, over what `part` was broadcast in.
Output ReduceTo(GradientContext& g, Output gradient, Output part, Output whole);

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_GRADIENT_HELPERS_H_
