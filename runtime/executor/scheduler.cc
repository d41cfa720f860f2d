#include "runtime/executor/scheduler.h"

#include <utility>

#include "absl/time/clock.h"
#include "runtime/executor/step_run.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/thread_pool.h"

namespace tandem {
namespace {

// Below this a task is not worth another thread.
constexpr int64_t kHandOverNanoseconds = 60'000;

thread_local Worker* current_worker = nullptr;

}  // namespace

Worker::Worker(StepScheduler* scheduler) : scheduler_(scheduler), outer_(current_worker) {
  tasks_.reserve(64);
  current_worker = this;
}

Worker::~Worker() { current_worker = outer_; }

Worker* Worker::Current() { return current_worker; }

void StepScheduler::Submit(const Task& task, int64_t nanoseconds) {
  Worker* const worker = Worker::Current();
  const bool is_local = worker != nullptr && worker->scheduler_ == this;
  if (is_local &&
      (nanoseconds < kHandOverNanoseconds || worker->empty() || !RunTokens::Process().HasFree())) {
    worker->Push(task);
    return;
  }
  // Once the task can be seen the step may end on another thread.
  const RefPtr<StepScheduler> self = RefPtr<StepScheduler>::Share(this);
  MutexLock lock(mu_);
  shared_.push_back(task);
  if (driver_waits_) {
    changed_.NotifyOne();
  } else if (is_local || !has_driver_) {
    WakeHelperLocked();
  } else if (nanoseconds >= kHandOverNanoseconds && RunTokens::Process().HasFree()) {
    WakeHelperLocked();
  }
  // Else the driver is at work and looks at the shared queue before it waits.
}

void StepScheduler::WakeHelperLocked() {
  // With a driver there is somebody who comes to look; helpers are then as many as there are cores
  // left. Without one, somebody has to.
  const int limit =
      has_driver_ ? RunTokens::Process().capacity() - 1 : RunTokens::Process().capacity();
  if (helpers_ >= limit) return;
  ++helpers_;
  Ref();  // RunHelper's.
  ExecutorPool().Schedule([this] { RunHelper(); });
}

void StepScheduler::RunHelper() {
  const RefPtr<StepScheduler> self(this);
  Worker worker(this);
  for (;;) {
    Drain(worker, absl::InfiniteFuture());
    MutexLock lock(mu_);
    if (shared_.empty()) {
      --helpers_;
      return;
    }
  }
}

bool StepScheduler::TakeShared(Task* task) {
  MutexLock lock(mu_);
  if (shared_.empty()) return false;
  *task = shared_.front();
  shared_.pop_front();
  return true;
}

bool StepScheduler::Drain(Worker& worker, absl::Time deadline) {
  const bool has_deadline = deadline != absl::InfiniteFuture();
  // Reading the clock before every task would cost as much as a small task does.
  constexpr int kTasksPerLook = 64;
  int tasks = 0;
  for (;;) {
    while (!worker.empty()) {
      if (has_deadline && ++tasks % kTasksPerLook == 0 && absl::Now() >= deadline) {
        MutexLock lock(mu_);
        while (!worker.empty()) shared_.push_back(worker.Pop());
        return false;
      }
      const Task task = worker.Pop();
      task.run->Execute(task);
    }
    Task task;
    if (!TakeShared(&task)) return true;
    worker.Push(task);
  }
}

bool StepScheduler::DriveUntilFinished(absl::FunctionRef<void()> begin, absl::Time deadline) {
  ScopedRunToken token;
  Worker worker(this);
  {
    MutexLock lock(mu_);
    has_driver_ = true;
  }
  begin();
  for (;;) {
    const bool drained = Drain(worker, deadline);
    MutexLock lock(mu_);
    if (!drained && !finished_) {
      has_driver_ = false;
      return false;
    }
    while (shared_.empty() && !finished_) {
      driver_waits_ = true;
      bool in_time = true;
      mu_.Unlock();
      {
        // The token is somebody else's while this thread waits.
        ScopedRunTokenRelease released;
        mu_.Lock();
        while (shared_.empty() && !finished_ && in_time) {
          in_time = changed_.WaitUntil(mu_, deadline);
        }
        mu_.Unlock();
      }
      mu_.Lock();
      driver_waits_ = false;
      if (!in_time && shared_.empty() && !finished_) {
        has_driver_ = false;
        return false;
      }
    }
    if (finished_) {
      has_driver_ = false;
      return true;
    }
  }
}

void StepScheduler::Reset() {
  MutexLock lock(mu_);
  finished_ = false;
}

void StepScheduler::Finish() {
  MutexLock lock(mu_);
  finished_ = true;
  changed_.NotifyAll();
}

}  // namespace tandem
