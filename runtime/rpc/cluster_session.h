// A session over several tasks, on the side of its master.
//
// It has the interface of a local one. Its graph is cut into a part for each task
// (cluster_plan.h); the master's own task computes its part in this process, the others theirs
// behind their WorkerService. What is said of local sessions holds, but for these: of a RunMetadata
// the other tasks' events are as good as the machines' clocks agree; devices() are those of the
// master's own task; loops that span tasks are Unimplemented.
#ifndef TANDEM_RUNTIME_RPC_CLUSTER_SESSION_H_
#define TANDEM_RUNTIME_RPC_CLUSTER_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/graph/graph.h"
#include "core/kernel/cancellation.h"
#include "proto/config.pb.h"
#include "proto/device_attributes.pb.h"
#include "runtime/rpc/worker.h"
#include "runtime/session/session.h"

namespace tandem {

struct ClusterSessionOptions {
  std::string handle;  // By which all tasks will know it.
  tensorflow::ConfigProto config;
  // The other tasks that take part.
  std::vector<std::shared_ptr<WorkerClient>> others;
  // How long to wait for tasks that cannot be reached.
  absl::Duration start_timeout = absl::Seconds(120);
};

struct ClusterSession {
  std::unique_ptr<Session> session;
  std::vector<tensorflow::DeviceAttributes> devices;  // Of all tasks, the master's first.
};

// Waits until all tasks answer, with a line in the log every ten seconds that says which do not,
// and makes the session. `done` is called once, on any thread. `worker` outlives the session;
// `cancellation`, which may be null, this call.
//
// DeadlineExceeded: tasks that did not answer in time; the message names them. FailedPrecondition:
// a task that answered is another one than the cluster says. Other errors name their task.
void CreateClusterSession(Graph graph, ClusterSessionOptions options, Worker* worker,
                          CancellationManager* cancellation,
                          absl::AnyInvocable<void(absl::StatusOr<ClusterSession>)> done);

// The tasks among `tasks` that a session with these filters takes: those that fit one of them; all,
// when there are none. InvalidArgument: a filter that is no (partial) name of a device.
absl::StatusOr<std::vector<std::shared_ptr<WorkerClient>>> FilterTasks(
    const ClusterTasks& tasks, const google::protobuf::RepeatedPtrField<std::string>& filters);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_CLUSTER_SESSION_H_
