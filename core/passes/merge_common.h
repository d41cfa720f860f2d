// MergeCommon: nodes that compute the same become one.
//
// Two nodes are the same when they are pure (node_kinds.h) and have the same op, attributes,
// inputs, control inputs and device; two constants, when their contents are the same bytes, too.
// Equal inputs put them in the same frame of TensorFlow 1's control flow, and make them dead or
// alive together. Attributes that begin with '_' are about placement and names; they do not count.
#ifndef TANDEM_CORE_PASSES_MERGE_COMMON_H_
#define TANDEM_CORE_PASSES_MERGE_COMMON_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace tandem {

// REQUIRES: all nodes are placed. The first node in topological order stays.
absl::Status MergeCommon(Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_MERGE_COMMON_H_
