// Which inputs and outputs of a node lie in host memory although the node may run on a device with
// memory of its own: those that its kernel (before placement: its op) names as host memory (shapes,
// axes), and types that are objects of the host (strings, handles, variants).
#ifndef TANDEM_CORE_GRAPH_MEMORY_KIND_H_
#define TANDEM_CORE_GRAPH_MEMORY_KIND_H_

#include "core/graph/graph.h"

namespace tandem {

bool IsHostInput(const Node& node, int i);
// A constant's value always lies in host memory.
bool IsHostOutput(const Node& node, int i);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_MEMORY_KIND_H_
