// ControlTransport: messages between nodes. It promises little: a message may be lost, late, arrive
// twice or out of order. Nodes are made for that.
//
// Threads: any. The callbacks run on threads of the transport, one or more at a time, and none
// after Stop has returned.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_CONTROL_TRANSPORT_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_CONTROL_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/membership.pb.h"
#include "runtime/rpc/security.h"

namespace tandem::membership {

class ControlTransport {
 public:
  using OnMessage = std::function<void(const Envelope&)>;
  // Nobody listens at this address: whoever did is gone.
  using OnRefused = std::function<void(const std::string& address)>;

  // How the job is, for whoever asks.
  using GetStatus = std::function<JobStatus()>;

  virtual ~ControlTransport() = default;

  virtual absl::Status Start(OnMessage on_message, OnRefused on_refused, GetStatus get_status) = 0;
  // Returns at once.
  virtual void Send(const std::string& address, const Envelope& envelope) = 0;
  virtual void Stop() = 0;
  // Where others reach it, host:port. REQUIRES: it was started.
  virtual std::string address() const = 0;
};

// Over gRPC, on a port of its own.
struct GrpcTransportOptions {
  // "host:port" as the cluster knows this process; port 0: one that is free.
  std::string address;
  // Where to listen, if not there.
  std::string bind;
  Security security;
  // Be reachable from elsewhere without TLS and without a token.
  bool insecure = false;
};
// InvalidArgument: no address. FailedPrecondition: it would be reachable from elsewhere, and nobody
// said that it may.
absl::StatusOr<std::unique_ptr<ControlTransport>> NewGrpcTransport(
    const GrpcTransportOptions& options);

// Asks the member at "host:port". Unavailable, DeadlineExceeded: it does not answer.
absl::StatusOr<JobStatus> AskStatus(const std::string& address, const Security& security,
                                    absl::Duration timeout);

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_CONTROL_TRANSPORT_H_
