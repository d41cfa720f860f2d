// ExpandSymbolicGradients: puts a call in the place of every SymbolicGradient node.
//
// SymbolicGradient(x…, dy…; f) are the gradients of Σ f(x…) with respect to x…, given those of its
// results. Older clients build their gradients with it. The function that is called is the one that
// the library names as f's gradient, if it does; else it is made here: the body of f, with the
// gradients that AddGradients adds. f may also be an op.
#ifndef TANDEM_CORE_PASSES_SYMBOLIC_GRADIENT_H_
#define TANDEM_CORE_PASSES_SYMBOLIC_GRADIENT_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace tandem {

// Adds functions to the graph's library. NotFound: f is neither a function nor an op.
// InvalidArgument: the node's inputs and outputs do not fit f. Unimplemented: a node of f has no
// gradient. The message names the node.
absl::Status ExpandSymbolicGradients(Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_SYMBOLIC_GRADIENT_H_
