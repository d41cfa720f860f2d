// What a master reads in the ConfigProto of a session.
//
// Read elsewhere: device_filters, isolate_session_state, share_cluster_devices_in_session
// (cluster_session.h), operation_timeout_in_ms, disable_output_partition_graphs, build_cost_model
// and log_device_placement (master_session.h). Taken and left: what is said of threads, since they
// belong to the server, of accelerators' memory, of compilers, and place_pruned_graph, since it is
// always so.
#ifndef TANDEM_RUNTIME_RPC_SESSION_CONFIG_H_
#define TANDEM_RUNTIME_RPC_SESSION_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "core/passes/optimize.h"
#include "proto/config.pb.h"
#include "runtime/cluster/cluster_config.h"

namespace tandem {

// Which passes run: what optimizer_options and rewrite_options switch off does not.
OptimizeOptions OptimizeOptionsOf(const tensorflow::GraphOptions& options);

// The task that this server is in the cluster that a session brings along (cluster_def); none when
// it brings none. `target` is where the client connected, which tells who the server is; `own`, its
// task in its own cluster. InvalidArgument: nobody has the target's address, or the task has the
// name that it has anyway. Unimplemented: the cluster has other tasks, too.
absl::StatusOr<absl::optional<TaskId>> OwnTaskIn(const tensorflow::ClusterDef& cluster,
                                                 absl::string_view target, absl::string_view own);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SESSION_CONFIG_H_
