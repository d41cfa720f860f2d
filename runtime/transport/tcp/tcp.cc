#include "runtime/transport/tcp/tcp.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/transport/tcp/tcp_transport.h"

namespace tandem::transport {
namespace {

// The last address of each name that means several is as good as the first.
struct Resolved {
  sockaddr_storage value = {};
  socklen_t size = 0;
  int family = AF_INET;
};

absl::StatusOr<Resolved> Resolve(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return errors::InvalidArgument("'", host, "' is no address of a host: ", gai_strerror(error));
  }
  Resolved resolved;
  std::memcpy(&resolved.value, found->ai_addr, found->ai_addrlen);
  resolved.size = found->ai_addrlen;
  resolved.family = found->ai_family;
  freeaddrinfo(found);
  return resolved;
}

absl::StatusOr<Resolved> ResolveAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return errors::InvalidArgument("'", address, "' is not host:port");
  }
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return Resolve(host, address.substr(colon + 1));
}

void SetOptions(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

// Says or reads a hello, which is short: it goes through or it does not.
absl::Status WriteHello(int fd, const Hello& hello) {
  const ssize_t sent = send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);
  if (sent == sizeof(hello)) return absl::OkStatus();
  return errors::Unavailable("the connection broke before it was used: ",
                             sent < 0 ? std::strerror(errno) : "cut off");
}

// False: it has not all come yet.
absl::StatusOr<bool> ReadHello(int fd, Hello* hello) {
  // Left in the socket until it is complete.
  const ssize_t got = recv(fd, hello, sizeof(*hello), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    return errors::Unavailable("the connection broke before it was used: ",
                               got < 0 ? std::strerror(errno) : "closed");
  }
  if (got < static_cast<ssize_t>(sizeof(*hello))) return false;
  [[maybe_unused]] const ssize_t taken = recv(fd, hello, sizeof(*hello), MSG_DONTWAIT);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Create(const TcpOptions& options) {
  if (options.requires_tls) {
    return errors::Unimplemented(
        "TLS is configured, and connections for collectives cannot encrypt yet: they would send in "
        "the clear. Use shared memory (all members on one host), or leave TLS out");
  }
  if (options.connections < 1 || options.connections > 64) {
    return errors::InvalidArgument(options.connections,
                                   " TCP connections for each pair; 1 to 64 can be");
  }
  TANDEM_ASSIGN_OR_RETURN(const Resolved resolved, Resolve(options.host, "0"));
  auto result = std::make_unique<TcpListener>();
  result->options_ = options;
  result->listener_ =
      OwnedFd(socket(resolved.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = result->listener_.get();
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&resolved.value), resolved.size) != 0 ||
      listen(fd, 128) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return errors::InvalidArgument("cannot listen on '", options.host,
                                   "' for collectives: ", std::strerror(errno),
                                   "; it has to be an address of this machine");
  }
  const uint16_t port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  const bool has_colons = absl::StrContains(options.host, ':');
  result->address_ = has_colons ? absl::StrCat("[", options.host, "]:", port)
                                : absl::StrCat(options.host, ":", port);
  return result;
}

// One formation. Every member connects to those of lower rank and is connected to by the others.
class TcpConnector {
 public:
  TcpConnector(std::unique_ptr<TcpListener> listener, const Identity& identity,
               const std::vector<TcpAddress>& peers, absl::Time deadline, const Check& check)
      : listener_(std::move(listener)),
        identity_(identity),
        peers_(peers),
        deadline_(deadline),
        check_(check) {
    for (const TcpAddress& peer : peers_) {
      TcpTransport::Peer entry;
      entry.rank = peer.rank;
      entry.connections.resize(static_cast<size_t>(listener_->options_.connections));
      done_.push_back(std::move(entry));
    }
  }

  absl::StatusOr<std::unique_ptr<Transport>> Run();

 private:
  struct Waiting {
    OwnedFd socket;
    int rank = -1;  // -1: it called, and has not said who it is.
    int connection = 0;
  };

  absl::Status Connect(const TcpAddress& peer, int connection);
  // Moves the connection to done_ when the other end said who it is.
  absl::StatusOr<bool> Advance(Waiting& waiting);
  OwnedFd* Slot(int rank, int connection);
  std::vector<int> Missing() const;

  std::unique_ptr<TcpListener> listener_;
  const Identity& identity_;
  const std::vector<TcpAddress>& peers_;
  const absl::Time deadline_;
  const Check& check_;
  std::vector<TcpTransport::Peer> done_;
  std::vector<Waiting> waiting_;
};

OwnedFd* TcpConnector::Slot(int rank, int connection) {
  for (TcpTransport::Peer& peer : done_) {
    if (peer.rank != rank || connection < 0 ||
        connection >= static_cast<int>(peer.connections.size())) {
      continue;
    }
    OwnedFd& slot = peer.connections[static_cast<size_t>(connection)];
    return slot.is_valid() ? nullptr : &slot;
  }
  return nullptr;
}

