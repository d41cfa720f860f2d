// A pool of threads that run closures in the order they came, and the process's own such pool.
//
// Threads    are started when work comes and none is idle, up to max_running().
// Closures   may schedule more, and may not wait for other closures of the pool: one thread must be
//            enough for everything.
// Tokens     A worker holds a run token while it runs a closure (see run_tokens.h).
// Allocation Scheduling a closure whose captures fit into two pointers allocates nothing, once the
//            queue has grown to its greatest length.
// Any thread may call any method.
#ifndef TANDEM_RUNTIME_THREADS_THREAD_POOL_H_
#define TANDEM_RUNTIME_THREADS_THREAD_POOL_H_

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"

namespace tandem {

class ThreadPool {
 public:
  using Work = absl::AnyInvocable<void()>;

  // `name` is what tools show for the threads. REQUIRES: max_running >= 1.
  ThreadPool(std::string name, int max_running);
  // Runs what is still queued, and joins. REQUIRES: not called from a thread of this pool.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Queues `work`. If the system grants not even one thread, the work stays queued until a later
  // call gets one (the log says so).
  void Schedule(Work work);

  // Closures that may run at once. Closures that run already are not disturbed.
  // REQUIRES: max_running >= 1.
  void SetMaxRunning(int max_running);
  int max_running() const;

  // Threads started so far.
  int thread_count() const;

  // Whether closures wait for a thread: a hint, outdated when it returns.
  bool HasQueued() const { return queued_.load(std::memory_order_relaxed) > 0; }

 private:
  void RunWorker();
  // Waits until there is work that may run; false: the pool ends.
  bool WaitForWorkLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool RunnableLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartThreadsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PushLocked(Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Work PopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;

  // Equals size_; for the worker that spins.
  std::atomic<size_t> queued_{0};

  mutable Mutex mu_;
  CondVar wake_;
  // A ring: std::deque would allocate a block every few closures.
  std::vector<Work> ring_ ABSL_GUARDED_BY(mu_);
  size_t head_ ABSL_GUARDED_BY(mu_) = 0;
  size_t size_ ABSL_GUARDED_BY(mu_) = 0;
  int max_running_ ABSL_GUARDED_BY(mu_);
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  int idle_ ABSL_GUARDED_BY(mu_) = 0;           // Threads that sleep or spin.
  bool spinning_ ABSL_GUARDED_BY(mu_) = false;  // One of them spins; it will look at the queue.
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

// The pool that executors run kernels on: CpuCount() threads. It is never destroyed: its threads
// are parked when the process exits. Joining them would need an order among static destructors, and
// whoever still has steps running then would hang; a parked thread touches nothing, is reachable
// for the leak checker, and is no leak to the thread sanitizer.
ThreadPool& ExecutorPool();

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREADS_THREAD_POOL_H_
