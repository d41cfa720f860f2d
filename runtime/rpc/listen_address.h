// Where a server listens, given the address by which its cluster knows it.
#ifndef TANDEM_RUNTIME_RPC_LISTEN_ADDRESS_H_
#define TANDEM_RUNTIME_RPC_LISTEN_ADDRESS_H_

#include <string>

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

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_LISTEN_ADDRESS_H_
