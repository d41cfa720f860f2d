// Locks that the compiler and the thread sanitizer can check.
//
// Thin wrappers over std::mutex and std::condition_variable that carry Abseil's thread
// annotations, so that clang's -Wthread-safety proves each guarded access. absl::Mutex (and
// what is built on it: Notification, BlockingCounter) is not used, because packaged builds of
// it are not instrumented and the thread sanitizer then reports races on correctly locked data.
//
//   class Counter {
//    public:
//     void Add() {
//       MutexLock lock(mu_);
//       ++value_;
//       changed_.NotifyAll();
//     }
//    private:
//     Mutex mu_;
//     CondVar changed_;
//     int value_ ABSL_GUARDED_BY(mu_) = 0;
//   };
#ifndef TANDEM_CORE_BASE_MUTEX_H_
#define TANDEM_CORE_BASE_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tandem {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mu_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

// Holds a Mutex for a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// A condition variable. Waits may end spuriously: test the condition in a loop.
class CondVar {
 public:
  // REQUIRES: `mu` is held by the caller. It is released while waiting and held again on return.
  void Wait(Mutex& mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }

  // As Wait, but returns false when `deadline` passed. absl::InfiniteFuture() waits for ever.
  // The length of the wait is fixed when it begins, on the steady clock: setting the system's clock
  // does not change it. Code that is tested with a fake clock does not wait here.
  bool WaitUntil(Mutex& mu, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (deadline == absl::InfiniteFuture()) {
      Wait(mu);
      return true;
    }
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    // Far enough for any program, and no overflow in the library's arithmetic.
    constexpr absl::Duration kLongest = absl::Hours(24 * 365);
    const absl::Duration wait = std::min(deadline - absl::Now(), kLongest);
    const std::cv_status status = cv_.wait_for(lock, absl::ToChronoNanoseconds(wait));
    lock.release();
    return status == std::cv_status::no_timeout;
  }

  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

// An event that happens once. Threads: all methods may be called from any thread; an Event may be
// destroyed once Wait has returned true in the destroying thread.
class Event {
 public:
  void Set() {
    MutexLock lock(mu_);
    set_ = true;
    changed_.NotifyAll();  // Under the lock, so that a waiter may destroy this at once.
  }

  bool IsSet() const {
    MutexLock lock(mu_);
    return set_;
  }

  // Returns false when `deadline` passed before Set.
  bool Wait(absl::Time deadline = absl::InfiniteFuture()) {
    MutexLock lock(mu_);
    while (!set_) {
      if (!changed_.WaitUntil(mu_, deadline)) return set_;
    }
    return true;
  }

 private:
  mutable Mutex mu_;
  CondVar changed_;
  bool set_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_MUTEX_H_
