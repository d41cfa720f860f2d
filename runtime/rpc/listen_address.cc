#include "runtime/rpc/listen_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

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

absl::StatusOr<std::string> ResolveBindAddress(const std::string& text) {
  if (text == "localhost") return std::string("127.0.0.1");
  const bool has_brackets = text.size() > 2 && text.front() == '[' && text.back() == ']';
  const std::string host = has_brackets ? text.substr(1, text.size() - 2) : text;
  if (ParseAddress(host).has_value()) return host;
  // Lookups take seconds where there is no answer: what cannot be a name is not looked up.
  const bool can_be_name =
      host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") ==
          std::string::npos &&
      host.find_first_not_of("0123456789.") != std::string::npos;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* results = nullptr;
  const int error = can_be_name ? getaddrinfo(host.c_str(), nullptr, &hints, &results) : EAI_NONAME;
  std::string address;
  if (error == 0) {
    for (const addrinfo* entry = results; entry != nullptr && address.empty();
         entry = entry->ai_next) {
      if (const std::optional<Address> found = FromSocketAddress(entry->ai_addr)) {
        address = ToText(*found);
      }
    }
    freeaddrinfo(results);
  }
  if (address.empty()) {
    return errors::InvalidArgument(
        "bind: '", text,
        "' is neither an address (127.0.0.1, ::1, 0.0.0.0, ::) nor the name of a host: ",
        error != 0 ? gai_strerror(error) : "it has no address");
  }
  return address;
}

absl::StatusOr<OwnedFd> ListenOn(const std::string& host, int port) {
  const std::optional<Address> address = ParseAddress(host);
  if (!address.has_value()) {
    return errors::InvalidArgument("cannot listen on '", host, "': it is no address in figures");
  }
  sockaddr_storage storage = {};
  socklen_t length = 0;
  if (address->family == AF_INET) {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    v4->sin_addr = address->v4;
    length = sizeof(*v4);
  } else {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    v6->sin6_addr = address->v6;
    length = sizeof(*v6);
  }
  OwnedFd listener(socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // All interfaces, on a machine without IPv6.
  if (!listener.is_valid() && errno == EAFNOSUPPORT && host == "::") {
    return ListenOn("0.0.0.0", port);
  }
  int error = listener.is_valid() ? 0 : errno;
  if (error == 0) {
    const int on = 1;
    const int off = 0;
    // Connections of an earlier server that are still closing do not matter.
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Connections that are accepted have it, too: what is sent leaves at once.
    setsockopt(listener.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (address->family == AF_INET6) {
      setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 ||
        listen(listener.get(), SOMAXCONN) != 0) {
      error = errno;
    }
  }
  if (error == 0) return listener;
  const std::string what = absl::StrCat(
      "cannot listen on ", address->family == AF_INET ? host : absl::StrCat("[", host, "]"), ":",
      port, ": ");
  switch (error) {
    case EADDRINUSE:
      return errors::Unavailable(what, "the port is taken (", std::strerror(error),
                                 "); by another server, or an earlier one that has not ended?");
    case EADDRNOTAVAIL:
      return errors::InvalidArgument(what, "no interface of this machine has this address (",
                                     std::strerror(error), ")");
    case EACCES:
    case EPERM:
      return errors::PermissionDenied(
          what, std::strerror(error),
          port > 0 && port < 1024 ? "; ports below 1024 are for privileged users" : "");
    default:
      return errors::Unavailable(what, std::strerror(error));
  }
}

absl::Status CheckCanListen(const std::string& host, int port) {
  return ListenOn(host, port).status();
}

absl::StatusOr<int> PortOf(const OwnedFd& listener) {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(storage);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return absl::ErrnoToStatus(errno, "the port of a socket is not known");
  }
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

}  // namespace tandem
