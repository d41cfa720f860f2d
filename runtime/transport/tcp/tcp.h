// The transport between hosts: TCP, several connections a pair.
//
// A message goes out in frames, over the connection that has least to send; frames of a large one
// travel over all of them at once. Payloads are written from where they lie and read to where they
// belong; only what is reduced on arrival passes through a buffer, which stays in the cache.
//
// Both ends prove that they know the group's nonce before the first frame; nothing is encrypted.
#ifndef TANDEM_RUNTIME_TRANSPORT_TCP_TCP_H_
#define TANDEM_RUNTIME_TRANSPORT_TCP_TCP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/transport/fd_passing.h"
#include "runtime/transport/handshake.h"
#include "runtime/transport/transport.h"

namespace tandem::transport {

struct TcpOptions {
  // Where to listen: a numeric address of this machine ("127.0.0.1", "::1", "10.0.0.7") or a name
  // that means one. Peers connect to it.
  std::string host = "127.0.0.1";
  int connections = 2;  // For each pair of members; alike at all of them.
  // Unimplemented when set: bulk connections would carry in the clear what was to be encrypted.
  bool requires_tls = false;
};

class TcpListener {
 public:
  // InvalidArgument: no such address. Unimplemented: requires_tls.
  static absl::StatusOr<std::unique_ptr<TcpListener>> Create(const TcpOptions& options);

  // "10.0.0.7:40123" or "[::1]:40123".
  const std::string& address() const { return address_; }

 private:
  friend class TcpConnector;

  TcpOptions options_;
  std::string address_;
  OwnedFd listener_;
};

struct TcpAddress {
  int rank = 0;
  std::string address;  // TcpListener::address.
};

// Connects to all of `peers` (without this member); all of them have to call this.
// DeadlineExceeded: names who did not come. PermissionDenied: the other end does not know the
// nonce.
absl::StatusOr<std::unique_ptr<Transport>> ConnectTcp(std::unique_ptr<TcpListener> listener,
                                                      const Identity& identity,
                                                      const std::vector<TcpAddress>& peers,
                                                      absl::Time deadline,
                                                      const Check& check = nullptr);

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_TCP_TCP_H_
