// Shard: what a parameter server keeps of a training. A session over the shard's graph, whose
// programs are called by name: those that read are pulled, those that update are pushed
// (docs/decisions/parameter-servers.md).
//
// Pulls run at any time, beside each other and beside pushes; each variable is read whole. Pushes
// run beside each other, too; each variable's own update is whole. In an ordered shard, which is
// one that is replicated, they run one after the other, so that a replica that gets them in the
// same order gets the same state.
//
// No thread is held while a call waits. A push waits for its turn, for the other parts of its
// round, or for one of the same name; how much memory those have together is limited.
//
// Threads: any. Lifetime: the destructor waits for the calls that run; those that wait for a
// version or for other parts end with Cancelled. The last call's `done` may destroy the shard.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/kernel/cancellation.h"
#include "core/kernel/parameter_store.h"
#include "core/tensor/tensor.h"
#include "proto/graph.pb.h"
#include "proto/parameter_server.pb.h"
#include "runtime/parameter_server/variable_budget.h"
#include "runtime/session/session.h"

namespace tandem::parameter_server {

// A push, as it was applied: a replica that applies all of them in this order has the same state.
struct AppliedPush {
  int64_t version = 0;  // The shard's after it.
  std::string program;
  // All that it stands for; several where a round was added up.
  std::vector<PushId> ids;
  std::vector<Tensor> arguments;  // Added up.
};

struct ShardOptions {
  SessionOptions session;
  bool ordered = false;
  // Of an ordered shard: is called after each push that was applied, in their order, one at a time;
  // may not call the shard. `answered` has to be called once, on any thread: the push's callers are
  // answered then, with its status (Internal, if it is destroyed without). Until then the name
  // counts as being applied.
  std::function<void(AppliedPush, absl::AnyInvocable<void(absl::Status)> answered)> on_applied;
  // A push that would have to wait is refused when those that wait have so many bytes.
  int64_t max_waiting_bytes = int64_t{8} << 30;
  // What the variables take is taken from it. Null: they may take what there is.
  std::shared_ptr<VariableBudget> variable_budget;
  // How long Capture and what else stops pushes waits for those that run.
  absl::Duration patience = absl::Seconds(60);
};

// All that a shard has, at one version.
struct ShardState {
  int64_t version = 0;
  std::vector<std::pair<std::string, Tensor>> variables;  // By the names of Variable.
  std::vector<AppliedSequences> applied;                  // Of each client.
};

struct ShardStatus {
  int64_t version = 0;   // Updates that were applied.
  int64_t pushes = 0;    // That came and were new.
  int64_t repeated = 0;  // That had been applied before.
  int64_t dropped = 0;   // That came too late for their round.
  int64_t pulls = 0;
  int64_t waiting = 0;        // Calls that wait: for a version, other parts, their turn.
  int64_t waiting_bytes = 0;  // Of their arguments.
  int64_t variable_bytes = 0;
  // Updates between what a push's step had pulled and its own: the last, their mean, the largest.
  int64_t last_staleness = 0;
  double mean_staleness = 0;
  int64_t max_staleness = 0;
  int64_t median_staleness = 0;  // At most kMostStaleness.
  // Of results of pulls, and of arguments of pushes, repeated ones included.
  int64_t pulled_bytes = 0;
  int64_t pushed_bytes = 0;
  static constexpr int64_t kMostStaleness = 255;
};

class Shard {
 public:
  using Done = ParameterStore::Done;

  static absl::StatusOr<std::unique_ptr<Shard>> Create(ShardOptions options);
  ~Shard();

  // Adds nodes, programs and variables. What is there already, and is the same, is left alone, so
  // that a call may be repeated. Of the devices that nodes ask for the job and the task do not
  // count. Of ops that only Tandem makes those of optimizers are taken.
  //
  // InvalidArgument: it is there and differs; a program does not fit the graph, or updates and
  // fetches something; a handle that does not lead to a variable of a type that is known, or, where
  // their bytes are limited, of a shape that is known. ResourceExhausted: the limit. Nothing has
  // changed then.
  absl::Status Extend(const tensorflow::GraphDef& graph, const std::vector<Program>& programs,
                      const std::vector<Variable>& variables);

  // Runs a program that reads, once the shard has applied `wait_for_version` updates. NotFound: no
  // such program (near ones are named). InvalidArgument: it updates; arguments do not fit.
  // `done` runs once, outside locks, on any thread; the cancellation (may be null; outlives the
  // call) ends the wait and the run.
  void Pull(const std::string& program, std::vector<Tensor> arguments, int64_t wait_for_version,
            CancellationManager* cancellation, Done done);

  // Runs a program that updates, unless a push of this name was applied: then it is answered as the
  // first one was, with the version that the shard has now. A push whose name is being applied
  // waits for that, and tries itself if it failed. `pulled_version`: what the step had read; for
  // the statistics; negative: not known. With a round, it is answered when the round's update has
  // happened, or it came too late for it (round.h). A program that fails has been applied as far as
  // its error allows, and may be pushed again.
  //
  // Once the update has begun the cancellation does not end it: it is applied as a whole. Before,
  // one that is cancelled has changed nothing, and leaves its round.
  //
  // InvalidArgument: arguments, a name or a round that do not fit; nobody else's push is concerned.
  // ResourceExhausted: it would have to wait, and ShardOptions::max_waiting_bytes do already; or
  // its client has too many names. Aborted: a newer push took its place in the round; its step was
  // given up. Unavailable: a state was restored meanwhile; push again. Errors of the program.
  void Push(const PushId& id, const Round* round, const std::string& program,
            std::vector<Tensor> arguments, int64_t pulled_version,
            CancellationManager* cancellation, Done done);

  // For all below, up to Write: no push runs meanwhile. DeadlineExceeded: those that ran did not
  // end in ShardOptions::patience.

  // At a replica: applies what its shard did. What it has applied already is left alone, so that it
  // may be sent again. FailedPrecondition: it is not the next one.
  absl::Status Apply(const AppliedPush& push);

  // In an ordered shard on_applied has been called for all up to this version, and for none after.
  // Values share memory with the variables until those change. FailedPrecondition: a variable has
  // no value yet.
  absl::StatusOr<ShardState> Capture();
  // Takes `state` over, also the names that were applied. Pushes that wait end with Unavailable.
  // NotFound, InvalidArgument: a variable is missing, or there is none of the name, or it does not
  // fit; nothing has changed then.
  absl::Status Restore(ShardState state);
  // The values of some variables; NotFound suggests near names.
  absl::StatusOr<std::vector<Tensor>> Read(const std::vector<std::string>& variables);
  // Gives some variables their values, which is no update. Errors as Restore.
  absl::Status Write(std::vector<std::pair<std::string, Tensor>> variables);

  int64_t version() const;
  // Grows with each change of what Capture gives: pushes, Write, Restore.
  int64_t changes() const;
  // The names of the variables, in the order of their definition.
  std::vector<std::string> variables() const;
  ShardStatus status() const;
  // Of each client that pushed, the newest sequence that was applied.
  std::vector<PushId> newest() const;

  // Ends all calls that wait with `reason`, and refuses new ones.
  void Close(const absl::Status& reason);

 private:
  class Impl;
  explicit Shard(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_H_
