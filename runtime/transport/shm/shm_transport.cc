#include "runtime/transport/shm/shm_transport.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/status.h"

namespace tandem::transport {
namespace {

// What a large message is cut into: several pieces are in the ring at once, so that writer and
// reader work at the same time.
constexpr uint64_t kPiece = 64 << 10;
// Records that one peer may bring in a round, before the others get their turn.
constexpr int kRound = 16;
// The sockets are asked once in so many rounds, besides whenever a thread slept.
constexpr uint32_t kSocketRounds = 256;
constexpr uint64_t kWakeMark = ~0ull;

}  // namespace

ShmTransport::ShmTransport(MemfdSegment segment, OwnedFd wake, std::vector<Peer> peers)
    : segment_(std::move(segment)), wake_(std::move(wake)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWakeMark;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  for (Peer& peer : peers) {
    event.events = EPOLLRDHUP;
    event.data.u64 = links_.size();
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, peer.socket.get(), &event);
    Link link;
    link.peer = std::move(peer);
    links_.push_back(std::move(link));
  }
}

void ShmTransport::Start(FrameReceiver* receiver) { receiver_ = receiver; }

ShmTransport::Link* ShmTransport::Find(int rank) {
  for (Link& link : links_) {
    if (link.peer.rank == rank) return &link;
  }
  return nullptr;
}

void ShmTransport::Send(int peer, const FrameHeader& header, absl::Span<const char> payload,
                        uint64_t id) {
  Link* const link = Find(peer);
  if (link == nullptr || link->lost) {
    receiver_->OnSent(id);
    return;
  }
  Message message;
  message.header = header;
  message.payload = payload;
  message.id = id;
  link->queue.push_back(std::move(message));
  if (link->queue.size() == 1) Flush(*link);
}

void ShmTransport::Forget(uint64_t id) {
  for (Link& link : links_) {
    const auto found = std::find_if(link.queue.begin(), link.queue.end(),
                                    [id](const Message& message) { return message.id == id; });
    if (found == link.queue.end()) continue;
    // Pieces in the ring are of an operation that is over: the peer drops them.
    link.queue.erase(found);
    return;
  }
}

bool ShmTransport::Flush(Link& link) {
  bool wrote = false;
  while (!link.queue.empty()) {
    Message& message = link.queue.front();
    const uint64_t total = message.payload.size();
    const uint64_t rest = total - message.sent;
    FrameHeader header = message.header;
    // A message that fits into a frame is not cut: the peer may keep it before it is asked for.
    header.payload_bytes = total <= kMaxPayload / 2 ? rest : std::min(rest, kPiece);
    // An announcement has no payload, and its offset is its own.
    if (header.kind == FrameKind::kData) header.offset = message.sent;
    if (!link.peer.out.Write(header, message.payload.data() + message.sent)) {
      link.peer.out.writer_waits().store(1, std::memory_order_relaxed);
      // Between this and the look at the room; the reader has one between making room and its look.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (!link.peer.out.HasRoomFor(header.payload_bytes)) break;
      continue;
    }
    wrote = true;
    message.sent += header.payload_bytes;
    if (message.sent < total) {
      // The peer may begin with it while the next piece is copied.
      WakePeer(link);
      continue;
    }
    const uint64_t id = message.id;
    link.queue.pop_front();
    receiver_->OnSent(id);
  }
  if (wrote) WakePeer(link);
  return wrote;
}

void ShmTransport::WakePeer(Link& link) {
  // Between what was written and the look at `sleeps`; the sleeper has one the other way round.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  SegmentControl& control = *static_cast<SegmentControl*>(link.peer.segment.data());
  if (control.sleeps.load(std::memory_order_relaxed) == 0) return;
  if (control.sleeps.exchange(0, std::memory_order_relaxed) == 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(link.peer.wake.get(), &one, sizeof(one));
}

bool ShmTransport::Read(Link& link) {
  bool read = false;
  for (int i = 0; (i < kRound || link.hung_up) && !link.lost; ++i) {
    FrameHeader header;
    absl::Span<const char> payload;
    const Ring::Found found = link.peer.in.Peek(&header, &payload);
    if (found == Ring::Found::kNothing) break;
    if (found == Ring::Found::kNonsense) {
      link.lost = true;
      link.queue.clear();
      receiver_->OnLost(link.peer.rank, errors::DataLoss("its shared memory holds no frames"));
      return true;
    }
    receiver_->OnFrame(link.peer.rank, header, payload);
    link.peer.in.Pop();
    read = true;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (link.peer.in.writer_waits().load(std::memory_order_relaxed) != 0) {
      link.peer.in.writer_waits().store(0, std::memory_order_relaxed);
      WakePeer(link);
    }
  }
  return read;
}

bool ShmTransport::Poll() {
  if (++polls_ % kSocketRounds == 0) CheckSockets();
  bool moved = false;
  for (Link& link : links_) {
    if (link.lost) continue;
    moved = Read(link) || moved;
    if (!link.queue.empty()) moved = Flush(link) || moved;
    // Everything that it sent before it ended was read.
    if (link.hung_up && !link.lost) {
      link.lost = true;
      for (const Message& message : std::exchange(link.queue, {})) receiver_->OnSent(message.id);
      receiver_->OnLost(link.peer.rank, errors::Unavailable("its process ended"));
      moved = true;
    }
  }
  return moved;
}

void ShmTransport::CheckSockets() {
  epoll_event events[16];
  const int count = epoll_wait(epoll_.get(), events, 16, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kWakeMark) {
      uint64_t value = 0;
      [[maybe_unused]] const ssize_t got = read(wake_.get(), &value, sizeof(value));
    } else if (events[i].data.u64 < links_.size()) {
      Link& link = links_[events[i].data.u64];
      link.hung_up = true;
      // Once is enough; the descriptor would stay readable for ever.
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.peer.socket.get(), nullptr);
    }
  }
}

bool ShmTransport::PrepareToSleep() {
  Own().sleeps.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Link& link : links_) {
    if (link.lost) continue;
    const bool can_write =
        !link.queue.empty() && link.peer.out.HasRoomFor(std::min<uint64_t>(
                                   link.queue.front().payload.size(), kMaxPayload / 2));
    if (!link.peer.in.IsEmpty() || can_write || link.hung_up) {
      Own().sleeps.store(0, std::memory_order_relaxed);
      return false;
    }
  }
  return true;
}

void ShmTransport::Awake() {
  Own().sleeps.store(0, std::memory_order_relaxed);
  CheckSockets();
}

bool ShmTransport::IsFlushed() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const Link& link) { return link.queue.empty(); });
}

void ShmTransport::Close() {
  for (Link& link : links_) link.peer.socket.Reset();
}

}  // namespace tandem::transport
