// The gradients of nodes that call functions: calls and conditionals here, loops in
// loop_gradient.h. Each is a node of the same kind that calls functions which are made for it.
#ifndef TANDEM_KERNELS_CONTROL_FUNCTION_GRADIENT_H_
#define TANDEM_KERNELS_CONTROL_FUNCTION_GRADIENT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/op/attr_value.h"
#include "core/op/gradient_context.h"

namespace tandem {

// Adds the gradient of a node that runs one of `branches` with its inputs from `first_input` on.
//
// For each branch two functions are added to the graph's library. The forward one does what the
// branch does, and gives out the intermediate values that its gradient needs: the node gets more
// outputs, and calls it instead of the branch. All branches give out equally many; where one has
// nothing to say, it gives an empty tensor. The backward one takes the gradients of the results,
// the intermediate values, and those arguments that are needed again, and gives the gradients of
// the arguments. The new node is of the forward node's op (or its stateless form), with the
// attributes that `name_branches` makes of the new functions; its inputs before `first_input` are
// the forward node's.
//
// Unimplemented: a node in a branch has no gradient, or gives what cannot be handed on. The message
// names the node.
absl::Status AddCallGradient(
    GradientContext& g, const std::vector<FunctionRef>& branches, int first_input,
    const std::function<AttrMap(const std::vector<FunctionRef>&)>& name_branches);

}  // namespace tandem

#endif  // TANDEM_KERNELS_CONTROL_FUNCTION_GRADIENT_H_
