#include "runtime/transport/mesh.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/threads/cpu_count.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/spin.h"
#include "runtime/threads/start_thread.h"

namespace tandem::transport {
namespace {

using std::chrono::steady_clock;

constexpr auto kTick = std::chrono::milliseconds(250);
// Operations that were given up and whose late messages are still recognized.
constexpr size_t kForgotten = 4096;
// How long a mesh that ends waits for its last messages to leave.
constexpr auto kFlushTime = std::chrono::seconds(1);
// Where a thread may be in the way of the very process that it waits for, it gives the core away
// between looks. If that took so long, the core went to a stranger, for a whole slice of time: the
// next waits sleep at once.
constexpr std::chrono::microseconds kStrangersSlice{800};
constexpr int kWaitsWithoutYield = 64;
// Longest text of a peer's error that is believed.
constexpr size_t kMaxText = 4096;

FrameHeader DataHeader(int64_t generation, const Tag& tag, const Label& label, uint64_t bytes) {
  FrameHeader header;
  header.kind = FrameKind::kData;
  header.generation = generation;
  header.tag = tag;
  header.message_bytes = bytes;
  header.label = label;
  return header;
}

}  // namespace

Mesh::Mesh(MeshOptions options, std::vector<std::unique_ptr<Transport>> transports,
           std::vector<int> of_peer, Observer* observer)
    : options_(std::move(options)),
      transports_(std::move(transports)),
      observer_(observer),
      kick_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      peers_(options_.members.size()) {
  const SteadyTime now = steady_clock::now();
  {
    MutexLock lock(mu_);
    for (size_t i = 0; i < peers_.size(); ++i) {
      peers_[i].heard = now;
      peers_[i].sent = now;
      if (static_cast<int>(i) == options_.rank) continue;
      peers_[i].transport = transports_[static_cast<size_t>(of_peer[i])].get();
    }
    for (const auto& transport : transports_) transport->Start(this);
  }
  thread_ = StartThread("mesh", [this] { Work(); });
}

void Mesh::StopThread() {
  {
    MutexLock lock(mu_);
    ends_ = true;
    KickLeaderLocked();
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

Mesh::~Mesh() {
  StopThread();
  MutexLock lock(mu_);
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].transport == nullptr || !broken_.ok()) continue;
    SendControlLocked(static_cast<int>(i), FrameKind::kGoodbye, {}, {}, 0, absl::StatusCode::kOk,
                      "");
  }
  const auto end = steady_clock::now() + kFlushTime;
  for (;;) {
    bool flushed = true;
    for (const auto& transport : transports_) {
      transport->Poll();
      flushed = flushed && transport->IsFlushed();
    }
    if (flushed || steady_clock::now() > end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const auto& transport : transports_) transport->Close();
}

std::string Mesh::Describe(int rank) const {
  const MeshMember& member = options_.members[static_cast<size_t>(rank)];
  return absl::StrCat(member.name, " on ", member.host);
}

absl::Status Mesh::status() const {
  MutexLock lock(mu_);
  return broken_;
}

// Sending and receiving.

void Mesh::Send(int peer, const Tag& tag, const Label& label, absl::Span<const char> bytes,
                std::shared_ptr<Listener> listener, uint32_t index) {
  {
    MutexLock lock(mu_);
    if (!broken_.ok() || IsForgottenLocked(tag.operation)) return;
    PendingSend send;
    send.peer = peer;
    send.header = DataHeader(options_.generation, tag, label, bytes.size());
    send.bytes = bytes;
    send.completion = {std::move(listener), index};
    Peer& p = peers_[static_cast<size_t>(peer)];
    const auto announced = p.announced.find(tag);
    if (announced != p.announced.end()) {
      const Label theirs = announced->second.first;
      const bool fits = announced->second.second == bytes.size();
      p.announced.erase(announced);
      if (!(theirs == label) || !fits) {
        NoteMismatchLocked(peer, tag, theirs);
      } else {
        StartSendLocked(std::move(send));
      }
    } else if (bytes.size() <= kEagerBytes) {
      StartSendLocked(std::move(send));
    } else {
      p.waiting[tag] = std::move(send);
    }
  }
  RunEvents();
}

void Mesh::StartSendLocked(PendingSend send) {
  const uint64_t id = next_id_++;
  Peer& peer = peers_[static_cast<size_t>(send.peer)];
  peer.sent = steady_clock::now();
  Transport* const transport = peer.transport;
  PendingSend& kept = sending_[id] = std::move(send);
  // The transport may report the end, and so erase the entry, before it returns.
  const FrameHeader header = kept.header;
  const absl::Span<const char> bytes = kept.bytes;
  transport->Send(kept.peer, header, bytes, id);
}

void Mesh::SendControlLocked(int peer, FrameKind kind, const Tag& tag, const Label& label,
                             uint64_t message_bytes, absl::StatusCode code,
                             absl::string_view text) {
  Peer& p = peers_[static_cast<size_t>(peer)];
  if (p.transport == nullptr || p.left) return;
  PendingSend send;
  send.peer = peer;
  send.header = DataHeader(options_.generation, tag, label, text.size());
  send.header.kind = kind;
  send.header.code = static_cast<uint8_t>(code);
  // An announcement has no payload; the offset says how long the message may be.
  if (kind == FrameKind::kAnnounce) send.header.offset = message_bytes;
  send.text = std::make_unique<const std::string>(text);
  send.bytes = absl::MakeConstSpan(send.text->data(), send.text->size());
  StartSendLocked(std::move(send));
}

void Mesh::Receive(int peer, const Tag& tag, const Label& label, const Sink& sink,
                   std::shared_ptr<Listener> listener, uint32_t index) {
  {
    MutexLock lock(mu_);
    if (!broken_.ok() || IsForgottenLocked(tag.operation)) return;
    Peer& p = peers_[static_cast<size_t>(peer)];
    const auto early = p.early.find(tag);
    if (early != p.early.end()) {
      const std::string& bytes = early->second.bytes;
      const bool fits = early->second.label == label && bytes.size() == sink.bytes;
      if (!fits) {
        NoteMismatchLocked(peer, tag, early->second.label);
      } else {
        if (bytes.empty()) {
          // Nothing to hand over.
        } else if (sink.place != nullptr) {
          std::memcpy(sink.place, bytes.data(), bytes.size());
        } else {
          listener->Consume(index, 0, absl::MakeConstSpan(bytes.data(), bytes.size()));
        }
        Event event;
        event.completion = {std::move(listener), index};
        events_.push_back(std::move(event));
      }
      p.early_bytes -= bytes.size();
      p.early.erase(early);
    } else {
      PendingReceive& receive = p.receives[tag];
      receive.label = label;
      receive.sink = sink;
      receive.completion = {std::move(listener), index};
      if (sink.bytes > kEagerBytes) {
        SendControlLocked(peer, FrameKind::kAnnounce, tag, label, sink.bytes, absl::StatusCode::kOk,
                          "");
      }
    }
  }
  RunEvents();
}

void Mesh::NoteMismatchLocked(int peer, const Tag& tag, const Label& theirs) {
  Event event;
  event.kind = Event::Kind::kArrival;
  event.peer = peer;
  event.tag = tag;
  event.label = theirs;
  events_.push_back(std::move(event));
}

// What transports report. They are called with mu_ held, and call back from inside.

char* Mesh::Place(int peer, const FrameHeader& header) {
  if (header.kind != FrameKind::kData || header.generation != options_.generation) return nullptr;
  Peer& p = peers_[static_cast<size_t>(peer)];
  const auto found = p.receives.find(header.tag);
  if (found == p.receives.end()) return nullptr;
  const PendingReceive& receive = found->second;
  if (!(receive.label == header.label) || receive.sink.bytes != header.message_bytes) {
    return nullptr;
  }
  return receive.sink.place;
}

void Mesh::OnFrame(int peer, const FrameHeader& header, absl::Span<const char> payload) {
  if (header.magic != kFrameMagic || header.payload_bytes > kMaxPayload ||
      payload.size() != header.payload_bytes) {
    LoseLocked(peer, errors::DataLoss("it sent what is no frame"));
    return;
  }
  // From a group that is over.
  if (header.generation != options_.generation) return;
  Peer& p = peers_[static_cast<size_t>(peer)];
  p.heard = steady_clock::now();
  const auto text = [&payload] {
    return absl::string_view(payload.data(), std::min(payload.size(), kMaxText));
  };
  switch (header.kind) {
    case FrameKind::kData:
      OnDataLocked(peer, header, payload);
      return;
    case FrameKind::kAnnounce:
      OnAnnounceLocked(peer, header);
      return;
    case FrameKind::kAbort: {
      Event event;
      event.kind = Event::Kind::kAbort;
      event.peer = peer;
      event.tag = header.tag;
      event.status = absl::Status(static_cast<absl::StatusCode>(header.code), text());
      if (event.status.ok()) event.status = errors::Aborted(text());
      events_.push_back(std::move(event));
      return;
    }
    case FrameKind::kLost: {
      // Members tell each other what they heard: who was the first to say it is enough.
      const bool is_report = absl::StrContains(text(), "(reported by ");
      BreakLocked(errors::Unavailable(
                      text(), is_report ? "" : absl::StrCat(" (reported by ", Describe(peer), ")")),
                  true);
      return;
    }
    case FrameKind::kGoodbye:
      p.left = true;
      return;
    case FrameKind::kHeartbeat:
      return;
  }
  LoseLocked(peer, errors::DataLoss("it sent a frame of an unknown kind"));
}

void Mesh::OnDataLocked(int peer, const FrameHeader& header, absl::Span<const char> payload) {
  if (header.offset > header.message_bytes ||
      payload.size() > header.message_bytes - header.offset) {
    LoseLocked(peer, errors::DataLoss("it sent a frame that reaches beyond its message"));
    return;
  }
  if (!broken_.ok() || IsForgottenLocked(header.tag.operation)) return;
  Peer& p = peers_[static_cast<size_t>(peer)];
  const auto found = p.receives.find(header.tag);
  if (found == p.receives.end()) {
    if (payload.size() != header.message_bytes || payload.size() > kEagerBytes) {
      LoseLocked(peer, errors::DataLoss("it sent a large message that nobody asked for"));
      return;
    }
    if (p.early_bytes + payload.size() > kMaxUnclaimedBytes) {
      LoseLocked(peer, errors::ResourceExhausted("it sent ", kMaxUnclaimedBytes,
                                                 " bytes that nobody here asked for"));
      return;
    }
    Early& early = p.early[header.tag];
    p.early_bytes += payload.size() - early.bytes.size();
    early.label = header.label;
    early.bytes.assign(payload.data(), payload.size());
    early.order = next_order_++;
    NoteMismatchLocked(peer, header.tag, header.label);
    return;
  }
  PendingReceive& receive = found->second;
  if (!(receive.label == header.label) || receive.sink.bytes != header.message_bytes) {
    if (!std::exchange(receive.mismatched, true)) {
      NoteMismatchLocked(peer, header.tag, header.label);
    }
    return;
  }
  if (payload.empty()) {
    // A message without bytes.
  } else if (receive.sink.place == nullptr) {
    receive.completion.listener->Consume(receive.completion.index, header.offset, payload);
  } else if (receive.sink.place + header.offset != payload.data()) {
    std::memcpy(receive.sink.place + header.offset, payload.data(), payload.size());
  }
  receive.received += payload.size();
  if (receive.received < receive.sink.bytes) return;
  Event event;
  event.completion = std::move(receive.completion);
  p.receives.erase(found);
  events_.push_back(std::move(event));
}

void Mesh::OnAnnounceLocked(int peer, const FrameHeader& header) {
  if (!broken_.ok() || IsForgottenLocked(header.tag.operation)) return;
  Peer& p = peers_[static_cast<size_t>(peer)];
  const auto found = p.waiting.find(header.tag);
  if (found == p.waiting.end()) {
    constexpr size_t kMaxAnnounced = 1 << 20;
    if (p.announced.size() >= kMaxAnnounced) {
      LoseLocked(peer, errors::ResourceExhausted("it asked for ", kMaxAnnounced,
                                                 " messages that nobody here sends"));
      return;
    }
    p.announced[header.tag] = {header.label, header.offset};
    NoteMismatchLocked(peer, header.tag, header.label);
    return;
  }
  if (!(found->second.header.label == header.label) ||
      found->second.bytes.size() != header.offset) {
    NoteMismatchLocked(peer, header.tag, header.label);
    return;
  }
  PendingSend send = std::move(found->second);
  p.waiting.erase(found);
  StartSendLocked(std::move(send));
}

void Mesh::OnSent(uint64_t id) {
  const auto found = sending_.find(id);
  if (found == sending_.end()) return;
  if (found->second.completion.listener != nullptr) {
    Event event;
    event.completion = std::move(found->second.completion);
    events_.push_back(std::move(event));
  }
  sending_.erase(found);
}

void Mesh::OnLost(int peer, const absl::Status& why) {
  Peer& p = peers_[static_cast<size_t>(peer)];
  if (p.left) return;
  p.left = true;  // There is no way to tell it.
  BreakLocked(errors::Unavailable(Describe(peer), " is lost: ", why.message()), true);
}

void Mesh::LoseLocked(int peer, const absl::Status& why) {
  Peer& p = peers_[static_cast<size_t>(peer)];
  if (p.left) return;
  BreakLocked(errors::Unavailable(Describe(peer), " is lost: ", why.message()), true);
  p.left = true;
}

// Ends.

void Mesh::Forget(const OperationKey& operation) {
  MutexLock lock(mu_);
  if (forgotten_.emplace(operation, true).second) forgotten_order_.push_back(operation);
  if (forgotten_order_.size() > kForgotten) {
    forgotten_.erase(forgotten_order_.front());
    forgotten_order_.pop_front();
  }
  DropLocked(operation);
}

void Mesh::DropLocked(const OperationKey& operation) {
  const auto is_of = [&operation](const auto& entry) { return entry.first.operation == operation; };
  for (Peer& peer : peers_) {
    for (const auto& [tag, early] : peer.early) {
      if (tag.operation == operation) peer.early_bytes -= early.bytes.size();
    }
    absl::erase_if(peer.receives, is_of);
    absl::erase_if(peer.early, is_of);
    absl::erase_if(peer.announced, is_of);
    absl::erase_if(peer.waiting, is_of);
  }
  for (auto sending = sending_.begin(); sending != sending_.end();) {
    const auto entry = sending++;
    const PendingSend& send = entry->second;
    if (send.completion.listener == nullptr || !(send.header.tag.operation == operation)) continue;
    peers_[static_cast<size_t>(send.peer)].transport->Forget(entry->first);
    sending_.erase(entry);
  }
}

void Mesh::SendAbort(const OperationKey& operation, const absl::Status& why) {
  {
    MutexLock lock(mu_);
    if (!broken_.ok()) return;
    for (int i = 0; i < size(); ++i) {
      SendControlLocked(i, FrameKind::kAbort, Tag{operation, 0}, {}, 0, why.code(),
                        why.message().substr(0, kMaxText));
    }
  }
  RunEvents();
}

void Mesh::Break(const absl::Status& why) {
  {
    MutexLock lock(mu_);
    BreakLocked(why, true);
  }
  RunEvents();
}

void Mesh::BreakLocked(const absl::Status& why, bool tell) {
  if (!broken_.ok() || ends_) return;
  broken_ = why;
  for (auto sending = sending_.begin(); sending != sending_.end();) {
    const auto entry = sending++;
    if (entry->second.completion.listener == nullptr) continue;
    peers_[static_cast<size_t>(entry->second.peer)].transport->Forget(entry->first);
    sending_.erase(entry);
  }
  for (Peer& peer : peers_) {
    peer.receives.clear();
    peer.early.clear();
    peer.early_bytes = 0;
    peer.announced.clear();
    peer.waiting.clear();
  }
  for (int i = 0; tell && i < size(); ++i) {
    SendControlLocked(i, FrameKind::kLost, {}, {}, 0, why.code(),
                      why.message().substr(0, kMaxText));
  }
  Event event;
  event.kind = Event::Kind::kBroken;
  event.status = why;
  events_.push_back(std::move(event));
}

std::vector<Unclaimed> Mesh::UnclaimedOf(const OperationKey& operation) const {
  std::vector<Unclaimed> found;
  MutexLock lock(mu_);
  for (size_t i = 0; i < peers_.size(); ++i) {
    for (const auto& [tag, early] : peers_[i].early) {
      if (tag.operation == operation) found.push_back({static_cast<int>(i), tag, early.label});
    }
    for (const auto& [tag, announced] : peers_[i].announced) {
      if (tag.operation == operation) {
        found.push_back({static_cast<int>(i), tag, announced.first});
      }
    }
  }
  return found;
}

bool Mesh::LastUnclaimedOf(int peer, Unclaimed* found) const {
  MutexLock lock(mu_);
  const Peer& p = peers_[static_cast<size_t>(peer)];
  uint64_t last = 0;
  for (const auto& [tag, early] : p.early) {
    if (early.order < last) continue;
    last = early.order;
    *found = {peer, tag, early.label};
  }
  if (last == 0 && !p.announced.empty()) {
    const auto& [tag, announced] = *p.announced.begin();
    *found = {peer, tag, announced.first};
    return true;
  }
  return last != 0;
}

// Progress.

bool Mesh::PollLocked() {
  bool moved = false;
  for (const auto& transport : transports_) moved = transport->Poll() || moved;
  return moved;
}

bool Mesh::Poll() {
  bool moved = false;
  bool has_events = false;
  {
    MutexLock lock(mu_);
    moved = PollLocked();
    has_events = !events_.empty();
  }
  if (has_events) RunEvents();
  return moved || has_events;
}

void Mesh::RunEvents() {
  // What a callback posts may end at once: that is left to the loop that called it, which would
  // else go as deep as a schedule is long.
  static thread_local const Mesh* running = nullptr;
  if (running == this) return;
  const Mesh* const outer = std::exchange(running, this);
  for (;;) {
    std::vector<Event> events;
    {
      MutexLock lock(mu_);
      if (events_.empty()) break;
      events.swap(events_);
    }
    for (Event& event : events) {
      switch (event.kind) {
        case Event::Kind::kMessage:
          event.completion.listener->OnMessage(event.completion.index);
          break;
        case Event::Kind::kArrival:
          observer_->OnArrival(event.peer, event.tag, event.label);
          break;
        case Event::Kind::kAbort:
          observer_->OnAbort(event.peer, event.tag.operation, event.status);
          break;
        case Event::Kind::kBroken:
          observer_->OnBroken(event.status);
          break;
      }
    }
  }
  running = outer;
}

bool Mesh::DriveUntil(const std::atomic<bool>& done, absl::Time deadline) {
  if (done.load(std::memory_order_acquire)) return true;
  const bool crowded = options_.members_on_host > CpuCount();
  const SteadyTime start = steady_clock::now();
  constexpr absl::Duration kLongest = absl::Hours(24 * 365);
  const SteadyTime end =
      start + absl::ToChronoNanoseconds(std::min(deadline - absl::Now(), kLongest));
  {
    MutexLock lock(mu_);
    ++spinners_;
    // Nobody has to wake the sleeping thread for what this one finds itself.
    if (leader_is_armed_) {
      leader_is_armed_ = false;
      for (const auto& transport : transports_) transport->Awake();
    }
  }
  if (waits_without_yield_.load() > 0) waits_without_yield_.fetch_sub(1);
  SteadyTime last_moved = start;
  bool result = false;
  for (;;) {
    const bool moved = Poll();
    if (done.load(std::memory_order_acquire)) {
      result = true;
      break;
    }
    const SteadyTime now = steady_clock::now();
    if (moved) {
      last_moved = now;
      continue;
    }
    if (now >= end) break;
    if (now - last_moved < kShortSpin && !crowded) {
      SpinPause();
      continue;
    }
    if (now - last_moved < kShortSpin && waits_without_yield_.load() <= 0) {
      sched_yield();
      if (steady_clock::now() - now > kStrangersSlice) {
        waits_without_yield_.store(kWaitsWithoutYield);
      }
      continue;
    }
    {
      ScopedRunTokenRelease released;
      Sleep(&done, end);
    }
    last_moved = steady_clock::now();
  }
  MutexLock lock(mu_);
  --spinners_;
  if (leader_sleeps_ && !leader_is_armed_ && spinners_ == 0) {
    leader_is_armed_ = PrepareTransportsLocked();
    if (!leader_is_armed_) KickLeaderLocked();
  }
  if (followers_ > 0 || holds_ > 0) changed_.NotifyAll();
  return result;
}

bool Mesh::PrepareTransportsLocked() {
  for (const auto& transport : transports_) {
    if (!transport->PrepareToSleep()) return false;
  }
  return true;
}

void Mesh::KickLeaderLocked() {
  if (!leader_sleeps_) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(kick_.get(), &one, sizeof(one));
}

void Mesh::Wake() {
  MutexLock lock(mu_);
  KickLeaderLocked();
  if (followers_ > 0) changed_.NotifyAll();
}

void Mesh::Sleep(const std::atomic<bool>* done, SteadyTime deadline) {
  std::vector<pollfd> fds;
  mu_.Lock();
  const auto wait =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - steady_clock::now());
  if (wait.count() <= 0 || ends_ || (done != nullptr && done->load(std::memory_order_acquire)) ||
      !events_.empty()) {
    mu_.Unlock();
    return;
  }
  if (leader_sleeps_) {
    ++followers_;
    // This thread spins no more: the sleeping one has to hear of what comes.
    if (!leader_is_armed_) {
      leader_is_armed_ = PrepareTransportsLocked();
      if (!leader_is_armed_) KickLeaderLocked();
    }
    changed_.WaitUntil(mu_, absl::Now() + absl::FromChrono(wait));
    --followers_;
    mu_.Unlock();
    return;
  }
  leader_sleeps_ = true;
  leader_is_armed_ = PrepareTransportsLocked();
  const bool sleeps = leader_is_armed_;
  if (sleeps) {
    fds.push_back({kick_.get(), POLLIN, 0});
    for (const auto& transport : transports_) fds.push_back({transport->wait_fd(), POLLIN, 0});
    mu_.Unlock();
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
    poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(milliseconds + 1, 60000)));
    mu_.Lock();
    if ((fds[0].revents & POLLIN) != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = read(kick_.get(), &count, sizeof(count));
    }
  }
  leader_sleeps_ = false;
  leader_is_armed_ = false;
  for (const auto& transport : transports_) transport->Awake();
  if (followers_ > 0) changed_.NotifyAll();
  mu_.Unlock();
}

