// Group: collective operations between processes.
//
//   auto group = collective::Group::Form(options, &store);       // every member
//   auto sum = (*group)->Start(
//       collective::AllReduceInPlace(Reduction::kSum, gradients, {.instance = 3, .step = 9}));
//   ... compute ...
//   TANDEM_RETURN_IF_ERROR(sum->Wait());
//
// Members    A fixed list, each with a name, a host and an incarnation: one generation. When one
//            is lost the group is broken: every pending operation ends on every survivor within a
//            second with Unavailable, which names the member, its host, the step and the operation.
//            Whoever keeps the membership then forms the next generation, another object.
// Matching   Members' operations find each other by (instance, step), never by order. What must be
//            alike (kind, reduction, type, shape, root, members, algorithm) is compared before
//            values are used: a mismatch ends the operation everywhere with InvalidArgument, which
//            names both sides.
// Waiting    Every operation has a timeout (60 s unless told otherwise), after which it ends with
//            DeadlineExceeded at all members; a third of it before, a warning names who is missing.
//            An operation that failed or was cancelled at one member ends at all, and leaves the
//            group usable.
//            A member that only sends (the root of a broadcast) may have ended well before.
// Threads    Any. A waiting caller moves the bytes itself; what nobody waits for is moved by the
//            group's own thread.
// Results    All members get the same bits.
#ifndef TANDEM_RUNTIME_COLLECTIVE_GROUP_H_
#define TANDEM_RUNTIME_COLLECTIVE_GROUP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/kernel/collective.h"
#include "core/tensor/tensor.h"
#include "runtime/collective/choice.h"
#include "runtime/collective/flight_record.h"
#include "runtime/collective/operation.h"
#include "runtime/collective/schedule.h"
#include "runtime/transport/inprocess/inprocess.h"
#include "runtime/transport/mesh.h"

namespace tandem::collective {

class KeyValueStore;

struct Member {
  std::string name;          // "worker:1".
  std::string host;          // Where bulk data reaches it: an address, or a name that means one.
  uint64_t incarnation = 0;  // Of its process; 0: any.
};

enum class TransportKind { kAuto, kInProcess, kSharedMemory, kTcp };
// InvalidArgument: lists the names (auto, inprocess, shm, tcp).
absl::StatusOr<TransportKind> ParseTransportKind(absl::string_view name);

struct GroupOptions {
  std::string key;  // "workers".
  int64_t generation = 1;
  std::vector<Member> members;  // By rank, alike at all members.
  int rank = 0;
  // Known to members only. Empty: member 0 draws one and hands it out through the store.
  std::string nonce;

  // kAuto: shared memory on one host, TCP between hosts. Another one is used for all pairs.
  TransportKind transport = TransportKind::kAuto;
  std::shared_ptr<transport::InProcessHub> hub;  // kInProcess: shared by all members.
  // Two members share a host when this is equal; empty: it is asked of the system.
  std::string host_id;
  int tcp_connections = 2;
  bool requires_tls = false;  // Then TCP is refused.

  absl::Duration form_timeout = absl::Seconds(120);
  absl::Duration timeout = absl::Seconds(60);  // Of an operation.
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration lost_after = absl::Seconds(3);

  // Which algorithm is used: a name; or a table (choice.h) of member 0; or, with neither, what
  // member 0 measures when the group is formed (`measures`), or the built-in table.
  std::string algorithm;
  std::string table;
  bool measures = false;

  // Compare instruction sets and versions of all members, since bits may depend on them, and refuse
  // reductions of floating-point values whose order depends on the number of members.
  bool is_deterministic = false;
  // Where flight records go; empty: the environment's TANDEM_FLIGHT_DIR, or else the system's
  // folder for temporary files.
  std::string flight_folder;
};

// One member's part in one operation. Input and output are the same memory, or do not overlap;
// they stay valid until the operation is done. Counts are elements.
struct Request {
  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  DataType dtype = kFloat32;  // float32, float64, float16, bfloat16, int32, int64.
  const void* input = nullptr;
  void* output = nullptr;
  // See Problem (schedule.h). All-gather, reduce-scatter and all-to-all take counts, or, when those
  // are empty, a count that is alike for all: what each member brings, gets, or sends to each.
  int64_t count = 0;
  std::vector<int64_t> counts;
  int root = 0;
  std::vector<int64_t> dims;  // Of the value, to be compared; empty: a vector of `count`.
  std::vector<int> members;   // Ranks, ascending; empty: all. `root` and counts go by this order.
  std::vector<int> replicas;  // Deterministic all-reduce: see Problem.

