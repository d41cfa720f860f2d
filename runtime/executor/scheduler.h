// Who runs the ready nodes of a step, and where.
//
// A step is driven by threads that each own a TaskQueue: ready tasks that only this thread
// touches. The thread that called Session::Run is the first; it runs everything that becomes ready,
// without a hand-over, and waits only when nothing is ready. When it has more expensive work at
// hand than it can do at once and a core is idle, it puts some on the shared queue and wakes a
// helper from the executor pool. A hand-over to a sleeping thread costs 50 to 200 µs on virtual
// machines, so only nodes known to take longer are worth one.
//
// Functions that a step calls run on the same scheduler: a call adds tasks, it does not nest on the
// stack. Completions of asynchronous kernels arrive from any thread; they add tasks too.
//
// Threads hold a run token while they run tasks (runtime/threads/run_tokens.h). One thread and one
// token are enough for everything. Steps that do not end do not keep other steps from running: a
// thread that has worked for 20 ms while others waited for a token gives its own up, and a helper
// its place in the pool.
#ifndef TANDEM_RUNTIME_EXECUTOR_SCHEDULER_H_
#define TANDEM_RUNTIME_EXECUTOR_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/ref_counted.h"

namespace tandem {

class StepRun;
struct Iteration;

// A node that is ready to run, or to pass deadness on; or the end of a run.
struct Task {
  static constexpr int32_t kEndOfRun = -1;
  StepRun* run = nullptr;
  Iteration* iteration = nullptr;  // Null in plans without frames.
  int32_t node = 0;                // Or kEndOfRun.
  int32_t merge_input = 0;         // For a Merge: which input came.
  bool is_dead = false;
};

class BriefWork;
class StepScheduler;

// The tasks that one thread has at hand, first in first out. Lives on that thread's stack.
class TaskQueue {
 public:
  explicit TaskQueue(StepScheduler* scheduler);
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // The queue of the calling thread, or null.
  static TaskQueue* Current();

  StepScheduler* scheduler() const { return scheduler_; }
  bool empty() const { return head_ == tasks_.size(); }
  void Push(const Task& task) { tasks_.push_back(task); }
  const Task& Front() const { return tasks_[head_]; }
  Task Pop() {
    const Task task = tasks_[head_++];
    if (head_ == tasks_.size()) {
      tasks_.clear();
      head_ = 0;
    }
    return task;
  }

 private:
  StepScheduler* const scheduler_;
  TaskQueue* const outer_;  // A kernel may run a step of its own on this thread.
  std::vector<Task> tasks_;
  size_t head_ = 0;

  friend class StepScheduler;
};

// One step's threads. Shared by the step's caller, its helpers and its pending completions;
// reference counted because a completion may be the last to let go.
class StepScheduler : public RefCounted {
 public:
  // Adds a ready task. On a thread that drives this step it joins the thread's queue; from
  // elsewhere it wakes the driver, or a helper when there is no driver. `nanoseconds` is what it is
  // expected to take: where it is worth it, an idle core is given the task.
  void Submit(const Task& task, int64_t nanoseconds = 0);

  // Drives the step on the calling thread until Finish, or until `deadline`; then returns false,
  // and may be called again. Calls `begin` first, which adds the step's first tasks. At most one
  // thread drives.
  bool DriveUntilFinished(absl::FunctionRef<void()> begin, absl::Time deadline);
  // Ends DriveUntilFinished. The last thing that a step does with its scheduler.
  void Finish();
  // Makes it ready for another step, after DriveUntilFinished returned true. Helpers of the last
  // step that have not gone to sleep yet may join the next one.
  void Reset();

 private:
  // Runs tasks at hand, then shared ones, until there are none. False: before that, the deadline
  // came, or a helper has to give way to others that wait for its thread; what it had at hand is
  // shared then.
  bool Drain(TaskQueue& queue, int64_t deadline, bool is_helper);
  void ShareAll(TaskQueue& queue);
  bool TakeShared(Task* task);
  // Runs the tasks at hand that are known to be short, for a short time; the others are shared.
  void WorkBriefly(TaskQueue& queue);
  bool has_driver();
  void WakeHelperLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunHelper();

  Mutex mu_;
  CondVar changed_;
  std::deque<Task> shared_ ABSL_GUARDED_BY(mu_);
  int helpers_ ABSL_GUARDED_BY(mu_) = 0;  // Scheduled or running.
  bool has_driver_ ABSL_GUARDED_BY(mu_) = false;
  bool driver_waits_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;

  friend class BriefWork;
};

// A scope in which the calling thread starts a step that nobody drives, and does its first work
// itself when the scope ends, as long as that is known to be short: a hand-over to a sleeping
// thread takes longer than a small step. For threads that must not be held up, those of an RPC
// library for example, and whose caller does not mind that the step may be over before the scope
// is.
//
// What takes longer, or is not known to be short, or may wait goes to helpers. Nothing is done here
// while as many threads as may do it already, so that some of the library's are always left, or
// when no run token is free.
class BriefWork {
 public:
  BriefWork();
  ~BriefWork();
  BriefWork(const BriefWork&) = delete;
  BriefWork& operator=(const BriefWork&) = delete;

 private:
  friend class StepScheduler;

  static BriefWork* Current();
  // The first task of a step. False: somebody else has to do it.
  bool Take(StepScheduler* scheduler, const Task& task);

  BriefWork* const outer_;
  bool is_counted_ = false;          // Among the threads that do this.
  bool holds_token_ = false;         // For the work.
  RefPtr<StepScheduler> scheduler_;  // Of the step that was taken on.
  std::optional<TaskQueue> queue_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_SCHEDULER_H_
