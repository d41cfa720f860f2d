// What the processes of servers and workers do that were started with the program of the training
// itself (Strategy::FromEnvironment), instead of with tandem_server: they serve, until the job has
// ended.
//
// The coordinator tells them by an empty shard, EndMark(job), which it puts on each server.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_SERVE_TASK_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_SERVE_TASK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/cluster/cluster_config.h"

namespace tandem::parameter_server {

// Payload of a status: the code with which the process shall end, in decimal.
inline constexpr char kExitCodePayload[] = "tandem.dev/exit_code";

// Names a job by its tasks: the same in all of its processes, whenever they are started.
std::string JobOf(const ClusterConfig& config);

// Serves as `config.task` until the job's end is told, or for some seconds after a signal (SIGTERM,
// SIGINT, SIGHUP): the coordinator may still have to save. A second signal ends the process. Gives
// Cancelled with the code 0, or 128 + the signal, as kExitCodePayload; any other error says why it
// could not serve.
absl::Status ServeTask(const ClusterConfig& config);

// Tells the processes at these addresses that the job has ended, or that it has not.
void MarkEnd(const std::string& job, const std::vector<std::string>& addresses,
             absl::Duration timeout);
void UnmarkEnd(const std::string& job, const std::vector<std::string>& addresses,
               absl::Duration timeout);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_SERVE_TASK_H_
