// ClusterPlan: what one signature of a session over several tasks runs: a part of the graph for
// each task that takes part. Feeds enter and results leave at the master's own task.
//
// Threads: any, but what is said otherwise.
#ifndef TANDEM_RUNTIME_RPC_CLUSTER_PLAN_H_
#define TANDEM_RUNTIME_RPC_CLUSTER_PLAN_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/graph/graph.h"
#include "core/passes/prune.h"
#include "proto/config.pb.h"
#include "proto/device_attributes.pb.h"
#include "runtime/rpc/worker_client.h"
#include "runtime/rpc/worker_session.h"

namespace tandem {

// What all plans of a session have in common.
struct ClusterPlanContext {
  // By which the other tasks know the session.
  std::string session_handle;
  tensorflow::ConfigProto config;
  // Of all tasks, the master's first; placement prefers earlier ones.
  std::vector<tensorflow::DeviceAttributes> devices;
  std::string own_task;
  // The master's own share of the session.
  std::shared_ptr<WorkerSession> own;
  std::map<std::string, std::shared_ptr<WorkerClient>, std::less<>> others;
};

class ClusterPlan : public std::enable_shared_from_this<ClusterPlan> {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  struct Part {
    std::shared_ptr<WorkerClient> client;
    std::string graph_handle;  // Empty until registered.
  };

  // Prunes, places and cuts `graph`, and compiles the own part. Errors: those of a local session;
  // Unimplemented for what cannot be cut (core/passes/partition.h), and for users of functions
  // other than calls, conditionals and loops whose functions name devices of other tasks.
  static absl::StatusOr<std::shared_ptr<ClusterPlan>> Create(const ClusterPlanContext& context,
                                                             const RunSignature& signature,
                                                             Graph graph);

  // InvalidArgument: a feed that does not fit.
  absl::Status CheckFeeds(const std::vector<Tensor>& feeds) const;

  // Sends the parts to the other tasks unless they have them; `done` is called once, when all of
  // them do. The first error of a task, which it names, else; the next call tries again.
  void Register(Done done);

  const std::string& session_handle() const { return session_handle_; }
  const std::string& own_task() const { return own_task_; }
  // Null when the own task has no part. The own part's results are the step's.
  const std::shared_ptr<RegisteredGraph>& own() const { return own_; }
  // REQUIRES: registered.
  const std::vector<Part>& parts() const { return parts_; }

 private:
  enum class State { kUnregistered, kRegistering, kRegistered };

  void PartRegistered(size_t i, absl::StatusOr<tensorflow::RegisterGraphResponse> response);

  std::string session_handle_;
  std::string own_task_;
  RunSignature signature_;
  std::vector<PartialShape> feed_shapes_;
  std::vector<DataType> feed_types_;
  std::shared_ptr<RegisteredGraph> own_;

  Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kUnregistered;
  size_t pending_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  std::vector<Done> waiting_ ABSL_GUARDED_BY(mu_);
  // Written while registering only; by i, as the next.
  std::vector<Part> parts_;
  std::vector<tensorflow::RegisterGraphRequest> requests_;  // Cleared once registered.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_CLUSTER_PLAN_H_
