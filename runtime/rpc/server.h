// Server: one task of a cluster, serving clients' sessions on a port.
//
//   TANDEM_ASSIGN_OR_RETURN(auto config, ParseClusterConfig(R"({"worker": ["localhost:0"]})"));
//   TANDEM_ASSIGN_OR_RETURN(auto server,
//                           Server::Create({.config = config, .task = {"worker", 0}}));
//   TANDEM_RETURN_IF_ERROR(server->Start());
//   … server->target() …  // "grpc://localhost:41234"
//   server->Stop(absl::Seconds(5));
//
// One port answers TensorFlow's MasterService and gRPC health checking. Clusters of more than one
// task are Unimplemented so far.
#ifndef TANDEM_RUNTIME_RPC_SERVER_H_
#define TANDEM_RUNTIME_RPC_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/device/device.h"

namespace tandem {

struct ServerOptions {
  ClusterConfig config;
  TaskId task;
  // Instead of the port of the task's own address. 0: one that is free.
  absl::optional<int> port;
  // Where to listen. Empty: on the host of the task's own address if that is one of this machine's,
  // else on all interfaces.
  std::string bind;
  // "CPU:2"; empty: as TANDEM_DEVICES says, else one CPU.
  std::string devices;
  // Serve without authentication on other interfaces than loopback.
  bool insecure = false;
};

// Threads: any.
class Server {
 public:
  virtual ~Server() = default;

  // InvalidArgument: no such task, or devices that do not exist. Unimplemented: more than one task.
  // FailedPrecondition: it would be reachable from elsewhere, without authentication, and nobody
  // said that it may.
  static absl::StatusOr<std::unique_ptr<Server>> Create(ServerOptions options);

  // Listens; returns when the first call would be answered. Unavailable: the port is taken, or
  // cannot be listened on.
  virtual absl::Status Start() = 0;
  // "grpc://host:port". REQUIRES: it was started.
  virtual std::string target() const = 0;
  // Refuses new sessions and steps, lets running steps go on for `grace`, then cancels them.
  // Returns when all is over. True when there were sessions.
  virtual bool Stop(absl::Duration grace) = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SERVER_H_