  // By which members' operations find each other. Used once in a generation, or again only when the
  // former operation has ended at all members.
  int64_t instance = 0;
  int64_t step = 0;
  uint32_t phase = 0;
  std::string name;        // For messages.
  absl::Duration timeout;  // Zero: the group's.
};

using Handle = std::shared_ptr<Operation>;

class Group final : public transport::Observer {
 public:
  // Meets the other members through `store` (which is not used afterwards) and connects to them.
  // `check`, if given, is asked several times a second, and ends the wait with its error.
  // DeadlineExceeded: names who did not come. FailedPrecondition: a member of another incarnation,
  // or, with is_deterministic, another machine or version. InvalidArgument: the options.
  static absl::StatusOr<std::unique_ptr<Group>> Form(
      GroupOptions options, KeyValueStore* store,
      const std::function<absl::Status()>& check = nullptr);

  // What Form makes of connected transports; for tests and other ways to form.
  Group(GroupOptions options, std::vector<int> hosts,
        std::vector<std::unique_ptr<transport::Transport>> transports, std::vector<int> of_peer);
  // Cancels what runs.
  ~Group() override;

  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.members.size()); }
  int64_t generation() const { return options_.generation; }
  const std::string& key() const { return options_.key; }
  const GroupOptions& options() const { return options_; }
  // By rank: members with equal numbers share a host.
  const std::vector<int>& hosts() const { return hosts_; }
  // "shared memory", for tools.
  std::string TransportTo(int rank) const;

  // Begins an operation; `done` is called once, outside locks. Errors come through both.
  Handle Start(Request request, Operation::Done done = nullptr);
  // Start and Wait. Costs less, since no other thread is told.
  absl::Status Run(Request request);

  // Waits until all members call it.
  absl::Status Barrier(int64_t instance, int64_t step);

  // Not OK: broken, for good.
  absl::Status status() const;
  // Breaks the group at all members, as a loss does.
  void Abort(const absl::Status& why);

  // What is running, and since when: "all-reduce 'x' (instance 3, step 9), 12.1s, waits for …".
  std::vector<std::string> Pending() const;

  ChoiceTable choices() const;
  // REQUIRES: called by all members while nothing runs, with equal tables.
  void SetChoices(ChoiceTable choices);

  // Writes the flight record to the flight folder and gives the file's name.
  absl::StatusOr<std::string> WriteFlightRecord(const std::string& why) const;
  std::string FlightRecordText(const std::string& why) const;

  // transport::Observer.
  void OnArrival(int peer, const transport::Tag& tag, const transport::Label& theirs) override;
  void OnAbort(int peer, const transport::OperationKey& operation,
               const absl::Status& why) override;
  void OnBroken(const absl::Status& why) override;
  void OnTick() override;

 private:
  friend class Operation;

  absl::Status Check(const Request& request) const;
  absl::StatusOr<Handle> Prepare(Request& request, Operation::Done& done, bool has_hold);
  std::shared_ptr<const Schedule> ScheduleFor(const Problem& problem, const Algorithm& algorithm);
  // Compares what came for an operation before it began here.
  void CheckArrived(const Operation& operation);
  void FailMismatch(Operation& operation, int peer, const transport::Label& theirs);

  // What operations call.
  transport::Mesh* mesh() const { return mesh_.get(); }
  std::string DescribeOperation(const Operation& operation) const;
  void OnOperationEnd(Operation& operation, const absl::Status& status, bool tells_peers);
  bool Drive(const std::atomic<bool>& done, absl::Time deadline);
  void WakeWaiters();

  const GroupOptions options_;
  const std::vector<int> hosts_;
  FlightRecord flight_;

  mutable Mutex mu_;
  ChoiceTable choices_ ABSL_GUARDED_BY(mu_);
  std::map<transport::OperationKey, std::shared_ptr<Operation>> running_ ABSL_GUARDED_BY(mu_);
  // What peers, or callers here, gave up, for those who come to it later; the oldest are forgotten.
  std::map<transport::OperationKey, absl::Status> aborted_ ABSL_GUARDED_BY(mu_);
  std::deque<transport::OperationKey> aborted_order_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<const Schedule>> schedules_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  std::atomic<int> waiters_{0};

  std::vector<std::string> transport_names_;
  std::unique_ptr<transport::Mesh> mesh_;  // Null: the only member.
};

// Requests over tensors. Input and output are the tensor's own memory, which is written in place.
struct OperationId {
  int64_t instance = 0;
  int64_t step = 0;
  std::string name = "";
};
// REQUIRES: host memory that nobody else holds.
Request AllReduceInPlace(Reduction reduction, Tensor& value, const OperationId& id);
Request BroadcastInPlace(int root, Tensor& value, const OperationId& id);

// All-gather of rows whose numbers only their members know: first the numbers, then the rows. The
// result has the rows of all members, by rank. InvalidArgument: ranks, or sizes of rows, differ.
absl::StatusOr<Tensor> AllGatherRows(Group& group, const Tensor& rows, const OperationId& id);

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_GROUP_H_
