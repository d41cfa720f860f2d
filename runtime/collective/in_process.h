// Collectives between the devices of one process: the members' values lie in one memory, so that
// nothing is sent. The last member to arrive reduces, in one pass over all inputs, with as many
// threads as are idle; the members share the result's buffer.
//
// An operation for which a member does not come ends with DeadlineExceeded at those that wait, and
// names the missing; a third of the time before, a line of the log does.
//
// Where a group has members in other processes as well, those of this process meet here first, and
// BetweenProcesses does the rest.
//
// Cost: for n members and b bytes, n·b are read and b written. No member waits on a thread; one
// thread watches the time, as long as somebody waits.
#ifndef TANDEM_RUNTIME_COLLECTIVE_IN_PROCESS_H_
#define TANDEM_RUNTIME_COLLECTIVE_IN_PROCESS_H_

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/kernel/collective.h"

namespace tandem {

// The part of an operation that goes on between processes (group_runtime.h).
class BetweenProcesses {
 public:
  using Done = CollectiveRuntime::Done;
  using Cancel = std::function<void(const absl::Status&)>;

  virtual ~BetweenProcesses() = default;

  // What the group is with the members of all processes, of which this one has `local`.
  virtual CollectiveGroup Describe(const CollectiveGroup& local) const = 0;

  // The number by which collectives of a step that begins now find those of the same step in other
  // processes (RunOptions::collective_step). It is another one in each generation and for each
  // call, so that a step that is repeated is another step. REQUIRES: between two changes of the
  // group all processes begin the same steps in the same order.
  virtual int64_t NextStep() = 0;

  // Reduces what the members here brought (`values[member][i]`, alike in type and shape) with what
  // those of other processes bring to the same operation. `done` is called once, maybe before this
  // returns. The result ends the operation with a status; it may be called at any time, also after
  // the end.
  virtual Cancel AllReduce(const CollectiveRequest& request,
                           std::vector<std::vector<Tensor>> values, Done done) = 0;

  // As CollectiveRuntime::AllGatherRows; `done` and the result as for AllReduce. REQUIRES: no value
  // is a scalar.
  virtual Cancel AllGatherRows(const CollectiveRequest& request, std::vector<Tensor> values,
                               Done done) = 0;
};

class InProcessCollectives final : public CollectiveRuntime {
 public:
  static constexpr absl::Duration kTimeout = absl::Seconds(60);

  // `timeout`: how long members wait for the last one. absl::InfiniteDuration(): for ever.
  // `between`: for groups that have members in other processes; they all do then. Not owned.
  explicit InProcessCollectives(absl::Duration timeout = kTimeout,
                                BetweenProcesses* between = nullptr)
      : timeout_(timeout), between_(between) {}
  // REQUIRES: nobody waits.
  ~InProcessCollectives() override;

  // Makes a group with `size` members in this process known, or changes it: operations of its
  // former generation that have not ended are aborted.
  void DeclareGroup(const std::string& name, int size);

  absl::StatusOr<CollectiveGroup> Group(const std::string& name) const override;
  void AllReduce(const CollectiveRequest& request, std::vector<Tensor> values,
                 CancellationManager* cancellation, Done done) override;
  void AllGatherRows(const CollectiveRequest& request, std::vector<Tensor> values,
                     CancellationManager* cancellation, Done done) override;

 private:
  enum class Kind : uint8_t { kAllReduce, kAllGatherRows };
  static const char* NameOf(Kind kind);

  using Key = std::tuple<std::string, int64_t, int64_t, int64_t>;  // Group, generation, instance,
                                                                   // step.
  struct Member {
    bool arrived = false;
    std::string node;
    std::vector<Tensor> values;
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = 0;
    Done done;
  };
  // How to give up what goes on between processes. With a lock of its own: when it is known the
  // step may be over already, and the session with it.
  struct Across {
    Mutex mu;
    BetweenProcesses::Cancel cancel ABSL_GUARDED_BY(mu);
    absl::Status cancelled ABSL_GUARDED_BY(mu);
  };
  struct Operation {
    Kind kind = Kind::kAllReduce;
    Reduction reduction = Reduction::kSum;
    int missing = 0;
    std::vector<Member> members;
    // When the first member came. The machine's clock may be set meanwhile.
    std::chrono::steady_clock::time_point begun;
    bool was_reported = false;
    // All members here came, and it goes on between processes.
    bool is_across = false;
    Across across;
  };
  using Late = std::vector<std::pair<Key, absl::Status>>;

  // Ends the operation of `key`, if it is still there, with `status` at all members that arrived.
  void Abort(const Key& key, const absl::Status& status);

  absl::StatusOr<CollectiveGroup> LocalGroup(const std::string& name) const;
  // A member comes to an operation that takes `size` of this process.
  void Join(Kind kind, const CollectiveRequest& request, int64_t generation, int size,
            std::vector<Tensor> values, CancellationManager* cancellation, Done done);
  void StartAcross(const Key& key, const CollectiveRequest& request,
                   const std::shared_ptr<Operation>& operation);
  void EndAcross(const Key& key, const std::shared_ptr<Operation>& operation,
                 const absl::StatusOr<std::vector<Tensor>>& results);
  void RememberLocked(const Key& key, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Status JoinLocked(Kind kind, const CollectiveRequest& request, Operation& operation,
                          std::vector<Tensor>& values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The watching thread's work: ends operations that are late, until the object dies.
  void Watch();
  // Adds what is late to `late`; gives how long nothing else can be.
  absl::Duration FindLateLocked(Late& late) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const absl::Duration timeout_;
  BetweenProcesses* const between_;
  mutable Mutex mu_;
  CondVar watcher_;
  bool watcher_is_idle_ ABSL_GUARDED_BY(mu_) = false;  // Until somebody waits.
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, CollectiveGroup> groups_ ABSL_GUARDED_BY(mu_);
  std::map<Key, std::shared_ptr<Operation>> pending_ ABSL_GUARDED_BY(mu_);
  // What became of operations that were aborted lately, for members that come to them later; the
  // oldest are forgotten (their steps are long over).
  std::map<Key, absl::Status> aborted_ ABSL_GUARDED_BY(mu_);
  std::deque<Key> abort_order_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // Started with the first group that has to wait for members.
};

// Adds (or otherwise reduces) tensors of equal type and shape along the fixed tree over their
// order: the two halves [0, p) and [p, n), p the greatest power of two below n, are reduced first.
// With kMean the sum is divided by their number. Unimplemented: a type that is no number.
absl::StatusOr<Tensor> ReduceAlongTree(Reduction reduction,
                                       const std::vector<const Tensor*>& values);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_COLLECTIVE_IN_PROCESS_H_
