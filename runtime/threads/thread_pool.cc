#include "runtime/threads/thread_pool.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/threads/cpu_count.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/spin.h"
#include "runtime/threads/start_thread.h"

namespace tandem {
ThreadPool::ThreadPool(std::string name, int max_running)
    : name_(std::move(name)), ring_(64), max_running_(max_running) {
  assert(max_running >= 1);
}

ThreadPool::~ThreadPool() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mu_);
    StartThreadsLocked();
    ending_ = true;
    threads = std::move(threads_);
    wake_.NotifyAll();
  }
  if (threads.empty()) RunWorker();  // The system grants no thread.
  for (std::thread& thread : threads) thread.join();
}

void ThreadPool::PushLocked(Work work) {
  if (size_ == ring_.size()) {
    std::vector<Work> longer(ring_.size() * 2);
    for (size_t i = 0; i < size_; ++i) longer[i] = std::move(ring_[(head_ + i) % size_]);
    ring_ = std::move(longer);
    head_ = 0;
  }
  ring_[(head_ + size_) % ring_.size()] = std::move(work);
  queued_.store(++size_, std::memory_order_relaxed);
}

ThreadPool::Work ThreadPool::PopLocked() {
  Work work = std::move(ring_[head_]);
  ring_[head_] = nullptr;
  head_ = (head_ + 1) % ring_.size();
  queued_.store(--size_, std::memory_order_relaxed);
  return work;
}

void ThreadPool::StartThreadsLocked() {
  // Idle threads are about to take one closure each.
  size_t unserved = size_ > static_cast<size_t>(idle_) ? size_ - idle_ : 0;
  while (unserved-- > 0 && static_cast<int>(threads_.size()) < max_running_) {
    std::thread thread =
        StartThread(absl::StrCat(name_, "-", threads_.size()), [this] { RunWorker(); });
    if (!thread.joinable()) return;
    threads_.push_back(std::move(thread));
  }
}

void ThreadPool::Schedule(Work work) {
  MutexLock lock(mu_);
  assert(!ending_ || running_ > 0);
  PushLocked(std::move(work));
  if (!RunnableLocked()) return;  // Whoever ends its closure takes the next.
  if (!ending_ && static_cast<size_t>(idle_) < size_) StartThreadsLocked();
  if (idle_ > 0 && !(spinning_ && size_ == 1)) wake_.NotifyOne();
}

bool ThreadPool::RunnableLocked() const { return size_ > 0 && running_ < max_running_; }

bool ThreadPool::WaitForWorkLocked() {
  if (RunnableLocked()) return true;
  ++idle_;
  if (!spinning_ && !ending_) {
    spinning_ = true;
    mu_.Unlock();
    // One worker at a time, and only on a core that would idle.
    SpinUntil([this] { return queued_.load(std::memory_order_relaxed) > 0; },
              [] { return RunTokens::Process().HasFree(); });
    mu_.Lock();
    spinning_ = false;
  }
  while (!RunnableLocked() && !(ending_ && size_ == 0)) wake_.Wait(mu_);
  --idle_;
  return RunnableLocked();
}

void ThreadPool::RunWorker() {
  mu_.Lock();
  while (WaitForWorkLocked()) {
    Work work = PopLocked();
    ++running_;
    mu_.Unlock();
    {
      ScopedRunToken token;
      work();
      work = nullptr;  // What it captured dies outside the lock.
    }
    mu_.Lock();
    --running_;
  }
  wake_.NotifyAll();  // The pool ends: so do those that waited for this thread's closure.
  mu_.Unlock();
}

void ThreadPool::SetMaxRunning(int max_running) {
  assert(max_running >= 1);
  MutexLock lock(mu_);
  max_running_ = max_running;
  StartThreadsLocked();
  wake_.NotifyAll();
}

int ThreadPool::max_running() const {
  MutexLock lock(mu_);
  return max_running_;
}

int ThreadPool::thread_count() const {
  MutexLock lock(mu_);
  return static_cast<int>(threads_.size());
}

ThreadPool& ExecutorPool() {
  static ThreadPool* const pool = new ThreadPool("tandem-exec", CpuCount());
  return *pool;
}

}  // namespace tandem
