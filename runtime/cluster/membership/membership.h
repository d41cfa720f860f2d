// Membership: this process's place in a job whose members come, go and die.
//
//   TANDEM_ASSIGN_OR_RETURN(auto membership, Membership::Create(config));
//   TANDEM_RETURN_IF_ERROR(membership->Join());
//   while (true) {
//     TANDEM_ASSIGN_OR_RETURN(Group group, membership->WaitForGroup(deadline));
//     … connect to group.generation.members; take the state from rank group.source_rank …
//     while (no step failed) {
//       … a step …
//       TANDEM_ASSIGN_OR_RETURN(StepAdvice advice, membership->CompletedStep(step, deadline));
//       if (advice.save) … checkpoint, at the same step on all members …
//       if (advice.regroup) { membership->ReachedSync(advice.sync); break; }
//     }
//   }
//
// How members agree, and what they do when one of them is lost, is in node.h; docs/operator/
// failures.md has it for people who run jobs, docs/decisions/membership.md has the reasons.
//
// Who says what the next generation is: the launcher (`rendezvous`), or the folder of checkpoints
// (`folder`, `folder_decides`), or, without either, more than half of the members of the last one.
// With a folder the chief of an old generation cannot write into it (ChiefFiles).
//
// Threads   Any thread may call any method. A thread of its own sends heartbeats, so that a step
//           that takes long is not mistaken for death; another one asks the arbiter, and a third
//           one calls what OnChange was given.
// Waits     Every wait has a deadline (DeadlineExceeded), says in the log who is missing when a
//           third of it has passed (if it is half a second or longer: shorter ones are slices of
//           somebody's longer wait), and ends when the group is lost (Aborted, or Unavailable: a
//           member is gone) or the membership ends (what it ended with; Cancelled: it left).
// Lifetime  The destructor leaves the job without a word; see Leave.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_MEMBERSHIP_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/clock.h"
#include "core/io/file.h"
#include "runtime/cluster/membership/arbiter.h"
#include "runtime/cluster/membership/control_transport.h"
#include "runtime/cluster/membership/node.h"
#include "runtime/cluster/membership/options.h"
#include "runtime/rpc/security.h"

namespace tandem {

using membership::Generation;
using membership::Group;
using membership::MemberInfo;

// The machine's steady clock, which nobody sets, as the membership counts time.
Clock* SteadyClock();

struct MembershipConfig {
  // "worker:1".
  std::string name;
  // Where the other members reach this one: "host:port", port 0 for one that is free. It needs a
  // port of its own.
  std::string address;
  std::string bind;
  bool insecure = false;
  // None: as the environment says.
  absl::optional<Security> security;
  // What the others are told, such as where data transports listen.
  std::string endpoint;

  // Sizes and times, and the tasks of the cluster (`seeds`). Whether there is an arbiter and a
  // fence follows from the next two.
  membership::MembershipOptions options;
  // The launcher's address; empty: none.
  std::string rendezvous;
  // The folder of checkpoints; empty: none.
  std::string folder;
  // All members share the folder for certain, so that it may decide where there is no launcher.
  // False: it is fenced off all the same, for the case that they do.
  bool folder_decides = true;

  // For tests; empty: the real ones.
  Clock* clock = nullptr;
  std::unique_ptr<membership::ControlTransport> transport;
  std::unique_ptr<membership::Arbiter> arbiter;
};

// What to do after a step.
struct StepAdvice {
  // All members save a checkpoint of this step.
  bool save = false;
  // No step follows in this group: call ReachedSync, then wait for the next one.
  bool regroup = false;
  uint64_t sync = 0;
};

struct MembershipChange {
  // The group that may begin; none: the last one was lost, or has ended.
  absl::optional<Group> group;
  // Why it was lost; OK: the membership ended as this process wished.
  absl::Status reason;
  bool is_end = false;
};

class Membership {
 public:
  // InvalidArgument: a name, address or sizes that make no sense. Errors of the folder.
  static absl::StatusOr<std::unique_ptr<Membership>> Create(MembershipConfig config);
  virtual ~Membership() = default;

  // Called in order, on a thread that may take its time. Before Join.
  virtual void OnChange(std::function<void(const MembershipChange&)> callback) = 0;

  // Begins to look for the job. Unavailable: the port is taken.
  virtual absl::Status Join() = 0;

  // The group that goes on now; none: there is none.
  virtual absl::optional<Group> CurrentGroup() const = 0;
  // The newest generation that this process knows of, also one that it is not, or not yet, in.
  virtual absl::optional<Generation> CurrentGeneration() const = 0;
  // The next group of a generation after `after` (0: any).
  virtual absl::StatusOr<Group> WaitForGroup(absl::Time deadline, uint64_t after = 0) = 0;

  // In the group `generation`: waits until all of its members have come to the barrier of this
  // name. A name may be used again, by all in the same order.
  virtual absl::Status Barrier(uint64_t generation, const std::string& name,
                               absl::Time deadline) = 0;
  // Values live as long as their generation. At most 1 MiB each.
  virtual absl::Status Put(uint64_t generation, const std::string& key, const std::string& value,
                           absl::Time deadline) = 0;
  virtual absl::StatusOr<std::string> WaitKey(uint64_t generation, const std::string& key,
                                              absl::Time deadline) = 0;

  // The state that this process has is that of `step`. In a group: it has completed the step, and
  // asks what to do next. It waits only if a sync point is near.
  virtual absl::StatusOr<StepAdvice> CompletedStep(int64_t step, absl::Time deadline) = 0;
  virtual void ReachedSync(uint64_t sync) = 0;
  // All members of the group have completed it.
  virtual int64_t committed_step() const = 0;

  // The group `generation` cannot go on here although its members live, such as when the
  // connections between them broke: it ends for all, and the next one is formed. Does nothing once
  // it is over.
  virtual void GiveUpGroup(uint64_t generation, const absl::Status& reason) = 0;

  // This process will be ended soon (SIGTERM, a notice): it leaves at a step that all agree on,
  // after a checkpoint there.
  virtual void RequestPreemption() = 0;
  // It takes no further step. Returns when the others know, or after 5 s.
  virtual absl::Status Leave(absl::Time deadline) = 0;

  // True in the first member of the group.
  virtual bool is_chief() const = 0;
  // The files of the folder for the chief of `generation`, which is to write its checkpoints with
  // them: names that appear, change or go do so only while no later generation exists (else
  // FailedPrecondition). Without a folder they are the machine's files as they are. The membership
  // outlives them.
  virtual std::unique_ptr<FileSystem> ChiefFiles(uint64_t generation) = 0;
  // The chief's checkpoint of `step` is there: should all who were there die, no group begins with
  // an older state.
  virtual absl::Status NoteCheckpoint(uint64_t generation, int64_t step) = 0;

  // How the job is; only the chief knows about all (status_text.h makes text of it).
  virtual membership::JobStatus Status() const = 0;
  // This process, as others see it. REQUIRES: Join.
  virtual MemberInfo self() const = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_MEMBERSHIP_H_
