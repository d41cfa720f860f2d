// WorkerClient: the WorkerService of another task. ClusterTasks: those of a cluster.
//
// Calls return at once and hold no thread. `done` is called exactly once, on a thread of gRPC,
// outside locks; it must not wait. A call is cancelled with its CancellationManager, and then ends
// with the manager's reason.
//
// Errors that the task answered come as they are (status_on_wire.h). When there is no answer the
// error says which task it was, where, and why: Unavailable when it cannot be reached or is lost,
// DeadlineExceeded.
#ifndef TANDEM_RUNTIME_RPC_WORKER_CLIENT_H_
#define TANDEM_RUNTIME_RPC_WORKER_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/kernel/cancellation.h"
#include "proto/worker.pb.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/rpc/call_set.h"
#include "runtime/rpc/received_tensor.h"
#include "runtime/rpc/security.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace tandem {

class HostLink;

// An id for a request that is not to be carried out twice: not 0, and not met again.
int64_t NewRequestId();

struct CallOptions {
  // Of what belongs to no step.
  absl::Time deadline = absl::InfiniteFuture();
  // Wait until the task can be reached, instead of ending with Unavailable.
  bool wait_for_ready = false;
  // May be null; outlives the call.
  CancellationManager* cancellation = nullptr;
};

// Threads: any. Lifetime: when it goes it ends its calls and waits for them, so it may not be a
// call's `done` that lets go of it last.
class WorkerClient {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

  // `task`: "/job:worker/replica:0/task:1"; `address`: host:port. Connects with the first call, and
  // again when the connection is lost. `shared_memory`: this process's end of transfers within the
  // host, which outlives the client; null: values come in messages. REQUIRES: CheckSecurity.
  WorkerClient(std::string task, std::string address, const Security& security = {},
               SharedMemoryEndpoint* shared_memory = nullptr);
  ~WorkerClient();

  const std::string& task() const { return task_; }
  const std::string& address() const { return address_; }
  bool with_tls() const { return with_tls_; }

  void GetStatus(const CallOptions& options, Done<tensorflow::GetStatusResponse> done);
  void CreateWorkerSession(tensorflow::CreateWorkerSessionRequest request,
                           const CallOptions& options,
                           Done<tensorflow::CreateWorkerSessionResponse> done);
  void DeleteWorkerSession(tensorflow::DeleteWorkerSessionRequest request,
                           const CallOptions& options,
                           Done<tensorflow::DeleteWorkerSessionResponse> done);
  void RegisterGraph(tensorflow::RegisterGraphRequest request, const CallOptions& options,
                     Done<tensorflow::RegisterGraphResponse> done);
  void RunGraph(tensorflow::RunGraphRequest request, const CallOptions& options,
                Done<tensorflow::RunGraphResponse> done);
  void CleanupGraph(tensorflow::CleanupGraphRequest request, const CallOptions& options,
                    Done<tensorflow::CleanupGraphResponse> done);
  void CleanupAll(tensorflow::CleanupAllRequest request, const CallOptions& options,
                  Done<tensorflow::CleanupAllResponse> done);
  // Stops asking and ends all calls, of which those that nobody waits for get a second; waits for
  // them. Later ones end at once. Not for gRPC's threads.
  void EndCalls();

  // Calls `lost` once when the task has not answered for three to four seconds, also one that is
  // stopped or whose packets vanish, on a thread of gRPC; it may not wait. Until Unwatch, and,
  // should that come at the same time, for a moment after it. The task is asked once a second,
  // however many watch it, and is not asked when they have all gone within the first second.
  int64_t Watch(std::function<void(const absl::Status& status)> lost);
  void Unwatch(int64_t watch);

  // The value goes from gRPC's memory straight into a tensor, or is borrowed, when the task is on
  // this host and both can (HostLink).
  void RecvTensor(tensorflow::RecvTensorRequest request, const CallOptions& options,
                  Done<ReceivedTensor> received);

 private:
  class Heartbeat;

  const std::string task_;
  const std::string address_;
  const bool with_tls_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<CallSet> calls_;
  const std::unique_ptr<Heartbeat> heartbeat_;
  const std::unique_ptr<HostLink> link_;  // Null: none is wanted.
};

// Threads: any. Lifetime: outlives whoever was given a client, but for what their calls hold: it
// ends those when it goes.
class ClusterTasks {
 public:
  // `shared_memory` (may be null) outlives it.
  ClusterTasks(const ClusterConfig& config, const TaskId& own, const Security& security = {},
               SharedMemoryEndpoint* shared_memory = nullptr);
  ~ClusterTasks();

  // "/job:worker/replica:0/task:0".
  const std::string& own() const { return own_; }
  // All but the own one, by name.
  const std::map<std::string, std::shared_ptr<WorkerClient>, std::less<>>& others() const {
    return others_;
  }
  // NotFound: the cluster has no such other task.
  absl::StatusOr<std::shared_ptr<WorkerClient>> Find(absl::string_view task) const;
  // Through which values are lent to tasks of this host; null: none are.
  SharedMemoryEndpoint* shared_memory() const { return shared_memory_; }

 private:
  const std::string own_;
  SharedMemoryEndpoint* const shared_memory_;
  std::map<std::string, std::shared_ptr<WorkerClient>, std::less<>> others_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_WORKER_CLIENT_H_
