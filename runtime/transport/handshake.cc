#include "runtime/transport/handshake.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem::transport {
namespace {

constexpr uint32_t kHelloMagic = 0x7a6d6802;

// FNV-1a: equal in every process, unlike absl::Hash.
uint64_t HashOf(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return hash;
}

// Takes as long for a wrong nonce as for the right one.
bool IsSameSecret(const char* a, const char* b, size_t bytes) {
  unsigned difference = 0;
  for (size_t i = 0; i < bytes; ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

}  // namespace

std::string NewNonce() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

Hello MakeHello(const Identity& identity, int to, int connection) {
  Hello hello;
  hello.magic = kHelloMagic;
  hello.from = identity.rank;
  hello.to = to;
  hello.connection = connection;
  hello.generation = identity.generation;
  hello.group = HashOf(identity.group);
  std::memcpy(hello.nonce, identity.nonce.data(), std::min(identity.nonce.size(), kNonceBytes));
  return hello;
}

absl::Status CheckHello(const Identity& identity, const Hello& hello) {
  const Hello expected = MakeHello(identity, 0, 0);
  if (hello.magic != expected.magic) {
    return errors::InvalidArgument("what connected speaks another protocol");
  }
  if (!IsSameSecret(hello.nonce, expected.nonce, kNonceBytes)) {
    return errors::PermissionDenied("what connected does not know the nonce of the group '",
                                    identity.group, "'");
  }
  if (hello.group != expected.group || hello.generation != identity.generation) {
    return errors::FailedPrecondition("what connected belongs to generation ", hello.generation,
                                      " of a group; this is generation ", identity.generation,
                                      " of '", identity.group, "'");
  }
  if (hello.to != identity.rank || hello.from < 0 ||
      hello.from >= static_cast<int>(identity.members.size()) || hello.from == identity.rank) {
    return errors::InvalidArgument("member ", hello.from, " connected to member ", identity.rank,
                                   " and asked for member ", hello.to);
  }
  return absl::OkStatus();
}

std::string DescribeMembers(const Identity& identity, const std::vector<int>& ranks) {
  return absl::StrJoin(ranks, ", ", [&](std::string* out, int rank) {
    const MeshMember& member = identity.members[static_cast<size_t>(rank)];
    absl::StrAppend(out, member.name, " on ", member.host);
  });
}

}  // namespace tandem::transport
