#include "runtime/transport/inprocess/inprocess.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/status.h"

namespace tandem::transport {

InProcessHub::InProcessHub(int size) {
  for (int i = 0; i < size; ++i) {
    boxes_.push_back(std::make_unique<Box>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  }
}

bool InProcessTransport::Put(int peer, Note note) {
  InProcessHub::Box& box = *hub_->boxes_[static_cast<size_t>(peer)];
  MutexLock lock(box.mu);
  if (!box.is_open) return false;
  box.notes.push_back(std::move(note));
  if (std::exchange(box.sleeps, false)) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(box.wake.get(), &one, sizeof(one));
  }
  return true;
}

void InProcessTransport::Send(int peer, const FrameHeader& header, absl::Span<const char> payload,
                              uint64_t id) {
  Note note;
  note.from = rank_;
  note.header = header;
  note.id = id;
  if (header.kind != FrameKind::kData) {
    note.header.payload_bytes = payload.size();
    note.text.assign(payload.data(), payload.size());
    Put(peer, std::move(note));
    receiver_->OnSent(id);
    return;
  }
  note.payload = payload;
  pending_.insert(id);
  // To one who is gone: swallowed; Poll reports the loss.
  if (!Put(peer, std::move(note))) {
    pending_.erase(id);
    receiver_->OnSent(id);
  }
}

void InProcessTransport::Forget(uint64_t id) {
  if (pending_.erase(id) == 0) return;
  for (const auto& box : hub_->boxes_) {
    MutexLock lock(box->mu);
    const auto found = std::find_if(box->notes.begin(), box->notes.end(), [&](const Note& note) {
      return note.kind == Note::Kind::kFrame && note.from == rank_ && note.id == id;
    });
    if (found != box->notes.end()) {
      box->notes.erase(found);
      return;
    }
    // At this moment somebody reads it; a copy or a reduction, so that the wait is short.
    while (box->reading == std::make_pair(rank_, id)) box->idle.Wait(box->mu);
  }
}

bool InProcessTransport::Poll() {
  constexpr int kRound = 64;
  InProcessHub::Box& own = Own();
  bool moved = false;
  for (int i = 0; i < kRound; ++i) {
    Note note;
    {
      MutexLock lock(own.mu);
      if (own.notes.empty()) break;
      note = std::move(own.notes.front());
      own.notes.pop_front();
      if (note.kind == Note::Kind::kFrame && note.header.kind == FrameKind::kData) {
        own.reading = {note.from, note.id};
      }
    }
    moved = true;
    switch (note.kind) {
      case Note::Kind::kFrame: {
        if (note.header.kind != FrameKind::kData) {
          receiver_->OnFrame(note.from, note.header, note.text);
          break;
        }
        // Message and frame are one here, but a frame has a limit, by which the mesh judges what
        // comes from outside: a large message is handed over in pieces.
        uint64_t offset = 0;
        do {
          note.header.offset = offset;
          const uint64_t bytes = std::min<uint64_t>(kMaxPayload, note.payload.size() - offset);
          note.header.payload_bytes = bytes;
          receiver_->OnFrame(note.from, note.header, note.payload.subspan(offset, bytes));
          offset += bytes;
        } while (offset < note.payload.size());
        {
          MutexLock lock(own.mu);
          own.reading = {-1, 0};
          own.idle.NotifyAll();
        }
        Note sent;
        sent.kind = Note::Kind::kSent;
        sent.id = note.id;
        Put(note.from, std::move(sent));
        break;
      }
      case Note::Kind::kSent:
        if (pending_.erase(note.id) != 0) receiver_->OnSent(note.id);
        break;
      case Note::Kind::kGone:
        receiver_->OnLost(note.from, errors::Unavailable("it ended"));
        break;
    }
  }
  return moved;
}

bool InProcessTransport::PrepareToSleep() {
  InProcessHub::Box& own = Own();
  MutexLock lock(own.mu);
  if (!own.notes.empty()) return false;
  own.sleeps = true;
  return true;
}

void InProcessTransport::Awake() {
  InProcessHub::Box& own = Own();
  MutexLock lock(own.mu);
  own.sleeps = false;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(own.wake.get(), &count, sizeof(count));
}

void InProcessTransport::Close() {
  std::deque<Note> unread;
  {
    InProcessHub::Box& own = Own();
    MutexLock lock(own.mu);
    if (!own.is_open) return;
    own.is_open = false;
    unread.swap(own.notes);
  }
  for (const Note& note : unread) {
    if (note.kind != Note::Kind::kFrame || note.header.kind != FrameKind::kData) continue;
    Note sent;
    sent.kind = Note::Kind::kSent;
    sent.id = note.id;
    Put(note.from, std::move(sent));
  }
  // What others have not read of this member's messages goes away with it.
  while (!pending_.empty()) Forget(*pending_.begin());
  for (int i = 0; i < hub_->size(); ++i) {
    if (i == rank_) continue;
    Note gone;
    gone.kind = Note::Kind::kGone;
    gone.from = rank_;
    Put(i, std::move(gone));
  }
}

}  // namespace tandem::transport
