#include "runtime/transport/fd_passing.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>

#include "absl/strings/str_format.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// Connections that wait to be accepted.
constexpr int kBacklog = 64;

absl::Status FromErrno(int error, absl::string_view what) {
  return absl::ErrnoToStatus(error, what);
}

struct Address {
  sockaddr_un value;
  socklen_t size;
};

absl::StatusOr<Address> AbstractAddress(absl::string_view name) {
  Address address = {};
  address.value.sun_family = AF_UNIX;
  // A name whose first byte is 0 is an abstract one, and ends where its length says.
  if (name.empty() || name.size() > sizeof(address.value.sun_path) - 1) {
    return errors::InvalidArgument("a Unix socket's name has ", name.size(), " bytes; 1 to ",
                                   sizeof(address.value.sun_path) - 1, " can be");
  }
  std::memcpy(address.value.sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

absl::StatusOr<OwnedFd> NewSocket() {
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return FromErrno(errno, "a Unix socket cannot be made");
  return fd;
}

}  // namespace

void OwnedFd::Reset() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0) close(fd);
}

std::string NewSocketName(absl::string_view prefix) {
  std::random_device random;
  return absl::StrFormat("%s-%08x%08x%08x%08x", prefix, random(), random(), random(), random());
}

absl::StatusOr<OwnedFd> ListenOnUnixSocket(absl::string_view name) {
  TANDEM_ASSIGN_OR_RETURN(const Address address, AbstractAddress(name));
  TANDEM_ASSIGN_OR_RETURN(OwnedFd fd, NewSocket());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size) != 0) {
    if (errno == EADDRINUSE) {
      return errors::AlreadyExists("somebody listens on Unix socket '", name, "' already");
    }
    return FromErrno(errno, absl::StrCat("cannot listen on Unix socket '", name, "'"));
  }
  if (listen(fd.get(), kBacklog) != 0) {
    return FromErrno(errno, absl::StrCat("cannot listen on Unix socket '", name, "'"));
  }
  return fd;
}

absl::StatusOr<OwnedFd> ConnectToUnixSocket(absl::string_view name) {
  TANDEM_ASSIGN_OR_RETURN(const Address address, AbstractAddress(name));
  TANDEM_ASSIGN_OR_RETURN(OwnedFd fd, NewSocket());
  int result = 0;
  do {
    result = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.value), address.size);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    return errors::Unavailable("cannot connect to Unix socket '", name,
                               "': ", std::strerror(errno));
  }
  return fd;
}

absl::StatusOr<absl::optional<OwnedFd>> AcceptUnixConnection(const OwnedFd& listener) {
  OwnedFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.is_valid()) return absl::optional<OwnedFd>(std::move(fd));
  switch (errno) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
      return absl::optional<OwnedFd>();
    default:
      return FromErrno(errno, "a connection to a Unix socket cannot be accepted");
  }
}

absl::Status CheckSameUser(const OwnedFd& socket) {
  ucred other = {};
  socklen_t size = sizeof(other);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &other, &size) != 0) {
    return FromErrno(errno, "the kernel does not say who the other end of a Unix socket is");
  }
  if (other.uid != geteuid()) {
    return errors::PermissionDenied("the other end of a Unix socket is a process of user ",
                                    other.uid, ", this one is of user ", geteuid());
  }
  return absl::OkStatus();
}

absl::Status SendWithFds(const OwnedFd& socket, absl::Span<const char> message,
                         absl::Span<const int> fds) {
  if (message.empty() || fds.size() > kMaxPassedFds) {
    return errors::InvalidArgument("a message of ", message.size(), " bytes with ", fds.size(),
                                   " descriptors cannot be sent");
  }
  // sendmsg does not write to what it sends.
  iovec part = {const_cast<char*>(message.data()), message.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPassedFds * sizeof(int))] = {};
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return absl::OkStatus();
  switch (errno) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return errors::Unavailable("the other end of a Unix socket is gone");
    case EAGAIN:
    case ENOBUFS:
    case ETOOMANYREFS:
      return errors::ResourceExhausted(
          "the other end of a Unix socket does not receive its messages: ", std::strerror(errno));
    default:
      return FromErrno(errno, "sending over a Unix socket");
  }
}

absl::StatusOr<absl::optional<ReceivedMessage>> ReceiveWithFds(const OwnedFd& socket,
                                                               absl::Span<char> room) {
  iovec part = {room.data(), room.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPassedFds * sizeof(int))] = {};
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t received = 0;
  do {
    received = recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    if (errno == EAGAIN) return absl::optional<ReceivedMessage>();
    if (errno == ECONNRESET) return errors::Unavailable("the other end of a Unix socket is gone");
    return FromErrno(errno, "receiving from a Unix socket");
  }
  ReceivedMessage message;
  message.bytes = static_cast<size_t>(received);
  // First of all, so that none is left open whatever else is wrong.
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      message.fds.emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    return errors::ResourceExhausted(
        "descriptors that another process passed were lost: this one has too many open files, or "
        "there were more than ",
        kMaxPassedFds);
  }
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    return errors::InvalidArgument("a message over a Unix socket has more than ", room.size(),
                                   " bytes");
  }
  // The end of the stream looks like an empty message, and nobody sends those.
  if (received == 0) return errors::Unavailable("the other end of a Unix socket is gone");
  return absl::optional<ReceivedMessage>(std::move(message));
}

}  // namespace tandem
