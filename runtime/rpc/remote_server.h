// RemoteServer: what a client asks of a server beside a session: is it there, what has it, forget.
// Works with TensorFlow's servers, too.
#ifndef TANDEM_RUNTIME_RPC_REMOTE_SERVER_H_
#define TANDEM_RUNTIME_RPC_REMOTE_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/rpc/security.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace tandem {

struct RemoteDevice {
  std::string name;  // "/job:worker/replica:0/task:0/device:CPU:0"
  std::string type;
  int64_t memory_limit = 0;  // Bytes.
  uint64_t incarnation = 0;  // Another one after a restart.
};

// "host:port" of "grpc://host:port", or of a bare address. InvalidArgument: it is neither.
absl::StatusOr<std::string> AddressOfTarget(absl::string_view target);

// A connection to the server at an address; it is made with the first call, and again when lost.
// REQUIRES: CheckSecurity.
std::shared_ptr<grpc::Channel> ConnectToServer(const std::string& address,
                                               const Security& security = {});

// Threads: any. Each call ends at its timeout, with DeadlineExceeded, at the latest; Unavailable:
// there is no server. Messages name the target.
class RemoteServer {
 public:
  // `security`: none: as the environment says.
  static absl::StatusOr<RemoteServer> Create(absl::string_view target,
                                             const absl::optional<Security>& security = {});

  // The devices of the server's own task.
  absl::StatusOr<std::vector<RemoteDevice>> OwnDevices(absl::Duration timeout) const;
  // Of all tasks of its cluster that answer, its own first.
  absl::StatusOr<std::vector<RemoteDevice>> ListDevices(absl::Duration timeout) const;
  // Closes all sessions of the server and forgets the variables in the containers (none: the
  // default one), also in the other tasks that fit a filter (none: all).
  absl::Status Reset(const std::vector<std::string>& containers,
                     const std::vector<std::string>& device_filters, absl::Duration timeout) const;

 private:
  RemoteServer(std::string target, std::shared_ptr<grpc::Channel> channel, bool with_tls);
  absl::Status StatusOf(const grpc::Status& status) const;

  std::string target_;
  bool with_tls_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_REMOTE_SERVER_H_
