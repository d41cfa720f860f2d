// InlineCall: puts the bodies of the functions that a node calls in the node's place.
//
// A call whose nodes all run in one task is better left alone (runtime/session/function_runtime.h);
// one that spans tasks has to be cut with the rest of the graph (partition.h), and so becomes a
// part of it. A conditional becomes Switch and Merge, a loop a frame of TensorFlow 1, the forms in
// which tasks can take parts of them.
//
// What a call promises stays true: nothing of a body runs before all of the call's inputs are
// there, all that is stateful in a body runs, and who waits for the call waits for that. In a loop
// what is stateful in a round runs after what is stateful in the one before; all else may run in
// several rounds at a time.
#ifndef TANDEM_CORE_PASSES_INLINE_CALL_H_
#define TANDEM_CORE_PASSES_INLINE_CALL_H_

#include <string>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace tandem {

// True for PartitionedCall, If, Case and While, with their stateful and stateless twins.
bool CanInlineCall(const Node& node);

// Replaces the node. The body's nodes are named "<name of the call>/…" and ask for the devices that
// they ask for in the body; what is unset there comes from `device` (a partial name), but for those
// that are given a handle, which run where it comes from.
//
// REQUIRES: CanInlineCall. InvalidArgument: the functions do not fit the node. Unimplemented: a
// loop whose body exchanges a handle for another. Errors of InstantiateFunction pass through. After
// an error the graph is unspecified.
absl::Status InlineCall(Node* call, const std::string& device, Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_INLINE_CALL_H_
