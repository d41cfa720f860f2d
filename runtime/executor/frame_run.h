// FrameRun: a run of a plan with TensorFlow 1's control flow.
//
// A value is alive or dead. Switch lets its value out alive at one output and dead at the others; a
// node with a dead input does not run and makes its outputs dead; Merge takes the first value that
// is alive. Enter carries a value into a new iteration 0 of a frame, NextIteration into the next
// iteration, Exit out into the iteration in which the loop began. (These semantics are those of the
// paper "Dynamic Control Flow in Large-Scale Machine Learning", Yu et al., 2018.)
//
// One lock guards the bookkeeping of a run; kernels run outside it.
#ifndef TANDEM_RUNTIME_EXECUTOR_FRAME_RUN_H_
#define TANDEM_RUNTIME_EXECUTOR_FRAME_RUN_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/base/mutex.h"
#include "runtime/executor/step_run.h"

namespace tandem {

struct FrameInstance;

// One round of a loop.
struct Iteration {
  FrameInstance* frame = nullptr;
  int64_t number = 0;
  std::vector<int32_t> pending;  // By local number of the node; see Pending.
  std::unique_ptr<Slot[]> slots;
  std::unique_ptr<Slot[]> dereferenced;
  // Of a Merge whose value came before its last control edge: which input. By local number.
  std::map<int, int32_t> decided;
  int outstanding = 0;                                   // Tasks that are ready or running here.
  std::vector<std::unique_ptr<FrameInstance>> children;  // Loops that began here and go on.
};

// One execution of a loop.
struct FrameInstance {
  struct Value {  // On its way into an iteration that does not exist yet.
    int32_t node;
    Tensor value;
    RefPtr<Variable> reference;
  };

  int index = 0;    // Into FrameLayout::frames.
  uint64_t id = 0;  // See frame_id.h.
  FrameInstance* parent = nullptr;
  Iteration* parent_iteration = nullptr;
  int missing_enters = 0;
  std::deque<std::unique_ptr<Iteration>> iterations;  // Those alive, the oldest first.
  std::vector<Value> constants;                       // Of Enters whose value all iterations see.
  std::vector<Value> deferred;                        // NextIterations that found the window full.
  std::vector<int32_t> dead_exits;                    // Of the newest iteration.
  std::vector<int32_t> live_exits;                    // A loop is left once.
};

class FrameRun final : public StepRun {
 public:
  explicit FrameRun(const Plan& plan);

  void Start(StepEnvironment* environment, int call_depth, std::vector<Tensor> args,
             Done done) override;
  void Execute(const Task& task) override;
  std::vector<std::string> Waiting() const override;

 private:
  using Ready = absl::InlinedVector<Task, 8>;
  struct FrameInvocation : Invocation {
    std::vector<Slot*> pointers;
  };

  void OnDone(Invocation& invocation, absl::Status status) override;
  // Runs the kernel of a node that is alive, or a send, and neither Merge, Enter, Exit nor
  // NextIteration.
  void RunKernel(const Task& task);
  void Recycle(FrameInvocation* invocation);
  void CompleteKernel(const Task& task, const absl::Status& status);
  // The executor does the work of these itself: it is moving a value.
  void PassMerge(const Task& task);
  void PassThrough(const Task& task);
  absl::Status PassThroughLocked(const Task& task, FrameInstance::Value value, Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PassDead(const Task& task);

  // Ends a task and submits what became ready; the last use of this object by the caller.
  void EndTask(const Task& task, const Ready& ready);

  // The value of a task's input `i`, taken out of its slot if this is the last use. Errors are
  // those of reading a reference; the caller makes the run fail, outside the lock.
  absl::Status TakeInputLocked(const Task& task, int i, FrameInstance::Value* value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReleaseInputsLocked(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReleaseUseLocked(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Puts a value into the output slot of a node in `iteration` and tells the consumers.
  void PutLocked(Iteration& iteration, const FrameInstance::Value& value, Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PutDeadLocked(Iteration& iteration, int32_t node, Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the consumers of a node whose output slots in `iteration` are set.
  void PropagateLocked(Iteration& iteration, int32_t node, bool node_is_dead, Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DeliverLocked(Iteration& iteration, int32_t from, const FrameLayout::Edge& edge,
                     bool is_dead, Ready& ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  FrameInstance& ChildFrameLocked(Iteration& iteration, int frame, Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Iteration& NewIterationLocked(FrameInstance& frame, Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Lets iterations end that have nothing left to do, and the loop with the last of them.
  void CleanUpLocked(FrameInstance* frame, Ready& ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RecycleLocked(std::unique_ptr<Iteration> iteration, int frame)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void Finish() override;

  const FrameLayout& layout_;
  Slot dead_;  // The input of sends that run dead.

  mutable Mutex mu_;
  FrameInstance root_ ABSL_GUARDED_BY(mu_);
  std::vector<std::vector<std::unique_ptr<Iteration>>> spare_iterations_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<FrameInvocation>> spare_invocations_ ABSL_GUARDED_BY(mu_);
  // Those of kernels that run, also asynchronous ones; owned by the call that runs them.
  std::set<const FrameInvocation*> running_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_FRAME_RUN_H_
