// Where a server listens, given the address by which its cluster knows it.
#ifndef TANDEM_RUNTIME_RPC_LISTEN_ADDRESS_H_
#define TANDEM_RUNTIME_RPC_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/transport/fd_passing.h"

namespace tandem {

// True for "localhost" and for addresses of the loopback interface, in figures: 127.0.0.0/8, ::1.
// Names are not looked up: what they mean is not this machine's to say.
bool IsLoopback(const std::string& host);

// `host` as an address if it is one of this machine's: an address in figures of one of its
// interfaces, "localhost", or a name of such an address (then names are looked up, which may take
// seconds). Otherwise, as behind a router or in a container, all interfaces, of both IP versions:
// "::". A name of a loopback address stands for all interfaces, too: many systems know themselves
// by one, and others by another.
std::string ListenHost(const std::string& host);

// What a user wrote as the address to listen on, in figures: an address, also in brackets,
// "localhost", or a name, which is looked up. InvalidArgument: it is none of these.
absl::StatusOr<std::string> ResolveBindAddress(const std::string& text);

// A socket that listens on the address (in figures) and port (0: one that is free). Unavailable:
// the port is taken. InvalidArgument: no interface of this machine has the address.
// PermissionDenied: this user may not. Messages name both.
absl::StatusOr<OwnedFd> ListenOn(const std::string& host, int port);
// Whether that can be done, by trying.
absl::Status CheckCanListen(const std::string& host, int port);
// The port that it listens on.
absl::StatusOr<int> PortOf(const OwnedFd& listener);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_LISTEN_ADDRESS_H_
