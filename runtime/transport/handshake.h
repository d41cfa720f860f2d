// The first words on a bulk connection: who calls, whom, and for which generation of which group.
//
// The nonce is the group's secret: it is drawn when the group is formed and handed out over the
// control connection, which is authenticated; who does not know it is turned away.
#ifndef TANDEM_RUNTIME_TRANSPORT_HANDSHAKE_H_
#define TANDEM_RUNTIME_TRANSPORT_HANDSHAKE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/transport/mesh.h"

namespace tandem::transport {

inline constexpr size_t kNonceBytes = 32;

// Same at all members, but for the rank.
struct Identity {
  std::string group;
  int64_t generation = 0;
  std::string nonce;  // kNonceBytes bytes; see NewNonce.
  int rank = 0;
  std::vector<MeshMember> members;
};

// Asked several times a second while members are waited for: not OK ends the wait with this status.
// Null: nothing but the deadline does.
using Check = std::function<absl::Status()>;
inline constexpr absl::Duration kBetweenChecks = absl::Milliseconds(200);

// From the system's random numbers, hexadecimal.
std::string NewNonce();

// On the wire as it lies in memory; both ends compare the magic, and so the byte order.
struct Hello {
  uint32_t magic = 0;
  int32_t from = 0;
  int32_t to = 0;
  int32_t connection = 0;
  int64_t generation = 0;
  uint64_t group = 0;  // A hash of its key.
  char nonce[kNonceBytes] = {};
};

Hello MakeHello(const Identity& identity, int to, int connection);

// PermissionDenied: another nonce. FailedPrecondition: another group or generation.
// InvalidArgument: no hello, or for another member.
absl::Status CheckHello(const Identity& identity, const Hello& hello);

// "worker:1 on host-a, worker:2 on host-b": for messages about who is missing.
std::string DescribeMembers(const Identity& identity, const std::vector<int>& ranks);

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_HANDSHAKE_H_
