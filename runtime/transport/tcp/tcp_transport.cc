#include "runtime/transport/tcp/tcp_transport.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace tandem::transport {
namespace {

// What is read at once where a header may be: a small message comes with one call, and of a large
// one no more than this is copied.
constexpr size_t kStaged = 4096;
// Parts of one vectored write: eight frames.
constexpr int kParts = 16;
constexpr uint64_t kHeader = sizeof(FrameHeader);
// Bytes that one connection reads in a round before the others get their turn.
constexpr uint64_t kRound = 1 << 20;

const char* Zeros() {
  static const std::vector<char>* const zeros = new std::vector<char>(kMaxPayload, 0);
  return zeros->data();
}

}  // namespace

TcpTransport::TcpTransport(std::vector<Peer> peers) : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  for (Peer& peer : peers) {
    Link link;
    link.rank = peer.rank;
    for (OwnedFd& socket : peer.connections) {
      auto connection = std::make_unique<Connection>();
      connection->socket = std::move(socket);
      connection->peer = static_cast<int>(links_.size());
      connection->staged.resize(kStaged);
      epoll_event event = {};
      event.events = EPOLLIN;
      event.data.ptr = connection.get();
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->socket.get(), &event);
      link.connections.push_back(std::move(connection));
    }
    links_.push_back(std::move(link));
  }
}

void TcpTransport::Send(int peer, const FrameHeader& header, absl::Span<const char> payload,
                        uint64_t id) {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [peer](const Link& link) { return link.rank == peer; });
  if (found == links_.end() || found->lost) {
    receiver_->OnSent(id);
    return;
  }
  const uint64_t total = payload.size();
  const uint64_t frames = std::max<uint64_t>(1, (total + kMaxPayload - 1) / kMaxPayload);
  frames_left_[id] = static_cast<int>(frames);
  std::vector<Connection*> used;
  for (uint64_t i = 0; i < frames; ++i) {
    Connection* best = found->connections[0].get();
    for (const auto& connection : found->connections) {
      if (connection->queued_bytes < best->queued_bytes) best = connection.get();
    }
    Outgoing frame;
    frame.header = header;
    // An announcement has no payload, and its offset is its own.
    if (header.kind == FrameKind::kData) frame.header.offset = i * kMaxPayload;
    frame.header.payload_bytes = std::min(kMaxPayload, total - i * kMaxPayload);
    frame.payload = payload.data() + i * kMaxPayload;
    frame.id = id;
    best->queued_bytes += kHeader + frame.header.payload_bytes;
    if (best->queue.empty()) used.push_back(best);
    best->queue.push_back(std::move(frame));
  }
  for (Connection* connection : used) Write(*connection);
}

void TcpTransport::Forget(uint64_t id) {
  if (frames_left_.erase(id) == 0) return;
  for (Link& link : links_) {
    for (const auto& connection : link.connections) {
      for (auto frame = connection->queue.begin(); frame != connection->queue.end();) {
        if (frame->id != id) {
          ++frame;
        } else if (frame->written == 0) {
          connection->queued_bytes -= kHeader + frame->header.payload_bytes;
          frame = connection->queue.erase(frame);
        } else {
          // The header said how much follows.
          frame->id = 0;
          frame->payload = Zeros();
          ++frame;
        }
      }
    }
  }
}

bool TcpTransport::Write(Connection& connection) {
  bool wrote = false;
  while (!connection.queue.empty()) {
    iovec parts[kParts];
    int count = 0;
    for (Outgoing& frame : connection.queue) {
      if (count + 2 > kParts) break;
      if (frame.written < kHeader) {
        parts[count++] = {reinterpret_cast<char*>(&frame.header) + frame.written,
                          kHeader - frame.written};
      }
      const uint64_t sent = frame.written > kHeader ? frame.written - kHeader : 0;
      if (frame.header.payload_bytes > sent) {
        parts[count++] = {const_cast<char*>(frame.payload) + sent,
                          frame.header.payload_bytes - sent};
      }
    }
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t result = sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (result < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        Lose(connection, errors::Unavailable("writing to it failed: ", std::strerror(errno)));
        return true;
      }
      break;
    }
    wrote = true;
    uint64_t left = static_cast<uint64_t>(result);
    connection.queued_bytes -= left;
    while (left > 0) {
      Outgoing& frame = connection.queue.front();
      const uint64_t rest = kHeader + frame.header.payload_bytes - frame.written;
      const uint64_t used = std::min(rest, left);
      frame.written += used;
      left -= used;
      if (used < rest) break;
      const uint64_t id = frame.id;
      connection.queue.pop_front();
      if (id == 0) continue;
      const auto message_left = frames_left_.find(id);
      if (message_left != frames_left_.end() && --message_left->second == 0) {
        frames_left_.erase(message_left);
        receiver_->OnSent(id);
      }
    }
  }
  Arm(connection);
  return wrote;
}

void TcpTransport::Arm(Connection& connection) {
  const bool wants_room = !connection.queue.empty();
  if (wants_room == connection.wants_room) return;
  connection.wants_room = wants_room;
  epoll_event event = {};
  event.events = EPOLLIN | (wants_room ? EPOLLOUT : 0u);
  event.data.ptr = &connection;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
}

char* TcpTransport::Destination(Connection& connection) {
  const FrameHeader& header = connection.header;
  if (!connection.is_in_scratch) {
    // Asked each time: the receive may have been given up since the last bytes came. What was read
    // so far is then lost, and so is the operation that wanted it.
    char* const place = receiver_->Place(links_[static_cast<size_t>(connection.peer)].rank, header);
    if (place != nullptr && header.offset <= header.message_bytes &&
        header.payload_bytes <= header.message_bytes - header.offset) {
      return place + header.offset;
    }
    connection.is_in_scratch = true;
    connection.scratch.resize(kMaxPayload);
  }
  return connection.scratch.data();
}

