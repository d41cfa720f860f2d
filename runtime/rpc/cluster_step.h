// A step over several tasks: one run of a ClusterPlan.
//
// All parts run at the same time and exchange values through the step's rendezvous. The first error
// that is a task's own, not the consequence of another's, ends the others and is the step's; it
// names the task and the node. When the step is over, the tasks forget its values.
#ifndef TANDEM_RUNTIME_RPC_CLUSTER_STEP_H_
#define TANDEM_RUNTIME_RPC_CLUSTER_STEP_H_

#include <memory>
#include <vector>

#include "core/kernel/cancellation.h"
#include "runtime/rpc/cluster_plan.h"
#include "runtime/rpc/worker.h"
#include "runtime/session/session.h"

namespace tandem {

// Starts the step and returns; `done` is called once, on any thread. `worker`, `all_runs` (whose
// cancellation ends the step) and `metadata` (may be null) outlive it. Of `options` the
// cancellation and the trace count. REQUIRES: the plan is registered, and the feeds fit.
void StartClusterStep(std::shared_ptr<ClusterPlan> plan, Worker* worker,
                      CancellationManager* all_runs, std::vector<Tensor> feeds,
                      const RunOptions& options, RunMetadata* metadata,
                      Session::Callable::Done done);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_CLUSTER_STEP_H_