void Mesh::AddHold() {
  MutexLock lock(mu_);
  if (holds_++ == 0) changed_.NotifyAll();
}

void Mesh::ReleaseHold() {
  MutexLock lock(mu_);
  --holds_;
}

void Mesh::Work() {
  SteadyTime next_tick = steady_clock::now();
  SteadyTime last_moved = next_tick;
  for (;;) {
    const SteadyTime now = steady_clock::now();
    const bool tick = now >= next_tick;
    bool has_holds = false;
    {
      MutexLock lock(mu_);
      if (ends_) return;
      if (tick) {
        PollLocked();
        TickLocked(now);
        next_tick = now + kTick;
      }
      has_holds = holds_ > 0;
    }
    if (tick) {
      RunEvents();
      observer_->OnTick();
    }
    if (has_holds) {
      if (Poll()) {
        last_moved = steady_clock::now();
      } else if (now - last_moved < kShortSpin && RunTokens::Process().HasFree()) {
        SpinPause();  // A core is idle.
      } else {
        Sleep(nullptr, next_tick);
        last_moved = steady_clock::now();
      }
      continue;
    }
    MutexLock lock(mu_);
    if (ends_ || holds_ > 0) continue;
    changed_.WaitUntil(mu_, absl::Now() + absl::FromChrono(next_tick - steady_clock::now()));
  }
}

