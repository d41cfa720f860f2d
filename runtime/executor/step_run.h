// StepRun: one run of one plan. A step is the run of its session's plan and, on the same scheduler,
// the runs of the functions that it calls.
#ifndef TANDEM_RUNTIME_EXECUTOR_STEP_RUN_H_
#define TANDEM_RUNTIME_EXECUTOR_STEP_RUN_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/kernel/kernel.h"
#include "runtime/executor/plan.h"
#include "runtime/executor/scheduler.h"
#include "runtime/executor/trace.h"

namespace tandem {

// What is shared by the runs of one step. Kernels see the StepContext part; every StepContext that
// they meet in this runtime is a StepEnvironment.
struct StepEnvironment : StepContext {
  RefPtr<StepScheduler> scheduler;
  StepTracer* tracer = nullptr;  // Null when the step is not traced.
  // Nobody drives the step and waits for its end. The end is then a task: it must not come on the
  // stack of whoever cancels the step, since the step's cancellation goes with it.
  bool is_driven = true;
  // The error of a run whose result is dead.
  absl::StatusCode dead_fetch_code = absl::StatusCode::kInvalidArgument;
};

class StepRun {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;

  virtual ~StepRun() = default;

  // Begins the run; `done` is called once with the results, after the last node has ended, outside
  // locks. The run may be deleted or started again from within `done`. `environment` lives until
  // then. `call_depth`: how many calls of functions the run lies in; 0 for the step's own plan.
  // REQUIRES: as many args as the plan has, of the right types; no run is going on.
  virtual void Start(StepEnvironment* environment, int call_depth, std::vector<Tensor> args,
                     Done done) = 0;

  // Runs one ready task; called by the scheduler's threads.
  virtual void Execute(const Task& task) = 0;

  // The nodes that have been started and wait for something, for the message of a step that does
  // not end: "node (op)". May be called from any thread while the run goes on.
  virtual std::vector<std::string> Waiting() const = 0;

  const Plan& plan() const { return plan_; }
  // What the task took lately, in nanoseconds; 0 when that is not known.
  int64_t CostOf(const Task& task) const {
    return task.node < 0
               ? 0
               : plan_.costs[static_cast<size_t>(task.node)].load(std::memory_order_relaxed);
  }
  // The same as a bound on how long the task keeps its thread: the largest number when that is not
  // known.
  int64_t KnownCostOf(const Task& task) const;

 protected:
  explicit StepRun(const Plan& plan) : plan_(plan) {}

  // Makes the first error of the run stick and cancels the step. `node`: -1 for none. `where` is
  // said behind the node's name: " in round 3 of frame 'loop'".
  void Fail(int32_t node, const absl::Status& status, absl::string_view where = "");
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  absl::Status TakeError();

  // One execution of a node, for both kinds of runs. Lives until the node has ended.
  struct Invocation {
    StepRun* run = nullptr;
    Task task;
    KernelContext context;
    int64_t started = 0;             // For traces and costs, in nanoseconds; 0: not measured.
    std::atomic<bool> waits{false};  // An asynchronous kernel that has not ended.
  };
  class CallOnce;
  // Runs the node's kernel or copy. Asynchronous kinds call OnDone(invocation, status).
  // Returns true when the node ended at once, with its status.
  bool Invoke(Invocation& invocation, absl::Status* status);
  // Called by asynchronous invocations when they end, on any thread.
  virtual void OnDone(Invocation& invocation, absl::Status status) = 0;

  // Replaces references by their values where the kernel wants values. `slots` are those that the
  // plan's inputs count in, `dereferenced` the extra ones.
  absl::Status Dereference(const PlanNode& node, Slot* slots, Slot* dereferenced,
                           Slot** pointers) const;
  // The result behind a slot.
  absl::StatusOr<Tensor> TakeResult(Slot& slot) const;

  void Measure(const Invocation& invocation);
  std::string Describe(const Invocation& invocation) const;

  // Called once nothing is outstanding any more. The end of a called function is a task of its own:
  // what its caller does next does not run on top of what the function did last, so that calls,
  // however deep and many, take no room on the stack.
  void End();
  // Hands the results, or the error, to `done_`.
  virtual void Finish() = 0;

  const Plan& plan_;
  StepEnvironment* environment_ = nullptr;
  int call_depth_ = 0;
  Done done_;
  // Whether this run looks at the clock around each node. Doing so every time would cost as much as
  // a small kernel; costs settle within a few runs and are then looked at now and again.
  void DecideWhetherToMeasure();
  bool measures_ = true;
  // Tasks that are ready or running. The run ends when there are none.
  std::atomic<int32_t> outstanding_{0};

 private:
  std::atomic<bool> failed_{false};
  uint32_t runs_ = 0;
  Mutex mu_;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
};

// A run state for the plan; it can be started again when a run has ended.
std::unique_ptr<StepRun> NewStepRun(const Plan& plan);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_STEP_RUN_H_
