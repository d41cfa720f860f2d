// The transport's own half of shm.h: connected peers.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHM_SHM_TRANSPORT_H_
#define TANDEM_RUNTIME_TRANSPORT_SHM_SHM_TRANSPORT_H_

#include <deque>
#include <vector>

#include "runtime/transport/fd_passing.h"
#include "runtime/transport/memfd_segment.h"
#include "runtime/transport/shm/ring.h"
#include "runtime/transport/transport.h"

namespace tandem::transport {

class ShmTransport final : public Transport {
 public:
  struct Peer {
    int rank = 0;
    OwnedFd socket;
    MemfdSegment segment;  // The peer's own.
    OwnedFd wake;          // The peer's eventfd.
    Ring in;               // In this member's segment.
    Ring out;              // In the peer's.
  };

  // `segment` and `wake` are this member's own.
  ShmTransport(MemfdSegment segment, OwnedFd wake, std::vector<Peer> peers);

  const char* name() const override { return "shared memory"; }
  void Start(FrameReceiver* receiver) override;
  void Send(int peer, const FrameHeader& header, absl::Span<const char> payload,
            uint64_t id) override;
  void Forget(uint64_t id) override;
  bool Poll() override;
  int wait_fd() const override { return epoll_.get(); }
  bool PrepareToSleep() override;
  void Awake() override;
  bool IsFlushed() const override;
  void Close() override;

 private:
  struct Message {
    FrameHeader header;
    absl::Span<const char> payload;
    uint64_t sent = 0;  // Bytes that are in the ring.
    bool begun = false;
    uint64_t id = 0;
  };
  struct Link {
    Peer peer;
    std::deque<Message> queue;
    bool hung_up = false;
    bool lost = false;
  };

  SegmentControl& Own() const { return *static_cast<SegmentControl*>(segment_.data()); }
  Link* Find(int rank);
  bool Flush(Link& link);
  bool Read(Link& link);
  // Wakes the peer, if it sleeps.
  void WakePeer(Link& link);
  void CheckSockets();

  MemfdSegment segment_;
  OwnedFd wake_;
  OwnedFd epoll_;
  std::vector<Link> links_;
  FrameReceiver* receiver_ = nullptr;
  uint32_t polls_ = 0;
};

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_SHM_SHM_TRANSPORT_H_
