#include "runtime/transport/shm/shm.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/transport/shm/shm_transport.h"

namespace tandem::transport {

absl::StatusOr<std::unique_ptr<ShmListener>> ShmListener::Create(int local_members) {
  auto result = std::make_unique<ShmListener>();
  result->rings_ = std::max(1, local_members - 1);
  result->name_ = NewSocketName("tandem-mesh");
  TANDEM_ASSIGN_OR_RETURN(result->listener_, ListenOnUnixSocket(result->name_));
  TANDEM_ASSIGN_OR_RETURN(result->segment_,
                          MemfdSegment::Create("tandem-mesh", SegmentBytes(result->rings_)));
  auto* const control = new (result->segment_.data()) SegmentControl;
  control->rings.store(static_cast<uint32_t>(result->rings_));
  control->magic.store(kSegmentMagic);
  result->wake_ = OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!result->wake_.is_valid()) return absl::ErrnoToStatus(errno, "an eventfd cannot be made");
  return result;
}

// One formation. Every member connects to those of lower rank and is connected to by the others;
// each side says hello and passes its segment and its eventfd.
class ShmConnector {
 public:
  ShmConnector(std::unique_ptr<ShmListener> listener, const Identity& identity,
               const std::vector<ShmAddress>& locals, absl::Time deadline, const Check& check)
      : listener_(std::move(listener)),
        identity_(identity),
        locals_(locals),
        deadline_(deadline),
        check_(check) {}

  absl::StatusOr<std::unique_ptr<Transport>> Run();

 private:
  absl::Status SendHello(const OwnedFd& socket, int to) {
    const Hello hello = MakeHello(identity_, to, 0);
    return SendWithFds(socket,
                       absl::MakeConstSpan(reinterpret_cast<const char*>(&hello), sizeof(hello)),
                       {listener_->segment_.fd().get(), listener_->wake_.get()});
  }
  // Reads the hello of the other end, if it is there; then the peer is complete.
  absl::StatusOr<bool> ReadHello(OwnedFd& socket, int expected);
  // Which ring of `owner`'s segment is written by `writer`.
  int RingOf(int owner, int writer) const;
  std::vector<int> Missing() const;

  std::unique_ptr<ShmListener> listener_;
  const Identity& identity_;
  const std::vector<ShmAddress>& locals_;
  const absl::Time deadline_;
  const Check& check_;
  std::vector<ShmTransport::Peer> peers_;
};

int ShmConnector::RingOf(int owner, int writer) const {
  int ring = 0;
  for (const ShmAddress& local : locals_) {
    if (local.rank == owner) continue;
    if (local.rank == writer) return ring;
    ++ring;
  }
  return ring;
}

std::vector<int> ShmConnector::Missing() const {
  std::vector<int> missing;
  for (const ShmAddress& local : locals_) {
    const bool is_there =
        local.rank == identity_.rank ||
        std::any_of(peers_.begin(), peers_.end(),
                    [&](const ShmTransport::Peer& peer) { return peer.rank == local.rank; });
    if (!is_there) missing.push_back(local.rank);
  }
  return missing;
}

absl::StatusOr<bool> ShmConnector::ReadHello(OwnedFd& socket, int expected) {
  Hello hello;
  TANDEM_ASSIGN_OR_RETURN(
      absl::optional<ReceivedMessage> message,
      ReceiveWithFds(socket, absl::MakeSpan(reinterpret_cast<char*>(&hello), sizeof(hello))));
  if (!message.has_value()) return false;
  if (message->bytes != sizeof(hello) || message->fds.size() != 2) {
    return errors::InvalidArgument("what connected speaks another protocol");
  }
  TANDEM_RETURN_IF_ERROR(CheckHello(identity_, hello));
  TANDEM_RETURN_IF_ERROR(CheckSameUser(socket));
  const std::vector<int> missing = Missing();
  if (expected >= 0 ? hello.from != expected
                    : std::find(missing.begin(), missing.end(), hello.from) == missing.end()) {
    return errors::InvalidArgument("member ", hello.from, " is not expected here");
  }
  ShmTransport::Peer peer;
  peer.rank = hello.from;
  TANDEM_ASSIGN_OR_RETURN(peer.segment, MemfdSegment::Open(std::move(message->fds[0]),
                                                           SegmentBytes(listener_->rings_)));
  peer.segment.fd().Reset();
  auto* const control = static_cast<SegmentControl*>(peer.segment.data());
  if (control->magic.load() != kSegmentMagic ||
      control->rings.load() != static_cast<uint32_t>(listener_->rings_)) {
    return errors::InvalidArgument("the shared memory of member ", hello.from,
                                   " is laid out for another group");
  }
  peer.wake = std::move(message->fds[1]);
  peer.in = Ring(listener_->segment_.data(), listener_->rings_, RingOf(identity_.rank, peer.rank));
  peer.out = Ring(peer.segment.data(), listener_->rings_, RingOf(peer.rank, identity_.rank));
  // The caller of a connection spoke first; the one who was called answers.
  if (expected < 0) TANDEM_RETURN_IF_ERROR(SendHello(socket, peer.rank));
  peer.socket = std::move(socket);
  peers_.push_back(std::move(peer));
  return true;
}

