// Mesh: messages with tags between the members of one generation of a group, over transports.
//
//   mesh->Receive(/*peer=*/1, tag, label, {.place = buffer}, listener, 0);
//   mesh->Send(1, tag, label, bytes, listener, 1);
//   mesh->DriveUntil(done, deadline);
//
// Matching  A receive takes the message of its peer with its tag, whichever was there first. Labels
//           of both must be equal; the observer hears when they are not.
// Flow      Messages up to kEagerBytes are sent at once and kept at the receiver until it asks for
//           them; larger ones start when the receive was posted, which the receiver announces.
// Threads   Any thread may call any method. Listeners and the observer are called outside locks, on
//           whichever thread moved the bytes: that of a caller in DriveUntil, that of Send, or the
//           mesh's own. One thread sleeps for all (on the transports' descriptors); while a caller
//           waits it is the caller, so that no thread has to wake another.
// Lifetime  Memory of a message may go away after its listener was called, or after Forget.
// Failure   A peer is lost when its connection breaks or when it was silent for `lost_after`. Then
//           the mesh is broken, and says so to all others: every later call fails with the same
//           status, Unavailable, which names the member and its host. The mesh of the next
//           generation is another object. Frames of other generations are dropped.
#ifndef TANDEM_RUNTIME_TRANSPORT_MESH_H_
#define TANDEM_RUNTIME_TRANSPORT_MESH_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/mutex.h"
#include "runtime/transport/fd_passing.h"
#include "runtime/transport/frame.h"
#include "runtime/transport/transport.h"

namespace tandem::transport {

// Messages up to this size are sent before anybody asked for them.
inline constexpr uint64_t kEagerBytes = 64 << 10;
// What a member keeps of messages that nobody asked for yet; a peer that sends more is in error.
inline constexpr uint64_t kMaxUnclaimedBytes = 256 << 20;

// Takes the payload of a message, piece by piece, where it lies.
class Consumer {
 public:
  virtual ~Consumer() = default;
  // Bytes [offset, offset + bytes.size()) of message `index`. Pieces of one message come one at a
  // time, in any order. Runs under the mesh's lock: computes, and calls nothing.
  virtual void Consume(uint32_t index, uint64_t offset, absl::Span<const char> bytes) = 0;
};

// Where a message goes: to `place`, or, when that is null, piece by piece to the listener.
struct Sink {
  char* place = nullptr;
  uint64_t bytes = 0;
};

class Listener : public Consumer {
 public:
  // Message `index` was sent or received. The numbers are those of whoever posted it.
  virtual void OnMessage(uint32_t index) = 0;
};

class Observer {
 public:
  virtual ~Observer() = default;
  // A message came whose receive was not posted yet, or was posted with another label.
  virtual void OnArrival(int peer, const Tag& tag, const Label& theirs) = 0;
  // A peer gave an operation up.
  virtual void OnAbort(int peer, const OperationKey& operation, const absl::Status& why) = 0;
  // The mesh is broken; called once.
  virtual void OnBroken(const absl::Status& why) = 0;
  // Called about every quarter of a second by the mesh's thread.
  virtual void OnTick() = 0;
};

struct MeshMember {
  std::string name;  // "worker:1".
  std::string host;
};

struct MeshOptions {
  std::vector<MeshMember> members;  // By rank.
  int rank = 0;
  int64_t generation = 0;
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration lost_after = absl::Seconds(3);
  // Members that share this host's cores, this one counted: with more than cores, a waiting thread
  // gives its core away instead of spinning on it.
  int members_on_host = 1;
};

// An arrived message that nobody asked for.
struct Unclaimed {
  int peer = 0;
  Tag tag;
  Label label;
};

class Mesh final : public FrameReceiver {
 public:
  // `of_peer[rank]`: which of `transports` reaches that member (ignored for the own rank).
  // `observer` outlives the mesh.
  Mesh(MeshOptions options, std::vector<std::unique_ptr<Transport>> transports,
       std::vector<int> of_peer, Observer* observer);
  // Says goodbye to the peers. REQUIRES: nobody is in a method.
  ~Mesh() override;

  // Ends the mesh's own thread, so that nothing calls the observer any more but who is in a method.
  // The destructor does it, too.
  void StopThread();

  int size() const { return static_cast<int>(options_.members.size()); }
  int rank() const { return options_.rank; }
  const MeshMember& member(int rank) const { return options_.members[static_cast<size_t>(rank)]; }
  // "worker:1 on host-a".
  std::string Describe(int rank) const;
  // Not OK: broken.
  absl::Status status() const;

  // A broken mesh does nothing here: whoever posts looks at status(), or is told by the observer.
  void Send(int peer, const Tag& tag, const Label& label, absl::Span<const char> bytes,
            std::shared_ptr<Listener> listener, uint32_t index);
  void Receive(int peer, const Tag& tag, const Label& label, const Sink& sink,
               std::shared_ptr<Listener> listener, uint32_t index);

