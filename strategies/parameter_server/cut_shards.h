// Steps that no worker takes part in (CutOptions::shards_compute).
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_SHARDS_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_SHARDS_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "strategies/parameter_server/cut.h"
#include "strategies/parameter_server/cut_roles.h"

namespace tandem::parameter_server {

// Each shard gets all that its updates depend on; what several need each computes for itself.
//
// InvalidArgument: there are feeds or fetches, a target is more than updates, or an update depends
// on a variable of another shard.
absl::StatusOr<CutStep> CutForShards(const Graph& graph, const CutRoles& roles,
                                     const CutOptions& options);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_SHARDS_H_
