// The transport between processes of one host, through shared memory.
//
// Each member has a segment (a memfd) with one ring for each local peer, into which that peer
// writes, and an eventfd by which it is woken when it sleeps. A Unix socket between each two stays
// open: when it breaks, the other process is gone. Nothing is left behind by a process that was
// killed.
//
// The reader takes payloads from where they lie in the ring, so that a reduction reads the peer's
// values without another copy; large messages stream through in pieces that fit into the cache.
//
// Cost: one copy by the sender and one read by the receiver; a microsecond when both spin, a wake
// when the receiver sleeps.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHM_SHM_H_
#define TANDEM_RUNTIME_TRANSPORT_SHM_SHM_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/transport/fd_passing.h"
#include "runtime/transport/handshake.h"
#include "runtime/transport/memfd_segment.h"
#include "runtime/transport/shm/ring.h"
#include "runtime/transport/transport.h"

namespace tandem::transport {

// A member that waits for its local peers to connect.
class ShmListener {
 public:
  // ResourceExhausted: no memory. Unimplemented: the system has no such memory.
  // `local_members`: of the group, on this host, this one counted.
  static absl::StatusOr<std::unique_ptr<ShmListener>> Create(int local_members);

  // By which peers find it: an abstract socket's name, which nobody guesses.
  const std::string& name() const { return name_; }

 private:
  friend class ShmConnector;

  std::string name_;
  OwnedFd listener_;
  MemfdSegment segment_;
  OwnedFd wake_;
  int rings_ = 0;
};

struct ShmAddress {
  int rank = 0;
  std::string name;  // ShmListener::name.
};

// Connects to all local peers; all of them have to call this. `locals`: the members on this host,
// this one among them, by ascending rank, alike at all of them.
// DeadlineExceeded: names who did not come. PermissionDenied: the other end is another user's.
absl::StatusOr<std::unique_ptr<Transport>> ConnectShm(std::unique_ptr<ShmListener> listener,
                                                      const Identity& identity,
                                                      const std::vector<ShmAddress>& locals,
                                                      absl::Time deadline,
                                                      const Check& check = nullptr);

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_SHM_SHM_H_
