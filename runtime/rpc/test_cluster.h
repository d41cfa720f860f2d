// A cluster of servers in this process, and a client that speaks their protocol, for tests.
#ifndef TANDEM_RUNTIME_RPC_TEST_CLUSTER_H_
#define TANDEM_RUNTIME_RPC_TEST_CLUSTER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/scope.h"
#include "grpcpp/grpcpp.h"
#include "proto/master_service.grpc.pb.h"
#include "proto/worker_service.grpc.pb.h"
#include "runtime/rpc/remote_session.h"
#include "runtime/rpc/server.h"

namespace tandem {

// A context with a deadline that no test reaches; one that hangs says so.
std::unique_ptr<grpc::ClientContext> TestContext();

// How clients in C++ connect, so that values go as the servers of TestCluster have them (BUILD):
// from the first step on through shared memory, or never.
RemoteSessionOptions TestSessionOptions();

// Servers on a loopback address of this process's own, so that ports do not collide.
class TestCluster {
 public:
  // Jobs and their numbers of tasks. Nothing is started.
  explicit TestCluster(const std::map<std::string, int>& jobs);

  // The one that all of this process's clusters are on.
  static const std::string& Host();
  // For the servers that are started from now on; cluster, task and devices are the cluster's.
  ServerOptions& options() { return options_; }

  // Starts a server for the task, also in place of one that was stopped.
  void Start(const TaskId& task, absl::Duration start_timeout = absl::Seconds(60));
  void StartAll();
  void Stop(const TaskId& task);
  Server& server(const TaskId& task) { return *servers_.at(task.ToString()); }
  // "127.1.2.3:20001".
  std::string address(const TaskId& task) const { return *config_.Address(task); }

 private:
  ClusterConfig config_;
  ServerOptions options_;
  std::map<std::string, std::unique_ptr<Server>> servers_;
};

// A session of a client of `address`.
class TestClient {
 public:
  explicit TestClient(const std::string& address);

  // Calls CreateSession. The status is the call's.
  grpc::Status Create(const Scope& scope, const tensorflow::ConfigProto& config = {});
  tensorflow::RunStepRequest Step(const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& targets = {}) const;
  // Calls RunStep. The status is that in the answer's body, or else the call's.
  absl::Status Run(const tensorflow::RunStepRequest& request, tensorflow::RunStepResponse* response,
                   grpc::ClientContext* context = TestContext().get());
  absl::StatusOr<Tensor> Fetch(const std::string& name,
                               const std::vector<std::pair<std::string, Tensor>>& feeds = {});
  absl::Status RunTarget(const std::string& name,
                         const std::vector<std::pair<std::string, Tensor>>& feeds = {});
  void Close();

  tensorflow::MasterService::Stub& stub() { return *stub_; }
  const std::string& handle() const { return handle_; }

 private:
  std::unique_ptr<tensorflow::MasterService::Stub> stub_;
  std::string handle_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_TEST_CLUSTER_H_
