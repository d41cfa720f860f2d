// Clipping: limits gradients before an optimizer sees them.
//
// It acts on what one update is made of: on gradients that are summed over all replicas and, with
// accumulation, averaged over its steps, however the wrappers are nested. Of several wrappers the
// outermost clips first. Sparse gradients are clipped as the dense ones that they stand for and
// stay sparse. Every copy computes the same bits.
//
// Errors: a limit that is not above 0 is InvalidArgument from Check.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_CLIPPING_H_
#define TANDEM_STRATEGIES_OPTIMIZER_CLIPPING_H_

#include <vector>

#include "core/graph/scope.h"
#include "core/op/gradient_context.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem::optimizer {

// Each element to [-limit, limit].
OptimizerPtr ClipByValue(OptimizerPtr optimizer, double limit);

// Each gradient by itself to an L2 norm of at most `norm`: g · norm / max(‖g‖, norm).
OptimizerPtr ClipByNorm(OptimizerPtr optimizer, double norm);

// All gradients together to an L2 norm of at most `norm`: each is multiplied by
// norm / max(‖all‖, norm) (Pascanu et al., 2013). As in TensorFlow, all become NaN when their norm
// is not finite.
OptimizerPtr ClipByGlobalNorm(OptimizerPtr optimizer, double norm);

// The L2 norm of all gradients together, a scalar: float32, or float64 where one of them is. What
// does not exist counts nothing. Invalid: none exists, or after an error of the scope.
Output GlobalNorm(const Scope& scope, std::vector<Gradient> gradients);

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_CLIPPING_H_