  // For an operation that failed (of one that ended well nothing is left): lets go of all its
  // messages. Their memory is not touched after this returned, and
  // listeners are not called any more, except for calls that are running. What arrives for it later
  // is dropped, as long as the mesh remembers (the last 4,096 of them).
  void Forget(const OperationKey& operation);
  // Tells peers that an operation failed here.
  void SendAbort(const OperationKey& operation, const absl::Status& why);
  // Breaks the mesh, here and at all peers.
  void Break(const absl::Status& why);

  // What came for an operation that was not posted here.
  std::vector<Unclaimed> UnclaimedOf(const OperationKey& operation) const;
  // The newest message of a peer that nobody here asked for: what it is doing meanwhile.
  bool LastUnclaimedOf(int peer, Unclaimed* found) const;

  // Moves bytes on this thread until `done` is true (true is returned) or `deadline` passes.
  // Whoever sets `done` from elsewhere calls Wake.
  bool DriveUntil(const std::atomic<bool>& done, absl::Time deadline);
  void Wake();
  // The mesh's own thread moves bytes as long as there is a hold: operations that nobody waits for.
  void AddHold();
  void ReleaseHold();

  // One round, on this thread. True when anything moved.
  bool Poll();

  // FrameReceiver, for transports.
  char* Place(int peer, const FrameHeader& header) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void OnFrame(int peer, const FrameHeader& header,
               absl::Span<const char> payload) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void OnSent(uint64_t id) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void OnLost(int peer, const absl::Status& why) override ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  struct Completion {
    std::shared_ptr<Listener> listener;
    uint32_t index = 0;
  };
  struct PendingSend {
    int peer = 0;
    FrameHeader header;
    absl::Span<const char> bytes;
    Completion completion;
    std::unique_ptr<const std::string> text;  // Holds `bytes` of the mesh's own messages.
  };
  struct PendingReceive {
    Label label;
    Sink sink;
    Completion completion;
    uint64_t received = 0;
    bool mismatched = false;
  };
  // A message that came before its receive.
  struct Early {
    Label label;
    std::string bytes;
    uint64_t order = 0;  // Of arrival.
  };
  struct Peer {
    Transport* transport = nullptr;
    bool left = false;
    int ticks_missed = 0;    // Since it left, with messages still expected of it.
    uint64_t heartbeat = 0;  // The id of the last one sent.
    SteadyTime heard;
    SteadyTime sent;
    absl::flat_hash_map<Tag, PendingReceive> receives;
    absl::flat_hash_map<Tag, Early> early;
    absl::flat_hash_map<Tag, std::pair<Label, uint64_t>> announced;  // Receives posted there.
    absl::flat_hash_map<Tag, PendingSend> waiting;                   // For an announcement.
    uint64_t early_bytes = 0;
  };
  // What has to be called when the lock is not held.
  struct Event {
    enum class Kind { kMessage, kArrival, kAbort, kBroken } kind = Kind::kMessage;
    Completion completion;
    int peer = 0;
    Tag tag;
    Label label;
    absl::Status status;
  };

  void StartSendLocked(PendingSend send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendControlLocked(int peer, FrameKind kind, const Tag& tag, const Label& label,
                         uint64_t message_bytes, absl::StatusCode code, absl::string_view text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDataLocked(int peer, const FrameHeader& header, absl::Span<const char> payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnAnnounceLocked(int peer, const FrameHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteMismatchLocked(int peer, const Tag& tag, const Label& theirs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropLocked(const OperationKey& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BreakLocked(const absl::Status& why, bool tell) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives up a peer whose connection is there. It is told like the others: it may hear what it
  // cannot answer. For transports, and so without the analysis, as OnLost.
  void LoseLocked(int peer, const absl::Status& why) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  bool IsForgottenLocked(const OperationKey& operation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return forgotten_.find(operation) != forgotten_.end();
  }
  bool PollLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs what has gathered. REQUIRES: the lock is not held.
  void RunEvents();
  // Sleeps until something may have come, or `done` may have changed, at most until `deadline`.
  void Sleep(const std::atomic<bool>* done, SteadyTime deadline);
  bool PrepareTransportsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KickLeaderLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Work();
  void TickLocked(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const MeshOptions options_;
  const std::vector<std::unique_ptr<Transport>> transports_;  // Used under mu_.
  Observer* const observer_;
  const OwnedFd kick_;  // An eventfd that wakes the sleeping leader.

  std::atomic<int> waits_without_yield_{0};

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<Peer> peers_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, PendingSend> sending_ ABSL_GUARDED_BY(mu_);
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t next_order_ ABSL_GUARDED_BY(mu_) = 1;
  absl::flat_hash_map<OperationKey, bool> forgotten_ ABSL_GUARDED_BY(mu_);
  std::deque<OperationKey> forgotten_order_ ABSL_GUARDED_BY(mu_);
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  bool leader_sleeps_ ABSL_GUARDED_BY(mu_) = false;
  bool leader_is_armed_ ABSL_GUARDED_BY(mu_) = false;
  int followers_ ABSL_GUARDED_BY(mu_) = 0;
  int spinners_ ABSL_GUARDED_BY(mu_) = 0;
  int holds_ ABSL_GUARDED_BY(mu_) = 0;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  SteadyTime last_tick_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem::transport

#endif  // TANDEM_RUNTIME_TRANSPORT_MESH_H_
