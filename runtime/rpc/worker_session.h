// WorkerSession: a session's share of one task: its graphs, compiled, and the state of their nodes.
// RegisteredGraph: one of these graphs, the task's part of a step.
#ifndef TANDEM_RUNTIME_RPC_WORKER_SESSION_H_
#define TANDEM_RUNTIME_RPC_WORKER_SESSION_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/graph/graph.h"
#include "runtime/device/session_devices.h"
#include "runtime/session/session.h"

namespace tandem {

// Threads: any. Runs keep it alive.
class RegisteredGraph : public std::enable_shared_from_this<RegisteredGraph> {
 public:
  // As Session::Callable::Start. `feeds` for the graph's _Arg nodes, by their index (some may have
  // none); results of its _Retval nodes. All nodes run.
  void Run(std::vector<Tensor> feeds, const RunOptions& options, RunMetadata* metadata,
           Session::Callable::Done done);
  // Cancels its runs, and refuses new ones.
  void Close(const absl::Status& reason) { session_->Close(reason); }

 private:
  friend class WorkerSession;

  std::unique_ptr<Session> session_;
  std::unique_ptr<Session::Callable> callable_;  // Null: there is nothing to run.
  std::vector<size_t> feeds_;  // Which of Run's are wanted, in the order of callable_'s.
};

// Threads: any.
class WorkerSession {
 public:
  // `parameter_store` (may be null): SessionOptions::parameter_store of its graphs.
  explicit WorkerSession(std::shared_ptr<SessionDevices> devices,
                         std::shared_ptr<ParameterStore> parameter_store = nullptr);
  ~WorkerSession();

  // Compiles the graph. Errors: those of a session's first run; InvalidArgument: the indices of its
  // _Retval nodes are not 0, 1, 2, ….
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> Compile(const Graph& graph,
                                                           const OptimizeOptions& passes = {});

  // Compile, and the name under which Find has it.
  absl::StatusOr<std::string> Register(const Graph& graph, const OptimizeOptions& passes = {});
  // Aborted: there is none.
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> Find(const std::string& graph_handle) const;
  // Runs go on. NotFound: there is none.
  absl::Status Deregister(const std::string& graph_handle);

  // Counted by whoever runs its graphs.
  void RunBegins() { runs_.fetch_add(1); }
  void RunEnds() { runs_.fetch_sub(1); }
  bool runs() const { return runs_.load() > 0; }

  // Cancels all runs, and refuses everything, with `reason`.
  void Close(const absl::Status& reason);
  void ClearContainer(absl::string_view container) { devices_->ClearContainer(container); }

 private:
  const std::shared_ptr<SessionDevices> devices_;
  const std::shared_ptr<ParameterStore> parameter_store_;
  const std::shared_ptr<SharedKernelCache> kernels_;
  std::atomic<int> runs_{0};
  mutable Mutex mu_;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
  uint64_t next_handle_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<std::string, std::shared_ptr<RegisteredGraph>> graphs_ ABSL_GUARDED_BY(mu_);
  // All that were compiled, those that live as well as those that are gone.
  std::vector<std::weak_ptr<RegisteredGraph>> compiled_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_WORKER_SESSION_H_
