// ServiceClient: calls of ParameterService (proto/parameter_service.proto) at one server.
//
// A call that the server did not answer, or whose answer was lost, is sent again, after pauses that
// grow to half a second, until its deadline or its cancellation. So what is called has to be such
// that it may come twice; all of the service's methods are.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SERVICE_CLIENT_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SERVICE_CLIENT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/kernel/cancellation.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "runtime/parameter_server/call_faults.h"
#include "runtime/rpc/call_set.h"
#include "runtime/rpc/security.h"
#include "runtime/rpc/server_link.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace tandem::parameter_server {

// PermissionDenied: this process does not call the address, "host:port", on behalf of others.
using AddressCheck = std::function<absl::Status(const std::string& address)>;

struct ServiceCallOptions {
  absl::Time deadline = absl::InfiniteFuture();  // With all repetitions.
  // May be null; outlives the call. Its reason is the call's error.
  CancellationManager* cancellation = nullptr;
  // Once, so that the caller learns soon that the server cannot be reached.
  bool once = false;
};

// Threads: any. Lifetime: when it goes it ends its calls and waits for them, so it may not be a
// call's `done` that lets go of it last.
class ServiceClient {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)>;

  // REQUIRES: CheckSecurity. `faults`: null: none. `least_lent_bytes`: link() is for values of so
  // many; none: there is no link. InvalidArgument: no "host:port".
  static absl::StatusOr<std::shared_ptr<ServiceClient>> Create(
      const std::string& address, const Security& security, std::shared_ptr<CallFaults> faults,
      absl::optional<size_t> least_lent_bytes = absl::nullopt);
  ~ServiceClient();

  const std::string& address() const { return address_; }
  // Through which large values go to and from a server of this host; null: all go in messages.
  ServerLink* link() const { return link_.get(); }

  // `method`: a constant, "Call". `done` runs once, outside locks, on a thread of gRPC or at once.
  //
  // Unavailable: the server could not be reached, and for how long it was tried. DeadlineExceeded:
  // it did not answer in time. The cancellation's reason. Other errors are the server's. All but
  // the last name the server.
  void Call(const char* method, grpc::ByteBuffer request, const ServiceCallOptions& options,
            Done done);
  // The same, waiting. Not for gRPC's threads.
  absl::StatusOr<grpc::ByteBuffer> CallAndWait(const char* method, grpc::ByteBuffer request,
                                               const ServiceCallOptions& options);
  // With messages without large tensors.
  absl::Status CallAndWait(const char* method, const google::protobuf::MessageLite& request,
                           const ServiceCallOptions& options,
                           google::protobuf::MessageLite* response);

 private:
  class RepeatedCall;

  ServiceClient(std::string address, const Security& security, std::shared_ptr<CallFaults> faults,
                absl::optional<size_t> least_lent_bytes);

  const std::string address_;
  const bool with_tls_;
  const std::shared_ptr<CallFaults> faults_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<CallSet> calls_;
  const std::unique_ptr<ServerLink> link_;
  std::atomic<bool> ends_{false};  // Nothing is sent again.
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SERVICE_CLIENT_H_