bool TcpTransport::UseStaged(Connection& connection) {
  for (;;) {
    const size_t available = connection.staged_end - connection.staged_begin;
    const char* const staged = connection.staged.data() + connection.staged_begin;
    if (!connection.in_payload) {
      if (available < kHeader) break;
      std::memcpy(&connection.header, staged, kHeader);
      if (connection.header.magic != kFrameMagic || connection.header.payload_bytes > kMaxPayload) {
        Lose(connection, errors::DataLoss("it sent what is no frame"));
        return false;
      }
      connection.staged_begin += kHeader;
      connection.in_payload = true;
      connection.payload_read = 0;
      connection.is_in_scratch = false;
      continue;
    }
    const uint64_t payload_bytes = connection.header.payload_bytes;
    if (connection.payload_read == 0 && available >= payload_bytes) {
      // All of it is here: handed over from where it lies.
      connection.in_payload = false;
      connection.staged_begin += payload_bytes;
      receiver_->OnFrame(links_[static_cast<size_t>(connection.peer)].rank, connection.header,
                         absl::MakeConstSpan(staged, payload_bytes));
      if (links_[static_cast<size_t>(connection.peer)].lost) return false;
      continue;
    }
    const uint64_t used = std::min<uint64_t>(available, payload_bytes - connection.payload_read);
    if (used != 0) {
      std::memcpy(Destination(connection) + connection.payload_read, staged, used);
      connection.staged_begin += used;
      connection.payload_read += used;
    }
    if (connection.payload_read < payload_bytes) break;
    FinishPayload(connection);
    if (links_[static_cast<size_t>(connection.peer)].lost) return false;
  }
  // What is left is part of a header.
  const size_t rest = connection.staged_end - connection.staged_begin;
  if (rest != 0) {
    std::memmove(connection.staged.data(), connection.staged.data() + connection.staged_begin,
                 rest);
  }
  connection.staged_begin = 0;
  connection.staged_end = rest;
  return true;
}

void TcpTransport::FinishPayload(Connection& connection) {
  connection.in_payload = false;
  const char* const payload = Destination(connection);
  receiver_->OnFrame(links_[static_cast<size_t>(connection.peer)].rank, connection.header,
                     absl::MakeConstSpan(payload, connection.header.payload_bytes));
}

bool TcpTransport::Read(Connection& connection) {
  uint64_t total = 0;
  while (connection.socket.is_valid() && total < kRound) {
    iovec parts[2];
    int count = 0;
    const uint64_t rest =
        connection.in_payload ? connection.header.payload_bytes - connection.payload_read : 0;
    if (rest != 0) parts[count++] = {Destination(connection) + connection.payload_read, rest};
    // With the end of a payload comes the next header.
    parts[count++] = {connection.staged.data() + connection.staged_end,
                      connection.staged.size() - connection.staged_end};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t result = recvmsg(connection.socket.get(), &message, MSG_DONTWAIT);
    if (result < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      Lose(connection, errors::Unavailable("reading from it failed: ", std::strerror(errno)));
      return true;
    }
    if (result == 0) {
      Lose(connection, errors::Unavailable("it closed the connection"));
      return true;
    }
    total += static_cast<uint64_t>(result);
    const uint64_t direct = std::min<uint64_t>(rest, static_cast<uint64_t>(result));
    connection.payload_read += direct;
    connection.staged_end += static_cast<size_t>(result) - direct;
    if (!UseStaged(connection)) return true;
    uint64_t asked = 0;
    for (int i = 0; i < count; ++i) asked += parts[i].iov_len;
    // Less than there was room for: the socket is empty.
    if (static_cast<uint64_t>(result) < asked) break;
  }
  return total != 0;
}

bool TcpTransport::Poll() {
  bool moved = false;
  for (Link& link : links_) {
    for (const auto& connection : link.connections) {
      if (link.lost) break;
      moved = Read(*connection) || moved;
      if (!connection->queue.empty() && !link.lost) moved = Write(*connection) || moved;
    }
  }
  return moved;
}

void TcpTransport::Lose(Connection& connection, const absl::Status& why) {
  Link& link = links_[static_cast<size_t>(connection.peer)];
  if (link.lost) return;
  link.lost = true;
  std::vector<uint64_t> unsent;
  for (const auto& other : link.connections) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, other->socket.get(), nullptr);
    for (const Outgoing& frame : other->queue) {
      if (frame.id != 0 && frames_left_.erase(frame.id) != 0) unsent.push_back(frame.id);
    }
    other->queue.clear();
    other->queued_bytes = 0;
  }
  for (const uint64_t id : unsent) receiver_->OnSent(id);
  receiver_->OnLost(link.rank, why);
}

bool TcpTransport::IsFlushed() const { return frames_left_.empty(); }

void TcpTransport::Close() {
  for (Link& link : links_) {
    for (const auto& connection : link.connections) {
      if (!connection->socket.is_valid()) continue;
      shutdown(connection->socket.get(), SHUT_WR);
      // Data that lies here unread would turn the end into a reset, which may overtake what was
      // sent last.
      char unread[4096];
      while (recv(connection->socket.get(), unread, sizeof(unread), MSG_DONTWAIT) > 0) {
      }
    }
  }
  for (Link& link : links_) {
    for (const auto& connection : link.connections) connection->socket.Reset();
  }
}

}  // namespace tandem::transport
