// FlatRun: a run of a plan without frames. Every node runs once.
#ifndef TANDEM_RUNTIME_EXECUTOR_FLAT_RUN_H_
#define TANDEM_RUNTIME_EXECUTOR_FLAT_RUN_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/run_memory.h"
#include "runtime/executor/step_run.h"

namespace tandem {

// All memory that a run needs is taken when the object is made: slots, pending counts, and one
// invocation, context and pointer array a node. Started again, it allocates nothing of its own.
class FlatRun final : public StepRun {
 public:
  explicit FlatRun(const Plan& plan);

  void Start(StepEnvironment* environment, int call_depth, std::vector<Tensor> args,
             Done done) override;
  void Execute(const Task& task) override;
  std::vector<std::string> Waiting() const override;

 private:
  void OnDone(Invocation& invocation, absl::Status status) override;
  // After the node ended: hands its outputs on, then lets go of its inputs. The order matters: an
  // input that the node forwarded must have one owner when the successors look at it.
  void Complete(int32_t node, const absl::Status& status);
  absl::Status PublishOutputs(int32_t node);
  void ReleaseInputs(const PlanNode& node);
  void Submit(int32_t node);
  // One task less is outstanding.
  void Retire();
  void Finish() override;

  // Before the slots, whose values may lie in it.
  RunMemory memory_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Slot[]> dereferenced_;
  std::unique_ptr<std::atomic<int32_t>[]> pending_;
  std::vector<Invocation> invocations_;
  std::vector<Slot*> input_pointers_;  // Parallel to Plan::inputs.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_FLAT_RUN_H_
