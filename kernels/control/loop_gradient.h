// The gradient of While: a loop that goes back through the forward loop's history.
#ifndef TANDEM_KERNELS_CONTROL_LOOP_GRADIENT_H_
#define TANDEM_KERNELS_CONTROL_LOOP_GRADIENT_H_

#include "absl/status/status.h"
#include "core/op/gradient_context.h"

namespace tandem {

// Adds the gradient of a While or StatelessWhile.
//
// The forward loop gets more values: the number of its turns, unless one of its values counts them
// already, and a tensor list for each intermediate value that the gradient of the body needs, to
// which a turn pushes its own. Values that stay the same in all turns, and constants, are not kept.
// The backward loop runs as many turns; each pops the intermediate values of one, and computes from
// the gradients of its results those of its arguments. Where a variable is read inside, a sum goes
// along. A loop without such values stays as it is.
//
// Integers, and what depends on nothing that is differentiated, have no gradient.
//
// Unimplemented: a node of the body has no gradient; a handle is not the same in all turns. The
// message names the node.
absl::Status AddLoopGradient(GradientContext& g);

}  // namespace tandem

#endif  // TANDEM_KERNELS_CONTROL_LOOP_GRADIENT_H_
