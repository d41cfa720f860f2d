// WorkerGroup: the processes that train together, as a strategy over several of them keeps them
// (strategies/multi_worker_mirrored). Each runs the same program. Whoever drives the strategy's
// runner (strategies/trainer) meets the others before the first step and whenever members come or
// go; between two meetings all take the same steps.
//
//   WorkerGroup* workers = strategy.workers();   // Null: the strategy is of one process.
//   TANDEM_RETURN_IF_ERROR(workers->Meet(party));
//   while (…) {
//     … a step; one that ends with Aborted has changed nothing: Meet, then take it again …
//     TANDEM_ASSIGN_OR_RETURN(auto advice, workers->CompletedStep(step));
//     if (advice.save) … the chief writes a checkpoint …
//     if (advice.meet) TANDEM_RETURN_IF_ERROR(workers->Meet(party));
//   }
//
// A step is completed by all members or, if one of them is lost in it, by some: those then have
// the state that all go on with. No member is ever more than one step ahead of another.
//
// Threads: one at a time, but for is_chief, rank, size and RequestPreemption, which any may call.
#ifndef TANDEM_STRATEGIES_WORKERS_H_
#define TANDEM_STRATEGIES_WORKERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/io/file.h"
#include "strategies/runner.h"

namespace tandem {

class WorkerGroup {
 public:
  // What this process brings to a meeting: its state, as bytes that only its kind understands.
  //
  // Called during Meet alone, on its thread.
  class Party {
   public:
    virtual ~Party() = default;

    // What the party does, "training" or "an evaluation": members that do different things cannot
    // go on together.
    virtual std::string occupation() const = 0;
    // The number of the last step that is in the state, from 0; -1: it is that of the beginning.
    virtual int64_t completed_step() const = 0;
    // All that another process needs to go on from here; names are its own. Asked of one member,
    // when another one's state is older.
    virtual absl::StatusOr<StrategyState> Give() = 0;
    // Goes where the member is that gave `state`.
    virtual absl::Status Take(StrategyState state) = 0;
    // Goes where the newest checkpoint is: nobody lives who has a state as new.
    virtual absl::Status TakeCheckpoint() = 0;
    // Not OK: the wait for others ends with this.
    virtual absl::Status CheckStop() const = 0;
  };

  // What all members are told after a step, alike.
  struct Advice {
    // A checkpoint of this very step is wanted: the chief writes it.
    bool save = false;
    // Members come or go: no step follows before a meeting.
    bool meet = false;
  };

  virtual ~WorkerGroup() = default;

  // The folder of the job's checkpoints, which all members share; may decide who leads the job.
  // Before the first meeting; later calls must name the same (InvalidArgument).
  virtual absl::Status SetFolder(const std::string& folder) = 0;

  // Waits for the members of the next group (the first one, too), connects to them, and gives all
  // of them the newest state of any. Begins again when one is lost meanwhile.
  //
  // DeadlineExceeded: too few came; names the missing. Cancelled: this process has left the job, as
  // RequestPreemption asked. FailedPrecondition: it is in a minority, or the members do different
  // things. Errors of the party.
  virtual absl::Status Meet(Party& party) = 0;
  // False: before the first meeting, when the group was lost, and after Advice::meet.
  virtual bool has_met() const = 0;

  // In a group: the state has this step now. May wait for others, at a step that all agreed on.
  // Aborted: the group was lost; the step counts all the same.
  virtual absl::StatusOr<Advice> CompletedStep(int64_t step) = 0;
  // Waits until all members of the group have come here; `name` is used once between two meetings.
  // Aborted: the group was lost.
  virtual absl::Status Barrier(const std::string& name) = 0;
  // Gives `state` the values that the chief's has: names, types and shapes are alike. Aborted: the
  // group was lost.
  virtual absl::Status BroadcastFromChief(StrategyState& state) = 0;

  // This process will be ended soon: it leaves at a step that all agree on, after a checkpoint.
  virtual void RequestPreemption() = 0;
  // It takes no further step; the others are told. Does nothing the second time.
  virtual void Leave() = 0;

  // Of the last group. Before the first meeting: as the cluster's configuration says.
  virtual bool is_chief() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How many replicas this process has (virtual ones, in deterministic mode, whose number here may
  // change from meeting to meeting).
  virtual int local_replicas() const = 0;
  // The files that this process writes checkpoints with while it is the chief of this group; once
  // another group exists what they write fails. Valid as long as somebody holds them.
  virtual std::shared_ptr<FileSystem> ChiefFiles() = 0;
  // The checkpoint of this step is complete.
  virtual absl::Status NoteCheckpoint(int64_t step) = 0;
  // Members that came and went since the last call.
  virtual std::vector<MemberEvent> TakeEvents() = 0;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_WORKERS_H_