void Mesh::TickLocked(SteadyTime now) {
  if (!broken_.ok()) return;
  const auto heartbeat = absl::ToChronoNanoseconds(options_.heartbeat);
  const auto lost_after = absl::ToChronoNanoseconds(options_.lost_after);
  const bool slept = now - last_tick_ > heartbeat;
  last_tick_ = now;
  for (size_t i = 0; i < peers_.size() && broken_.ok(); ++i) {
    Peer& peer = peers_[i];
    if (peer.transport == nullptr) continue;
    const int rank = static_cast<int>(i);
    if (peer.left) {
      // Twice in a row: what it sent before it left may still be on its way over another way.
      if (peer.receives.empty() && peer.waiting.empty()) {
        peer.ticks_missed = 0;
      } else if (++peer.ticks_missed >= 2) {
        BreakLocked(errors::Unavailable(Describe(rank), " has left the group"), true);
      }
      continue;
    }
    // A process that was stopped itself cannot judge others.
    if (slept) peer.heard = now;
    if (now - peer.heard > lost_after) {
      LoseLocked(rank,
                 errors::Unavailable("nothing was heard of it for ",
                                     absl::FormatDuration(options_.lost_after),
                                     ": it is stopped, or the network between does not work"));
      continue;
    }
    if (now - peer.sent >= heartbeat / 2 && sending_.find(peer.heartbeat) == sending_.end()) {
      peer.heartbeat = next_id_;
      SendControlLocked(rank, FrameKind::kHeartbeat, {}, {}, 0, absl::StatusCode::kOk, "");
    }
  }
}

}  // namespace tandem::transport
