// Server: one task of a cluster, serving clients' sessions on a port.
//
//   TANDEM_ASSIGN_OR_RETURN(auto config, ParseClusterConfig(R"({"worker": ["localhost:0"]})"));
//   TANDEM_ASSIGN_OR_RETURN(auto server,
//                           Server::Create({.config = config, .task = {"worker", 0}}));
//   TANDEM_RETURN_IF_ERROR(server->Start());
//   … server->target() …  // "grpc://localhost:41234"
//   server->Stop(absl::Seconds(5));
//
// One port answers TensorFlow's MasterService and WorkerService, Tandem's ParameterService (a server
// of any job may hold shards, runtime/parameter_server), gRPC health checking and server
// reflection. Every task of a cluster is a master to the clients that connect to it, and a worker
// to the other tasks. A session begins when all tasks that it uses are there; they may be started
// in any order.
#ifndef TANDEM_RUNTIME_RPC_SERVER_H_
#define TANDEM_RUNTIME_RPC_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/device/device.h"
#include "runtime/rpc/host_transfers.h"
#include "runtime/rpc/security.h"
#include "runtime/rpc/server_limits.h"

namespace tandem {

struct ServerOptions {
  ClusterConfig config;
  TaskId task;
  // Instead of the port of the task's own address. 0: one that is free.
  absl::optional<int> port;
  // Where to listen: an address in figures, or the name of a host. Empty: on the host of the task's
  // own address if that is one of this machine's, else on all interfaces.
  std::string bind;
  // "CPU:2"; empty: as TANDEM_DEVICES says, else one CPU.
  std::string devices;
  // None: as the environment says (security.h). It holds for both services, and for the calls to
  // the other tasks, which are given the same token and authorities.
  absl::optional<Security> security;
  // Serve without TLS and without a token on other interfaces than loopback. TANDEM_INSECURE=1 in
  // the environment says the same.
  bool insecure = false;
  // The folders whose files graphs may read and write (core/io/confined_files.h). None given: all
  // files of this user if the server listens on loopback alone, else no file.
  absl::optional<std::vector<std::string>> allow_paths;
  // To other tasks, and, unless the server speaks TLS, to clients.
  HostTransfers host_transfers = HostTransfers::kAuto;
  // Smaller values go to processes of this host in messages.
  size_t least_host_transfer_bytes = kLeastHostTransferBytes;
  ServerLimits limits;
  // A session that has had no call for so long, and runs no step, is closed.
  absl::Duration session_idle_limit = absl::InfiniteDuration();
  // How long a new session waits for tasks that cannot be reached.
  absl::Duration start_timeout = absl::Seconds(120);
  // How long a shard of parameters waits for the server of its replica before it goes on alone.
  absl::Duration replica_lost_after = absl::Seconds(10);
};

// Threads: any.
class Server {
 public:
  virtual ~Server() = default;

  // InvalidArgument: no such task, devices that do not exist, `bind` is no address, a folder of
  // `allow_paths` that is none, or CheckSecurity. FailedPrecondition: it would be reachable from
  // elsewhere, without TLS and without a token, and nobody said that it may.
  static absl::StatusOr<std::unique_ptr<Server>> Create(ServerOptions options);

  // Listens; returns when the first call would be answered. Unavailable: the port is taken.
  // InvalidArgument: the address is not one of this machine's. PermissionDenied: the system says
  // so.
  virtual absl::Status Start() = 0;
  // "grpc://host:port". REQUIRES: it was started.
  virtual std::string target() const = 0;
  // Refuses new sessions, steps and calls of shards, lets those that run go on for `grace`, then
  // cancels them. Shards that have snapshots write a last one. Returns when all is over. True when there were sessions.
  virtual bool Stop(absl::Duration grace) = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SERVER_H_
