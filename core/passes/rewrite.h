// What passes share that put one node in the place of several.
#ifndef TANDEM_CORE_PASSES_REWRITE_H_
#define TANDEM_CORE_PASSES_REWRITE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tandem {

// The only consumer of the node's only output, if the node has no other edge out of it, control
// edges included; else null. Such a node can become a part of its consumer, unseen by anybody.
Node* OnlyConsumer(const Node& node);

// The type of the device on which the node is placed ("CPU"); empty when it has none.
std::string DeviceTypeOf(const Node& node);

// True when a node of this op and these attributes could run where `node` is placed.
bool HasKernelBeside(const Node& node, const Graph& graph, absl::string_view op,
                     const AttrMap& attrs);

// Puts a new node in the place of `members`. `spec` says its op, attributes and data inputs; the
// rest comes from the members: name, placement and consumers (of data and control) from `last`,
// control inputs from all of them. Members are only cut off; the caller removes them all at once
// when it is through (Graph::RemoveNodes), since that is linear in the graph.
//
// REQUIRES: the members have no consumers but each other, those of `last` aside; no path leads
// from `last` back to a member.
absl::StatusOr<Node*> PutInPlaceOf(absl::Span<Node* const> members, Node* last, NodeSpec spec,
                                   Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_REWRITE_H_
