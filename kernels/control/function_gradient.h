// The gradient of a node that calls a function: another call, of a function that this makes.
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
// For each branch a function is added to the graph's library that takes the branch's arguments and
// the gradients of its results, computes the branch again as far as it must, and gives the
// gradients of the arguments; those of all branches give the same ones. The new node is of the
// forward node's op, with the attributes that `name_branches` makes of the new functions; its
// inputs before `first_input` are the forward node's.
//
// Unimplemented: a branch has effects, or random numbers, which must not happen twice; or a node in
// it has no gradient. The message names the node.
absl::Status AddCallGradient(
    GradientContext& g, const std::vector<FunctionRef>& branches, int first_input,
    const std::function<AttrMap(const std::vector<FunctionRef>&)>& name_branches);

}  // namespace tandem

#endif  // TANDEM_KERNELS_CONTROL_FUNCTION_GRADIENT_H_
