#include "runtime/executor/scheduler.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "absl/time/clock.h"
#include "runtime/executor/step_run.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/thread_pool.h"

namespace tandem {
namespace {

// Below this a task is not worth another thread.
constexpr int64_t kHandOverNanoseconds = 60'000;

// For how long others wait for a step that goes on and on.
constexpr int64_t kSliceNanoseconds = 20'000'000;

// For how long BriefWork may hold its thread: about what a hand-over costs.
constexpr int64_t kBriefNanoseconds = 50'000;

constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

// So that a time far away is no overflow of nanoseconds.
constexpr absl::Duration kLongestStep = absl::Hours(24 * 365);

thread_local TaskQueue* current_queue = nullptr;
thread_local BriefWork* current_brief_work = nullptr;
std::atomic<int> brief_workers{0};

// gRPC has half as many threads for its callbacks as there are cores, two at least and 16 at most.
int MostBriefWorkers() { return std::clamp(RunTokens::Process().capacity() / 2 - 1, 1, 15); }

// The memory of the thread's last queue, so that steps do not allocate one each.
thread_local std::vector<Task> spare_tasks;

}  // namespace

TaskQueue::TaskQueue(StepScheduler* scheduler)
    : scheduler_(scheduler), outer_(current_queue), tasks_(std::exchange(spare_tasks, {})) {
  tasks_.reserve(64);
  current_queue = this;
}

TaskQueue::~TaskQueue() {
  constexpr size_t kMostKept = 1 << 15;
  tasks_.clear();
  if (tasks_.capacity() <= kMostKept) spare_tasks = std::move(tasks_);
  current_queue = outer_;
}

TaskQueue* TaskQueue::Current() { return current_queue; }

void StepScheduler::Submit(const Task& task, int64_t nanoseconds) {
  TaskQueue* const queue = TaskQueue::Current();
  const bool is_local = queue != nullptr && queue->scheduler_ == this;
  if (is_local &&
      (nanoseconds < kHandOverNanoseconds || queue->empty() || !RunTokens::Process().HasFree())) {
    queue->Push(task);
    return;
  }
  if (BriefWork* const brief = BriefWork::Current();
      brief != nullptr && queue == nullptr && brief->Take(this, task)) {
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
  RefPtr<StepScheduler> self(this);
  TaskQueue queue(this);
  for (;;) {
    if (!Drain(queue, kNoDeadline, /*is_helper=*/true)) {
      // It goes on when those who wait now have had their turn.
      ExecutorPool().Schedule([this] { RunHelper(); });
      self.release();
      return;
    }
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

void StepScheduler::ShareAll(TaskQueue& queue) {
  MutexLock lock(mu_);
  while (!queue.empty()) shared_.push_back(queue.Pop());
  if (driver_waits_) changed_.NotifyOne();
}

void StepScheduler::WorkBriefly(TaskQueue& queue) {
  int64_t left = kBriefNanoseconds;
  while (!queue.empty()) {
    const Task task = queue.Front();
    left -= std::min(task.run->KnownCostOf(task), kBriefNanoseconds + 1);
    if (left < 0) break;
    queue.Pop();
    task.run->Execute(task);
  }
  if (queue.empty()) return;
  ShareAll(queue);
  MutexLock lock(mu_);
  if (!shared_.empty()) WakeHelperLocked();
}

bool StepScheduler::has_driver() {
  MutexLock lock(mu_);
  return has_driver_;
}

bool StepScheduler::Drain(TaskQueue& queue, int64_t deadline, bool is_helper) {
  // Looking around before every task would cost as much as a small task does, so that it is done
  // when about so many nanoseconds have gone by, as far as the costs of the tasks are known.
  constexpr int64_t kNanosecondsPerLook = 20'000;
  constexpr int64_t kLeastCost = 300;
  int64_t elapsed = 0;
  int64_t others_since = 0;  // When others were seen waiting; 0: none do.
  for (;;) {
    while (!queue.empty()) {
      if (elapsed >= kNanosecondsPerLook) {
        elapsed = 0;
        const bool gives_place = is_helper && ExecutorPool().HasQueued();
        const bool others_wait = gives_place || RunTokens::Process().HasWaiters();
        if (!others_wait) others_since = 0;
        if (others_wait || deadline != kNoDeadline) {
          const int64_t now = MonotonicNanoseconds();
          if (now >= deadline) {
            ShareAll(queue);
            return false;
          }
          if (others_wait && others_since == 0) others_since = now;
          if (others_wait && now - others_since >= kSliceNanoseconds) {
            others_since = 0;
            if (gives_place) {
              ShareAll(queue);
              return false;
            }
            ScopedRunTokenRelease released;
          }
        }
      }
      const Task task = queue.Pop();
      elapsed += std::max(kLeastCost, task.run->CostOf(task));
      task.run->Execute(task);
    }
    Task task;
    if (!TakeShared(&task)) return true;
    queue.Push(task);
  }
}

bool StepScheduler::DriveUntilFinished(absl::FunctionRef<void()> begin, absl::Time deadline) {
  ScopedRunToken token;
  TaskQueue queue(this);
  {
    MutexLock lock(mu_);
    has_driver_ = true;
  }
  const int64_t steady_deadline =
      deadline == absl::InfiniteFuture()
          ? kNoDeadline
          : MonotonicNanoseconds() +
                absl::ToInt64Nanoseconds(std::min(deadline - absl::Now(), kLongestStep));
  begin();
  for (;;) {
    const bool drained = Drain(queue, steady_deadline, /*is_helper=*/false);
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

BriefWork::BriefWork() : outer_(std::exchange(current_brief_work, this)) {}

BriefWork* BriefWork::Current() { return current_brief_work; }

bool BriefWork::Take(StepScheduler* scheduler, const Task& task) {
  // One step a scope.
  if (is_counted_ || scheduler->has_driver()) return false;
  is_counted_ = true;
  if (brief_workers.fetch_add(1) >= MostBriefWorkers()) return false;
  if (!ThisThreadHoldsRunToken()) {
    if (!RunTokens::Process().TryAcquire()) return false;
    holds_token_ = true;
  }
  scheduler_ = RefPtr<StepScheduler>::Share(scheduler);
  queue_.emplace(scheduler);
  queue_->Push(task);
  return true;
}

BriefWork::~BriefWork() {
  if (queue_.has_value()) {
    std::optional<AdoptedRunToken> token;
    if (holds_token_) token.emplace();
    scheduler_->WorkBriefly(*queue_);
    queue_.reset();
  }
  if (is_counted_) brief_workers.fetch_sub(1);
  current_brief_work = outer_;
}

}  // namespace tandem
