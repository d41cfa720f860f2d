#include "runtime/rpc/listen_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <optional>

namespace tandem {
namespace {

// An IPv4 or IPv6 address without port and zone.
struct Address {
  int family = 0;
  in_addr v4 = {};
  in6_addr v6 = {};

  bool operator==(const Address& other) const {
    if (family != other.family) return false;
    return family == AF_INET ? v4.s_addr == other.v4.s_addr
                             : std::memcmp(&v6, &other.v6, sizeof(v6)) == 0;
  }
};

std::optional<Address> ParseAddress(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), &address.v4) == 1) {
    address.family = AF_INET;
    return address;
  }
  if (inet_pton(AF_INET6, text.c_str(), &address.v6) == 1) {
    address.family = AF_INET6;
    return address;
  }
  return std::nullopt;
}

std::optional<Address> FromSocketAddress(const sockaddr* from) {
  if (from == nullptr) return std::nullopt;
  Address address;
  address.family = from->sa_family;
  if (from->sa_family == AF_INET) {
    address.v4 = reinterpret_cast<const sockaddr_in*>(from)->sin_addr;
    return address;
  }
  if (from->sa_family == AF_INET6) {
    address.v6 = reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr;
    return address;
  }
  return std::nullopt;
}

std::string ToText(const Address& address) {
  char text[INET6_ADDRSTRLEN];
  const void* const bytes = address.family == AF_INET ? static_cast<const void*>(&address.v4)
                                                      : static_cast<const void*>(&address.v6);
  return inet_ntop(address.family, bytes, text, sizeof(text)) == nullptr ? "" : text;
}

bool IsLoopbackAddress(const Address& address) {
  if (address.family == AF_INET) return (ntohl(address.v4.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&address.v6) ||
         (IN6_IS_ADDR_V4MAPPED(&address.v6) && address.v6.s6_addr[12] == 127);
}

bool IsOwn(const Address& address) {
  if (IsLoopbackAddress(address)) return true;  // The whole of 127.0.0.0/8, not only 127.0.0.1.
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return false;
  bool found = false;
  for (const ifaddrs* entry = interfaces; entry != nullptr && !found; entry = entry->ifa_next) {
    const std::optional<Address> own = FromSocketAddress(entry->ifa_addr);
    found = own.has_value() && *own == address;
  }
  freeifaddrs(interfaces);
  return found;
}

}  // namespace

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  const std::optional<Address> address = ParseAddress(host);
  return address.has_value() && IsLoopbackAddress(*address);
}

std::string ListenHost(const std::string& host) {
  static constexpr char kAllInterfaces[] = "::";
  if (host == "localhost") return "127.0.0.1";
  if (const std::optional<Address> address = ParseAddress(host)) {
    return IsOwn(*address) ? host : kAllInterfaces;
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* results = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &results) != 0) return kAllInterfaces;
  std::string own;
  for (const addrinfo* entry = results; entry != nullptr && own.empty(); entry = entry->ai_next) {
    const std::optional<Address> address = FromSocketAddress(entry->ai_addr);
    // An address that is good on one link only cannot be listened on without naming the link.
    if (!address.has_value() || IsLoopbackAddress(*address) ||
        (address->family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6))) {
      continue;
    }
    if (IsOwn(*address)) own = ToText(*address);
  }
  freeaddrinfo(results);
  return own.empty() ? kAllInterfaces : own;
}

}  // namespace tandem
