// The transport between members in one process: the sender's bytes are taken from where they lie,
// by the receiver's thread; nothing is copied in between.
//
// A hub connects the members. A message is queued by pointer at the receiver, which consumes it in
// its own Poll and then tells the sender.
#ifndef TANDEM_RUNTIME_TRANSPORT_INPROCESS_INPROCESS_H_
#define TANDEM_RUNTIME_TRANSPORT_INPROCESS_INPROCESS_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/base/mutex.h"
#include "runtime/transport/fd_passing.h"
#include "runtime/transport/transport.h"

namespace tandem::transport {

// Shared by the members of one mesh. Threads: any.
class InProcessHub {
 public:
  explicit InProcessHub(int size);
  int size() const { return static_cast<int>(boxes_.size()); }

 private:
  friend class InProcessTransport;

  struct Note {
    enum class Kind { kFrame, kSent, kGone } kind = Kind::kFrame;
    int from = 0;
    FrameHeader header;
    absl::Span<const char> payload;  // kData: where the sender has it.
    std::string text;                // Of other frames, which outlive their sender.
    uint64_t id = 0;
  };
  struct Box {
    explicit Box(int fd) : wake(fd) {}
    Mutex mu;
    // The receiver is reading payloads of `from`: whoever wants to take one back waits.
    CondVar idle;
    std::deque<Note> notes ABSL_GUARDED_BY(mu);
    std::pair<int, uint64_t> reading ABSL_GUARDED_BY(mu) = {-1, 0};
    bool is_open ABSL_GUARDED_BY(mu) = true;
    bool sleeps ABSL_GUARDED_BY(mu) = false;
    const OwnedFd wake;  // An eventfd.
  };

  std::vector<std::unique_ptr<Box>> boxes_;  // One a member.
};

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<InProcessHub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank) {}
  ~InProcessTransport() override { Close(); }

  const char* name() const override { return "in-process"; }
  void Start(FrameReceiver* receiver) override { receiver_ = receiver; }
  void Send(int peer, const FrameHeader& header, absl::Span<const char> payload,
            uint64_t id) override;
  void Forget(uint64_t id) override;
  bool Poll() override;
  int wait_fd() const override { return Own().wake.get(); }
  bool PrepareToSleep() override;
  void Awake() override;
  bool IsFlushed() const override { return pending_.empty(); }
  void Close() override;

 private:
  using Note = InProcessHub::Note;

  InProcessHub::Box& Own() const { return *hub_->boxes_[static_cast<size_t>(rank_)]; }
  // False: the member is gone.
  bool Put(int peer, Note note);

  const std::shared_ptr<InProcessHub> hub_;
  const int rank_;
  FrameReceiver* receiver_ = nullptr;
  absl::flat_hash_set<uint64_t> pending_;  // Sent, and not yet taken by the peer.
};

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_INPROCESS_INPROCESS_H_