absl::StatusOr<std::unique_ptr<Transport>> ShmConnector::Run() {
  struct Called {
    OwnedFd socket;
    int rank = 0;
  };
  std::vector<Called> called;
  for (const ShmAddress& local : locals_) {
    if (local.rank >= identity_.rank) continue;
    for (;;) {
      absl::StatusOr<OwnedFd> socket = ConnectToUnixSocket(local.name);
      if (socket.ok()) {
        TANDEM_RETURN_IF_ERROR(SendHello(*socket, local.rank));
        called.push_back({*std::move(socket), local.rank});
        break;
      }
      if (check_) TANDEM_RETURN_IF_ERROR(check_());
      // Its queue of callers may be full for a moment.
      if (absl::Now() > deadline_) {
        return WithContext(socket.status(), DescribeMembers(identity_, {local.rank}));
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  std::vector<OwnedFd> callers;  // Accepted, and have not said who they are.
  while (!Missing().empty()) {
    std::vector<pollfd> fds = {{listener_->listener_.get(), POLLIN, 0}};
    for (const Called& call : called) fds.push_back({call.socket.get(), POLLIN, 0});
    for (const OwnedFd& caller : callers) fds.push_back({caller.get(), POLLIN, 0});
    const absl::Duration left = deadline_ - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return errors::DeadlineExceeded(
          "the shared memory of ", DescribeMembers(identity_, Missing()),
          " did not come: the process is not there, or forms another generation of the group");
    }
    if (check_) TANDEM_RETURN_IF_ERROR(check_());
    poll(fds.data(), fds.size(),
         static_cast<int>(absl::ToInt64Milliseconds(std::min(left, kBetweenChecks)) + 1));
    for (size_t i = 0; i < called.size();) {
      absl::StatusOr<bool> read = ReadHello(called[i].socket, called[i].rank);
      if (!read.ok()) {
        return WithContext(read.status(), DescribeMembers(identity_, {called[i].rank}));
      }
      if (*read) {
        called.erase(called.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    for (size_t i = 0; i < callers.size();) {
      const absl::StatusOr<bool> read = ReadHello(callers[i], -1);
      // Who has no business here, or belongs to an older generation, is turned away.
      if (!read.ok()) {
        TANDEM_LOG(Warning) << "group '" << identity_.group << "': " << read.status();
      }
      if (!read.ok() || *read) {
        callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    for (;;) {
      TANDEM_ASSIGN_OR_RETURN(absl::optional<OwnedFd> caller,
                              AcceptUnixConnection(listener_->listener_));
      if (!caller.has_value()) break;
      callers.push_back(*std::move(caller));
    }
  }
  listener_->segment_.fd().Reset();
  return std::make_unique<ShmTransport>(std::move(listener_->segment_), std::move(listener_->wake_),
                                        std::move(peers_));
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectShm(std::unique_ptr<ShmListener> listener,
                                                      const Identity& identity,
                                                      const std::vector<ShmAddress>& locals,
                                                      absl::Time deadline, const Check& check) {
  return ShmConnector(std::move(listener), identity, locals, deadline, check).Run();
}

}  // namespace tandem::transport
