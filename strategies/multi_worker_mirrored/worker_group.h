// MultiWorkerGroup: the WorkerGroup of a process of a job. It joins the membership
// (runtime/cluster/membership) with the first meeting, forms the collective group of each
// generation, and gives it to the session's collectives (collective::GroupRuntime).
//
// A meeting
//   1. Waits for the next generation that this process is a member of.
//   2. Connects to its members (collective::Group::Form).
//   3. All tell each other what they do and how far they are; who is behind gets the state of who
//      is furthest.
//   4. All tell each other that they have it.
// When a member is lost on the way all begin again, with the generation that follows. Who cannot go
// on by itself (its checkpoint is damaged, say) tells the others so, which then wait for a
// generation without it.
//
// When the membership loses a generation, its collectives are aborted at once, so that a step that
// runs ends, at all members that still hear one another. The other way round, where connections
// broke and the membership misses nobody for a while, the generation is given up.
//
// Threads: as WorkerGroup. Lifetime: the destructor goes without a word, like a process that is
// killed; see Leave.
#ifndef TANDEM_STRATEGIES_MULTI_WORKER_MIRRORED_WORKER_GROUP_H_
#define TANDEM_STRATEGIES_MULTI_WORKER_MIRRORED_WORKER_GROUP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/cluster/job_environment.h"
#include "runtime/cluster/membership/membership.h"
#include "runtime/cluster/membership/rendezvous.h"
#include "runtime/collective/group.h"
#include "runtime/collective/group_runtime.h"
#include "strategies/multi_worker_mirrored/exchange.h"
#include "strategies/workers.h"

namespace tandem {

struct WorkerGroupOptions {
  JobEnvironment job;

  // Of this process.
  int replicas = 1;
  // Deterministic mode: of all processes, among which they are divided. 0: off.
  int virtual_replicas = 0;

  // Of the collectives. kInProcess: all members are threads of this process, as in tests.
  collective::TransportKind transport = collective::TransportKind::kAuto;
  std::string algorithm;  // Empty: by size.

  // All workers are known to see the same folder of checkpoints (SetFolder), which then decides who
  // leads the job, unless there is a rendezvous.
  bool folder_is_shared = false;

  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration lost_after = absl::Seconds(3);
  absl::Duration start_timeout = absl::Seconds(120);
  absl::Duration collective_timeout = absl::Seconds(60);
};

// How many of all `virtual_replicas` process `rank` of `size` has: those from ceil(rank·V/size) on.
int VirtualReplicasOf(int rank, int size, int virtual_replicas);

class MultiWorkerGroup final : public WorkerGroup {
 public:
  // Does not look for anybody yet. InvalidArgument: sizes, times or tasks that make no sense.
  // Unimplemented: tasks that this kind of training has no place for.
  static absl::StatusOr<std::unique_ptr<MultiWorkerGroup>> Create(WorkerGroupOptions options);
  ~MultiWorkerGroup() override;

  // What connects a session's collectives with those of the other processes.
  const std::shared_ptr<collective::GroupRuntime>& between() const { return between_; }

  absl::Status SetFolder(const std::string& folder) override;
  absl::Status Meet(Party& party) override;
  bool has_met() const override;
  absl::StatusOr<Advice> CompletedStep(int64_t step) override;
  absl::Status Barrier(const std::string& name) override;
  absl::Status BroadcastFromChief(StrategyState& state) override;
  void RequestPreemption() override;
  void Leave() override;
  bool is_chief() const override { return rank() == 0; }
  int rank() const override { return rank_.load(std::memory_order_relaxed); }
  int size() const override { return size_.load(std::memory_order_relaxed); }
  int local_replicas() const override;
  std::shared_ptr<FileSystem> ChiefFiles() override;
  absl::Status NoteCheckpoint(int64_t step) override;
  std::vector<MemberEvent> TakeEvents() override;

 private:
  // What the membership has said. Shared with its thread, which may be the last to hold it.
  class News;
  struct Meeting;
  struct Introduction;

  explicit MultiWorkerGroup(WorkerGroupOptions options);

  // Once. Cancelled: this process has left the job, or never joined it.
  absl::Status Join();
  absl::StatusOr<std::unique_ptr<Membership>> NewMembership();
  absl::StatusOr<Group> NextGroup(Meeting& meeting);
  absl::Status ExplainTheWait(const Meeting& meeting, const absl::Status& status) const;
  // A joiner that a living job has not taken in yet.
  bool IsOutside() const;
  // 2. to 4. of a meeting.
  absl::Status Enter(Meeting& meeting, const Group& group);
  absl::StatusOr<collective::GroupOptions> OptionsFor(const Group& group) const;
  absl::Status Converge(Meeting& meeting, const Group& group, Exchange& exchange);
  absl::Status CheckAlike(const Group& group, const std::vector<Introduction>& members) const;
  // Gives the state of `source` to those that are behind. An error that is final in the meeting is
  // this member's own, and the others do not know it yet.
  absl::Status Share(Meeting& meeting, const Group& group, Exchange& exchange,
                     const std::vector<Introduction>& members, int source);
  void NoteMeeting(const Group& group);
  // The group does not go on. Gives what its calls return.
  absl::Status LoseGroup(const absl::Status& why);

  const WorkerGroupOptions options_;
  const std::string name_;  // "worker:1".
  const std::shared_ptr<collective::GroupRuntime> between_;
  const std::shared_ptr<News> news_;

  std::string folder_;  // Absolute; empty: none.
  bool folder_decides_ = false;  // Who leads the job.
  bool requires_tls_ = false;
  // The rendezvous, where this process serves it to all. They outlive the membership.
  std::unique_ptr<membership::MemoryArbiter> arbiter_;
  std::unique_ptr<membership::RendezvousServer> server_;
  // Null: not joined. The files of ChiefFiles hold it, too.
  std::shared_ptr<Membership> membership_;

  std::atomic<int> rank_;
  std::atomic<int> size_;

  bool has_left_ = false;
  bool has_met_ = false;
  absl::optional<Group> group_;  // The last one that has met.
  std::unique_ptr<Exchange> exchange_;
  int64_t completed_step_ = -1;    // The last one, in this group.
  absl::optional<uint64_t> sync_;  // The meeting that the members agreed on.
  bool counts_anew_ = false;       // The next meeting is for the steps of another training.
  std::vector<MemberEvent> events_;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_MULTI_WORKER_MIRRORED_WORKER_GROUP_H_
