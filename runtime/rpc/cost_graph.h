// CostGraphDef: what the nodes of a step cost, for clients that ask for it
// (GraphOptions.build_cost_model).
#ifndef TANDEM_RUNTIME_RPC_COST_GRAPH_H_
#define TANDEM_RUNTIME_RPC_COST_GRAPH_H_

#include "proto/cost_graph.pb.h"
#include "runtime/session/session.h"

namespace tandem {

// The nodes of the step's partition graphs, with the time that each took (in microseconds, as
// compute_cost and compute_time) and the sizes of what it gave. `metadata` is that of a step with a
// trace and partition graphs. A node that ran several times, in a loop, has the sum of its times
// and the sizes of the last round.
void FillCostGraph(const RunMetadata& metadata, tensorflow::CostGraphDef* costs);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_COST_GRAPH_H_
