// FuseUpdates: an optimizer's updates of many variables become one node.
//
// Updates on one device with the same rule, attributes, type and scalar inputs (rate, momentum, …)
// that run after the same nodes become one _TandemApplyMany… node, which updates all variables in
// one loop, split over threads as a whole: small variables (biases) cost next to nothing then, and
// none of the node's own overhead. The result is the same bits.
//
// Whoever ran after one of the updates runs after all of them. Where that could close a circle,
// because an update depends on another one, the two stay apart: updates are numbered by how many
// updates lie before them, and only those with one number are joined. What may be dead or belongs
// to a loop, behind the control flow of TensorFlow 1, stays as it is.
#ifndef TANDEM_CORE_PASSES_FUSE_UPDATES_H_
#define TANDEM_CORE_PASSES_FUSE_UPDATES_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace tandem {

// REQUIRES: all nodes are placed. InvalidArgument: the graph has a cycle.
absl::Status FuseUpdates(Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_FUSE_UPDATES_H_
