// AddGradients: reverse-mode differentiation of a graph.
#ifndef TANDEM_CORE_OP_GRADIENTS_H_
#define TANDEM_CORE_OP_GRADIENTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/op/gradient_context.h"

namespace tandem {

struct GradientOptions {
  // One for each y: the gradient that flows into it, of its type and shape. Empty: ones.
  std::vector<Output> output_gradients;
  // No gradient flows through these.
  std::vector<Output> stop_at;
};

// Adds nodes to `graph` that compute the gradients of the sum of `ys` with respect to each of `xs`.
// The new nodes are named "gradients/<forward node>/…" and run on the forward node's device.
//
// An x may be any output of the graph; the handle of a variable stands for its value. Where no path
// leads from it to a y, or only through ops registered as not differentiable, its Gradient does not
// exist. Gathers give sparse gradients, which stay sparse as far as they flow alone.
//
// InvalidArgument: a y that is no floating or complex number, gradients that do not fit.
// Unimplemented: an op on the way has no gradient; the message names the node.
absl::StatusOr<std::vector<Gradient>> AddGradients(Graph* graph, const std::vector<Output>& ys,
                                                   const std::vector<Output>& xs,
                                                   const GradientOptions& options = {});

// The sum of gradients of one value: dense ones are added, sparse ones are put one after the other,
// and where both meet the sparse ones become dense. Nodes are added under the name `scope`.
absl::StatusOr<Gradient> SumGradients(Graph* graph, const std::vector<Gradient>& gradients,
                                      const std::string& scope, const std::string& device);

}  // namespace tandem

#endif  // TANDEM_CORE_OP_GRADIENTS_H_
