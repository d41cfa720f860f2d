// FaultPlan: where in its training a process kills itself, for tests that want it dead at that very
// moment. What a test wants at any moment it does from outside.
//
//   1:step:30       worker 1, in the forward pass of step 30: the others wait in its reductions
//   chief:after:30  the chief, when it has completed step 30 and before the others hear of it
//
// Places: start, step, after, validate, save, end (see Place). Each fault happens once in a job,
// however often its processes are started again: what has happened is a file, which also shows the
// test that it has.
#ifndef TANDEM_TESTS_MULTI_WORKER_FAULT_PLAN_H_
#define TANDEM_TESTS_MULTI_WORKER_FAULT_PLAN_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::testing {

enum class Place {
  kStart,     // Before there is a strategy.
  kStep,      // In the forward pass of a step.
  kAfter,     // Between a step and what the others are told of it.
  kValidate,  // In the first batch of a validation after the step.
  kSave,      // While the first checkpoint after the step is being written.
  kEnd,       // After the training, when the others have ended.
};

// Threads: any. Steps count from 1.
class FaultPlan {
 public:
  // `text`: faults with commas between; empty: none. `folder` is where their files are. `worker`:
  // the number of this one.
  static absl::StatusOr<FaultPlan*> Make(const std::string& text, const std::string& folder,
                                         int worker);
  // That of this process; there is none until Make.
  static FaultPlan* Get();

  void set_is_chief(bool is_chief) { is_chief_ = is_chief; }
  // This process is at the place; kills it if that is planned.
  void Reach(Place place, int64_t step);
  // A save of a checkpoint begins: kills the process, if that is planned, before its index, and so
  // the checkpoint, gets its name.
  void BeginSave(int64_t step);
  // A file is about to get this name.
  void Rename(absl::string_view to);
  // The last step that this process has begun.
  int64_t step() const { return step_; }
  void set_step(int64_t step) { step_ = step; }

 private:
  struct Fault {
    std::string name;  // As it was given.
    int worker = 0;    // -1: the chief.
    Place place = Place::kStart;
    int64_t step = 0;
  };

  FaultPlan(std::string folder, int worker) : folder_(std::move(folder)), worker_(worker) {}

  // Null: none is due.
  const Fault* Due(Place place, int64_t step) const;
  // Leaves a file that says `what`, and is no more.
  [[noreturn]] void Happen(const Fault& fault, absl::string_view what) const;
  std::string FileOf(const Fault& fault) const;

  const std::string folder_;
  const int worker_;
  std::vector<Fault> faults_;
  std::atomic<bool> is_chief_{false};
  std::atomic<const Fault*> due_save_{nullptr};
  std::atomic<int64_t> step_{0};
};

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_MULTI_WORKER_FAULT_PLAN_H_