std::vector<int> TcpConnector::Missing() const {
  std::vector<int> missing;
  for (const TcpTransport::Peer& peer : done_) {
    const bool is_there = std::all_of(peer.connections.begin(), peer.connections.end(),
                                      [](const OwnedFd& fd) { return fd.is_valid(); });
    if (!is_there) missing.push_back(peer.rank);
  }
  return missing;
}

absl::Status TcpConnector::Connect(const TcpAddress& peer, int connection) {
  TANDEM_ASSIGN_OR_RETURN(const Resolved resolved, ResolveAddress(peer.address));
  for (;;) {
    if (check_) TANDEM_RETURN_IF_ERROR(check_());
    OwnedFd fd(socket(resolved.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.is_valid()) return absl::ErrnoToStatus(errno, "a socket cannot be made");
    int error = 0;
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&resolved.value), resolved.size) != 0) {
      error = errno;
    }
    if (error == EINPROGRESS) {
      const absl::Time until = std::min(deadline_, absl::Now() + absl::Seconds(10));
      pollfd wait = {fd.get(), POLLOUT, 0};
      while (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kBetweenChecks))) <= 0 &&
             absl::Now() < until) {
        if (check_) TANDEM_RETURN_IF_ERROR(check_());
      }
      socklen_t size = sizeof(error);
      error = ETIMEDOUT;
      if ((wait.revents & POLLOUT) != 0 || (wait.revents & POLLERR) != 0) {
        getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) {
      SetOptions(fd.get());
      TANDEM_RETURN_IF_ERROR(WriteHello(fd.get(), MakeHello(identity_, peer.rank, connection)));
      waiting_.push_back({std::move(fd), peer.rank, connection});
      return absl::OkStatus();
    }
    if (absl::Now() > deadline_) {
      return errors::DeadlineExceeded(DescribeMembers(identity_, {peer.rank}),
                                      " cannot be reached at ", peer.address,
                                      " for collectives: ", std::strerror(error));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

absl::StatusOr<bool> TcpConnector::Advance(Waiting& waiting) {
  Hello hello;
  TANDEM_ASSIGN_OR_RETURN(const bool came, ReadHello(waiting.socket.get(), &hello));
  if (!came) return false;
  TANDEM_RETURN_IF_ERROR(CheckHello(identity_, hello));
  if (waiting.rank >= 0 && (hello.from != waiting.rank || hello.connection != waiting.connection)) {
    return errors::InvalidArgument("member ", hello.from, " answered");
  }
  OwnedFd* const slot = Slot(hello.from, hello.connection);
  if (slot == nullptr) {
    return errors::InvalidArgument("connection ", hello.connection, " of member ", hello.from,
                                   " is not expected");
  }
  if (waiting.rank < 0) {
    SetOptions(waiting.socket.get());
    TANDEM_RETURN_IF_ERROR(
        WriteHello(waiting.socket.get(), MakeHello(identity_, hello.from, hello.connection)));
  }
  *slot = std::move(waiting.socket);
  return true;
}

absl::StatusOr<std::unique_ptr<Transport>> TcpConnector::Run() {
  for (const TcpAddress& peer : peers_) {
    for (int i = 0; peer.rank < identity_.rank && i < listener_->options_.connections; ++i) {
      TANDEM_RETURN_IF_ERROR(Connect(peer, i));
    }
  }
  while (!Missing().empty()) {
    std::vector<pollfd> fds = {{listener_->listener_.get(), POLLIN, 0}};
    for (const Waiting& waiting : waiting_) fds.push_back({waiting.socket.get(), POLLIN, 0});
    const absl::Duration left = deadline_ - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return errors::DeadlineExceeded(
          DescribeMembers(identity_, Missing()),
          " did not connect for collectives: the process is not there, forms another generation of "
          "the group, or cannot reach ",
          listener_->address_);
    }
    if (check_) TANDEM_RETURN_IF_ERROR(check_());
    poll(fds.data(), fds.size(),
         static_cast<int>(absl::ToInt64Milliseconds(std::min(left, kBetweenChecks)) + 1));
    for (size_t i = 0; i < waiting_.size();) {
      const absl::StatusOr<bool> advanced = Advance(waiting_[i]);
      if (!advanced.ok()) {
        if (waiting_[i].rank >= 0) {
          return WithContext(advanced.status(), DescribeMembers(identity_, {waiting_[i].rank}));
        }
        // Who has no business here, or belongs to an older generation, is turned away.
        TANDEM_LOG(Warning) << "group '" << identity_.group << "': " << advanced.status();
      }
      if (!advanced.ok() || *advanced) {
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    for (;;) {
      constexpr size_t kMaxCallers = 1024;  // Strangers among them, until the deadline.
      OwnedFd caller(
          accept4(listener_->listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!caller.is_valid()) break;
      if (waiting_.size() < kMaxCallers) waiting_.push_back({std::move(caller), -1, 0});
    }
  }
  return std::make_unique<TcpTransport>(std::move(done_));
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectTcp(std::unique_ptr<TcpListener> listener,
                                                      const Identity& identity,
                                                      const std::vector<TcpAddress>& peers,
                                                      absl::Time deadline, const Check& check) {
  return TcpConnector(std::move(listener), identity, peers, deadline, check).Run();
}

}  // namespace tandem::transport
