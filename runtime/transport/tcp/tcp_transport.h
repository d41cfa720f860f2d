// The transport's own half of tcp.h: connected peers.
#ifndef TANDEM_RUNTIME_TRANSPORT_TCP_TCP_TRANSPORT_H_
#define TANDEM_RUNTIME_TRANSPORT_TCP_TCP_TRANSPORT_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/transport/fd_passing.h"
#include "runtime/transport/transport.h"

namespace tandem::transport {

class TcpTransport final : public Transport {
 public:
  struct Peer {
    int rank = 0;
    std::vector<OwnedFd> connections;  // Connected, not blocking.
  };

  explicit TcpTransport(std::vector<Peer> peers);

  const char* name() const override { return "TCP"; }
  void Start(FrameReceiver* receiver) override { receiver_ = receiver; }
  void Send(int peer, const FrameHeader& header, absl::Span<const char> payload,
            uint64_t id) override;
  void Forget(uint64_t id) override;
  bool Poll() override;
  int wait_fd() const override { return epoll_.get(); }
  bool PrepareToSleep() override { return true; }  // Descriptors stay readable.
  void Awake() override {}
  bool IsFlushed() const override;
  void Close() override;

 private:
  // A frame on its way out. Of one whose message was given up, zeros are sent.
  struct Outgoing {
    FrameHeader header;
    const char* payload = nullptr;
    uint64_t written = 0;  // Of header and payload together.
    uint64_t id = 0;       // 0: given up.
  };
  struct Connection {
    OwnedFd socket;
    int peer = 0;  // Index into peers_.
    std::deque<Outgoing> queue;
    uint64_t queued_bytes = 0;
    bool wants_room = false;  // Registered for EPOLLOUT.
    bool is_readable = true;
    // What was read and not used yet: headers and short payloads.
    std::vector<char> staged;
    size_t staged_begin = 0;
    size_t staged_end = 0;
    // The frame whose payload is being read.
    bool in_payload = false;
    FrameHeader header;
    uint64_t payload_read = 0;
    std::vector<char> scratch;  // For payloads that have no place of their own.
    bool is_in_scratch = false;
  };
  struct Link {
    int rank = 0;
    bool lost = false;
    std::vector<std::unique_ptr<Connection>> connections;
  };

  bool Write(Connection& connection);
  bool Read(Connection& connection);
  // Moves staged bytes into the current payload, and hands over frames that are complete. False:
  // the connection is lost.
  bool UseStaged(Connection& connection);
  // Where the rest of the payload being read belongs.
  char* Destination(Connection& connection);
  void FinishPayload(Connection& connection);
  void Arm(Connection& connection);
  void Lose(Connection& connection, const absl::Status& why);

  OwnedFd epoll_;
  std::vector<Link> links_;
  FrameReceiver* receiver_ = nullptr;
  // Frames of a message that are still queued.
  absl::flat_hash_map<uint64_t, int> frames_left_;
};

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_TCP_TCP_TRANSPORT_H_
