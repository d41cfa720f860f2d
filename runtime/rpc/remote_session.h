// A session on a server: the client's end of TensorFlow's MasterService, with the interface of a
// local session. Works with TensorFlow's servers, too.
//
//   TANDEM_ASSIGN_OR_RETURN(auto session,
//                           Session::Create("grpc://localhost:2222", *scope.graph()));
//   TANDEM_ASSIGN_OR_RETURN(auto loss, session->Run({{"x", x}}, {"loss"}, {"train"}));
//
// What differs from a local session: errors come from the server, with its codes, and are
// Unavailable when it cannot be reached or is lost, Aborted when it has lost the session (make
// another one). Variables stay on the server when the session ends. devices() are those of this
// process, on which nothing runs; RemoteServer::ListDevices tells the server's. Positions of random
// ops stay on the server. A session that is destroyed closes itself there, and waits for that for
// two seconds at most.
//
// Large values of steps go through shared memory when the server is on this host, of the same user,
// and neither end uses TLS (docs/operator/servers.md). A result that came so is the client's for as
// long as its tensor lives, also when the session or the server is gone. While a client keeps more
// than a GiB of them, others come in messages.
//
// A partial run that is given up is ended on the server; one of TensorFlow's keeps it until the
// session ends. There, and when a call's answer was lost, is_over() may learn of an error that
// ended the run only with the next call.
#ifndef TANDEM_RUNTIME_RPC_REMOTE_SESSION_H_
#define TANDEM_RUNTIME_RPC_REMOTE_SESSION_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/graph/graph.h"
#include "runtime/rpc/host_transfers.h"
#include "runtime/rpc/security.h"
#include "runtime/session/session.h"

namespace tandem {

struct RemoteSessionOptions {
  bool soft_placement = false;  // See PlaceOptions.
  // Only tasks that fit one of these (partial) names of devices take part; none: all.
  std::vector<std::string> device_filters;
  // Variables of its own, instead of those that all sessions of the server share.
  bool isolated = false;
  // None: as the environment says.
  absl::optional<Security> security;
  // How long to wait for the server, and for the tasks of its cluster.
  absl::Duration start_timeout = absl::Seconds(130);
  HostTransfers host_transfers = HostTransfers::kAuto;
  // Of feeds; of results the server says.
  size_t least_host_transfer_bytes = kLeastHostTransferBytes;
  // Values go through shared memory soon after a first large one went in a message. For those who
  // want it from the first step on: the session waits so long for it when it is made.
  absl::Duration host_transfer_wait = absl::ZeroDuration();
};

// InvalidArgument: `target` is none, or the server refuses the graph. DeadlineExceeded: no server,
// or a task of its cluster, answered in time.
absl::StatusOr<std::unique_ptr<Session>> ConnectSession(const std::string& target,
                                                        const Graph& graph,
                                                        const RemoteSessionOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_REMOTE_SESSION_H_
