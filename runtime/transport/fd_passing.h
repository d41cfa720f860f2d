// Descriptors, and Unix sockets that pass them to other processes of this host.
//
// The sockets have abstract names: they are in no file system, and gone with the process that
// listens, a killed one included. Whoever is in the same network namespace can try to connect, so
// both ends ask the kernel who the other one is (CheckSameUser). They keep messages apart
// (SOCK_SEQPACKET) and never block.
//
// Threads: any; a socket may be sent to and received from at the same time.
#ifndef TANDEM_RUNTIME_TRANSPORT_FD_PASSING_H_
#define TANDEM_RUNTIME_TRANSPORT_FD_PASSING_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace tandem {

// Owns a descriptor, or none.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() { Reset(); }

  bool is_valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void Reset();
  // Gives the descriptor to the caller.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// A name that nobody guesses: "<prefix>-<32 hexadecimal digits>".
std::string NewSocketName(absl::string_view prefix);

// AlreadyExists: somebody listens there. InvalidArgument: the name is too long (100 bytes are not).
absl::StatusOr<OwnedFd> ListenOnUnixSocket(absl::string_view name);
// Unavailable: nobody listens there, as far as this process can see, or more wait there to be
// accepted than may.
absl::StatusOr<OwnedFd> ConnectToUnixSocket(absl::string_view name);
// None: nobody waits to be accepted.
absl::StatusOr<absl::optional<OwnedFd>> AcceptUnixConnection(const OwnedFd& listener);

// PermissionDenied: the process that connected, or that listened, is not this process's user; users
// of other user namespaces never are.
absl::Status CheckSameUser(const OwnedFd& socket);

// As many descriptors as one message may bring.
inline constexpr size_t kMaxPassedFds = 8;

// Sends a message, with descriptors, which stay open here. REQUIRES: the message is not empty, and
// there are at most kMaxPassedFds. Unavailable: the other end is gone. ResourceExhausted: it has
// not received the last hundreds of messages, or too many descriptors are on their way.
absl::Status SendWithFds(const OwnedFd& socket, absl::Span<const char> message,
                         absl::Span<const int> fds = {});

struct ReceivedMessage {
  size_t bytes = 0;  // Never 0.
  std::vector<OwnedFd> fds;
};
// Reads the next message into `room`. None: there is no other yet. Unavailable: the other end is
// gone, and all that it sent was received. InvalidArgument: the message is longer than `room`, or
// empty. ResourceExhausted: this process can open no more descriptors; the message is lost.
absl::StatusOr<absl::optional<ReceivedMessage>> ReceiveWithFds(const OwnedFd& socket,
                                                               absl::Span<char> room);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_TRANSPORT_FD_PASSING_H_
