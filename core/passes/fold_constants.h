// FoldConstants: what a graph computes from constants is computed once, before it runs.
//
//   * A stateless node on a host device whose inputs are all constants becomes constants, unless
//     they would be large (1 MiB, or more than the inputs).
//   * Shape, ShapeN, Size and Rank of what has a known shape become constants, on any device.
//   * x * 1, x / 1, x - 0 become x, and x + 0 for integers. (For floating point, x + 0 turns -0.0
//     into 0.0, so it stays.)
//
// Nothing is lost with a node that goes: constants keep the control inputs of what they replace,
// and nodes with effects stay. Loops and conditionals of TensorFlow 1 are not looked through: what
// is dead or runs once an iteration does so afterwards, too. A kernel that fails leaves its node
// where it was, so that the error comes at run time, if the node runs at all.
#ifndef TANDEM_CORE_PASSES_FOLD_CONSTANTS_H_
#define TANDEM_CORE_PASSES_FOLD_CONSTANTS_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "core/kernel/evaluator.h"

namespace tandem {

// REQUIRES: all nodes are placed. `evaluator` may be null: kernels are then not run.
absl::Status FoldConstants(Evaluator* evaluator, Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_FOLD_CONSTANTS_H_
