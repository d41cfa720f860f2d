// StrategyRunner: the run-time half of a strategy. It starts steps of the graph that the builder
// made (strategies/builder.h), gives each replica its part of the global batch, reports members
// that come and go, and captures and restores the state.
//
// Steps end later than they start, and may end out of order: a strategy of one process ends them
// one by one, a parameter server has many in flight. Whoever drives a runner (strategies/trainer)
// knows nothing of the difference.
//
// A step that ends with Aborted has changed nothing: a member was lost before all of its values had
// arrived. Whoever started it may look at TakeMemberEvents and start it again, with the same input.
// Any other error is the program's, and final.
//
// Every step ends: one whose members wait for one that does not come ends with DeadlineExceeded.
//
// Threads: one drives; `done` of Start may be called on any thread, and CancelSteps from any.
// Lifetime: the builder and the strategy outlive the runner. Its destructor waits for the steps
// that were started.
#ifndef TANDEM_STRATEGIES_RUNNER_H_
#define TANDEM_STRATEGIES_RUNNER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/passes/prune.h"
#include "core/tensor/tensor.h"
#include "runtime/executor/trace.h"

namespace tandem {

// What one step works on.
struct StepInput {
  // The number of the step, from 0; equal at all members.
  int64_t step = 0;
  // The global batch: tensors whose first dimension is the batch, all of the same size. Element i
  // of a batch of B belongs to replica floor(i·R/B) of R, so that every replica has a contiguous
  // range, and an uneven batch leaves some with one element more (or none). The loss divides by B,
  // so that every element counts the same. Where several processes take part it is the same in all
  // of them, and R counts the replicas of all; each takes its own replicas' parts.
  std::vector<Tensor> batch;
  // Fed as they are.
  std::vector<Tensor> values;
  // Filled, before the step ends, with what ran in this process when and where, in place of what it
  // held. Null: the step is not traced. A runner whose steps run elsewhere may leave it alone.
  std::vector<StepTracer::Event>* trace = nullptr;
};

// A member (a device, a worker) that came or went.
struct MemberEvent {
  enum class Kind { kJoined, kLeft };
  Kind kind = Kind::kLeft;
  std::string member;      // "/job:worker/task:1"
  std::string reason;      // "does not answer since 3 s"
  int64_t generation = 0;  // Of the group, from then on.
  bool is_logged = false;  // Whoever noticed it has written it into the log already.
};

// The values of all variables that outlive the process (slots too), by name, in the order in which
// they were created. Does not depend on the strategy.
using StrategyState = std::vector<std::pair<std::string, Tensor>>;

class StrategyRunner {
 public:
  using Result = absl::StatusOr<std::vector<Tensor>>;
  using Done = absl::AnyInvocable<void(Result)>;

  virtual ~StrategyRunner() = default;

  // Gives all variables their initial values.
  virtual absl::Status Initialize() = 0;
  // The same; where it waits for other processes `wants_stop` is asked now and then, on any thread,
  // and ends the wait with Cancelled.
  virtual absl::Status InitializeUnless(const std::function<bool()>& /*wants_stop*/) {
    return Initialize();
  }

  // Makes a kind of step known and compiles it; returns its number. The signature's feeds are, for
  // each tensor of the batch, the placeholders of replica 0, 1, … of this process; after them one
  // for each of StepInput::values.
  virtual absl::StatusOr<int> AddProgram(const RunSignature& signature) = 0;

  // Starts a step. `done` is called once with the fetches, or an error, also when the input does
  // not fit (InvalidArgument).
  virtual void Start(int program, StepInput input, Done done) = 0;
  // Starts a step and waits for its end.
  virtual Result Run(int program, StepInput input);
  // How many steps it takes to keep all members busy. 1: each step waits for the one before it.
  virtual int max_steps_in_flight() const { return 1; }
  // Lets the steps that run end with `reason`, soon; does not wait for them. Steps that are started
  // later are not concerned. A step that is just writing variables may have written some of them.
  virtual void CancelSteps(const absl::Status& reason) = 0;

  // What happened since the last call, in order.
  virtual std::vector<MemberEvent> TakeMemberEvents() { return {}; }

  // REQUIRES for the state, below: no step is running.
  virtual absl::StatusOr<StrategyState> CaptureState() = 0;
  // NotFound: a variable is missing in `state`, or `state` has one that the program has not.
  // InvalidArgument: a type or shape differs. Nothing has changed then.
  virtual absl::Status RestoreState(const StrategyState& state) = 0;
  // The same of values that nobody else needs: variables may take over their memory.
  virtual absl::Status TakeState(StrategyState state) { return RestoreState(state); }
  // What besides the variables decides how this program goes on, under this strategy with as many
  // replicas: the positions of stateful random ops, and the single copies of variables that are
  // synchronized on read. The names are the strategy's own.
  virtual absl::StatusOr<StrategyState> CaptureDetails() { return StrategyState(); }
  // After RestoreState: takes from `details` what this program has, too, and gives the names of the
  // rest, which another strategy saved, or another number of replicas.
  virtual absl::StatusOr<std::vector<std::string>> RestoreDetails(const StrategyState& details);
  // Where variables outlive this process: what the program keeps beside them, so that, when it is
  // started again, it knows where it stood. Only the newest counts; steps may be running.
  virtual bool KeepsNotes() const { return false; }
  // Whether one may be given now; others would come too soon after each other.
  virtual bool WantsNote() { return false; }
  // Returns at once.
  virtual void KeepNote(StrategyState /*note*/) {}
  // The one of an earlier life of the program, from whose variables Initialize went on; once.
  // Empty: there is none.
  virtual absl::StatusOr<StrategyState> TakeNote() { return StrategyState(); }
  // One variable's value, as CaptureState gives it. NotFound suggests near names.
  virtual absl::StatusOr<Tensor> ReadVariable(const std::string& name) = 0;
};

// Replicas [first, first + count) of `all`.
struct ReplicaRange {
  int all = 1;
  int first = 0;
  int count = 1;
};

// Cuts the batch into all replicas' parts, and gives those of some, in the order of a signature's
// feeds (AddProgram). Parts share the batch's memory; with `aligned` those that would not begin at
// a multiple of 64 bytes are copied, since the bits of some libraries' sums depend on the address.
// InvalidArgument: the tensors have no common first size, or there are no such replicas.
absl::StatusOr<std::vector<Tensor>> CutBatch(const std::vector<Tensor>& batch,
                                             const ReplicaRange& replicas, bool aligned);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_RUNNER_H_
