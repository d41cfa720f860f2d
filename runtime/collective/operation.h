// Operation: one member's part in one collective operation, while it runs; also the handle by which
// a caller waits for it.
#ifndef TANDEM_RUNTIME_COLLECTIVE_OPERATION_H_
#define TANDEM_RUNTIME_COLLECTIVE_OPERATION_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "runtime/collective/schedule.h"
#include "runtime/transport/mesh.h"

namespace tandem::collective {

class Group;

// Runs the steps of a schedule as soon as what they wait for is there. Steps are executed by
// whoever made them ready, one thread at a time; the others leave their steps to it.
//
// Threads   Any thread may call any method.
// Lifetime  Buffers stay valid until the operation is done. The group outlives its operations'
//           running, not the handles.
class Operation final : public transport::Listener, public std::enable_shared_from_this<Operation> {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  struct Buffers {
    const char* input = nullptr;
    char* output = nullptr;
  };
  struct Spec {
    transport::OperationKey key;
    std::string name;
    Kind kind = Kind::kAllReduce;
    Reduction reduction = Reduction::kSum;
    DataType dtype = kFloat32;
    int64_t bytes = 0;
    const char* algorithm = "";
    transport::Label label;
    std::vector<int> members;  // Ranks in the group, by rank in the operation.
    absl::Duration timeout;
    Buffers buffers;
  };

  // One that failed before it began.
  static std::shared_ptr<Operation> Failed(absl::Status status);

  // Waits until the operation is done, or until `deadline`: DeadlineExceeded then, and the
  // operation goes on. It ends by its own timeout at the latest.
  absl::Status Wait(absl::Time deadline = absl::InfiniteFuture());
  // Gives the operation up at all members: it ends everywhere with this status (not OK), unless it
  // has ended already.
  void Cancel(const absl::Status& reason);
  bool done() const { return done_.load(std::memory_order_acquire); }
  // REQUIRES: done().
  absl::Status status() const;

  // transport::Listener.
  void OnMessage(uint32_t index) override;
  void Consume(uint32_t index, uint64_t offset, absl::Span<const char> bytes) override;

 private:
  friend class Group;
  struct Private {};

 public:
  Operation(Private, Group* group, Spec spec, std::shared_ptr<const Schedule> schedule,
            RefPtr<Buffer> scratch, Done done_callback);

 private:
  enum class StepState : uint8_t { kWaiting, kPosted, kDone };

  // What the group calls.
  void Launch();
  void Fail(const absl::Status& why, bool tell_peers);
  // "all-reduce 'grads/0' (instance 3, step 9)".
  std::string Describe() const;
  // Ranks in the group of those who have not sent or taken what was posted.
  std::vector<int> Missing() const;
  // "receiving 1024 values from member 2", the first step that waits for a peer.
  std::string Doing() const;

  void Advance();
  void Execute(int index);
  void CompleteLocked(int index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Finalize();
  char* At(const Piece& piece) const;

  Group* const group_;
  const Spec spec_;
  const std::shared_ptr<const Schedule> schedule_;
  const RefPtr<Buffer> scratch_;
  const size_t element_bytes_;
  const std::chrono::steady_clock::time_point begun_;

  std::atomic<bool> done_{false};
  std::atomic<bool> is_torn_{false};  // A peer cut a message in the middle of a value.
  std::atomic<bool> was_reported_{false};
  int64_t flight_ = -1;    // Set before Launch.
  bool has_hold_ = false;  // Likewise.
  // What each missing member did meanwhile, when that was last known. Of the mesh's thread.
  std::map<int, std::string> meanwhile_;

  mutable Mutex mu_;
  std::vector<int> waits_for_ ABSL_GUARDED_BY(mu_);
  std::vector<StepState> states_ ABSL_GUARDED_BY(mu_);
  std::vector<int> ready_ ABSL_GUARDED_BY(mu_);
  size_t next_ready_ ABSL_GUARDED_BY(mu_) = 0;
  size_t left_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_advancing_ ABSL_GUARDED_BY(mu_) = false;
  bool tells_peers_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  Done done_callback_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_OPERATION_H_
