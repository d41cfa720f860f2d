// Run tokens: whoever computes holds one, and there are as many as cores.
//
// Executor threads, helpers of inner loops, the queue of a SIM device and input stages all take a
// token before they compute and give it up before they wait. So N replicas on C cores never compute
// on more than C threads, however many threads exist.
//
//   ScopedRunToken token;                 // waits until a core is free
//   Compute();
//   {
//     ScopedRunTokenRelease released;     // the core is somebody else's meanwhile
//     queue.WaitForElement();
//   }                                     // waits for a token again
//   Compute();
//
// A thread holds one token or none: the scopes know which (a thread-local flag), so that scopes
// inside scopes cost and change nothing.
//
// The one rule: a holder never waits for another thread without giving its token up, except for a
// spin of some microseconds. Hence a token always becomes free in finite time, and waiting for one
// needs no deadline and no cancellation.
//
// Order     Newcomers may overtake a waiter for its first millisecond, because handing a token to a
//           sleeping thread idles a core for 50 to 200 microseconds on virtual machines. Then it
//           gets the next token.
// Threads   Any thread may call anything.
#ifndef TANDEM_RUNTIME_THREADS_RUN_TOKENS_H_
#define TANDEM_RUNTIME_THREADS_RUN_TOKENS_H_

#include <atomic>
#include <deque>

#include "core/base/mutex.h"

namespace tandem {

// The counter itself, which knows nothing of scopes and thread-locals. A test may make its own.
class RunTokens {
 public:
  explicit RunTokens(int capacity);
  RunTokens(const RunTokens&) = delete;
  RunTokens& operator=(const RunTokens&) = delete;

  // The process's own: CpuCount() tokens. Never destroyed.
  static RunTokens& Process();

  // One atomic operation while a token is free.
  void Acquire();
  // All of `count` tokens, or none and false.
  bool TryAcquire(int count = 1);
  // REQUIRES: the caller took a token that it has not given back.
  void Release();

  int capacity() const { return capacity_.load(std::memory_order_relaxed); }

  // Hints, outdated when they return. While a token is free a core is idle and a short spin steals
  // from nobody; while somebody waits, spinning is a waste.
  int free_now() const { return free_.load(std::memory_order_relaxed); }
  bool HasFree() const { return free_now() > 0; }
  bool HasWaiters() const { return waiting_.load(std::memory_order_relaxed) > 0; }

  // The most tokens that were held at once since the last reset.
  int high_water() const { return high_water_.load(std::memory_order_relaxed); }
  void ResetHighWater();

  // Changes the number of tokens. When more are held at the time, the surplus vanishes as they are
  // given back. For tests, and for programs that divide the cores themselves before they start.
  // REQUIRES: capacity >= 1.
  void SetCapacity(int capacity);

 private:
  struct Waiter {
    CondVar wake;
    bool woken = false;     // Came to the front and may try.
    bool granted = false;   // Was given a token.
    bool starving = false;  // Is not overtaken any more.
  };

  bool TryTake(int count);
  void NoteHeld(int free_now);
  // Gives free tokens to the front of the queue, or wakes it to fetch one itself.
  void WakeFrontLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<int> capacity_;
  // Free tokens; negative after SetCapacity took away more than were free.
  std::atomic<int> free_;
  // The length of queue_, changed under mu_; read without it.
  std::atomic<int> waiting_{0};
  // The front of the queue is starving: newcomers queue up behind it.
  std::atomic<bool> closed_{false};
  std::atomic<int> high_water_{0};

  Mutex mu_;
  std::deque<Waiter*> queue_ ABSL_GUARDED_BY(mu_);
};

// True when the calling thread holds one of the process's tokens.
bool ThisThreadHoldsRunToken();

// Holds one of the process's tokens for a scope; nothing when the thread holds one already.
class ScopedRunToken {
 public:
  ScopedRunToken();
  ~ScopedRunToken();
  ScopedRunToken(const ScopedRunToken&) = delete;
  ScopedRunToken& operator=(const ScopedRunToken&) = delete;

 private:
  const bool took_;
};

// Takes over a token that another thread got for this one with RunTokens::Process().TryAcquire(),
// and gives it back at the end. REQUIRES: this thread holds none.
class AdoptedRunToken {
 public:
  AdoptedRunToken();
  ~AdoptedRunToken();
  AdoptedRunToken(const AdoptedRunToken&) = delete;
  AdoptedRunToken& operator=(const AdoptedRunToken&) = delete;
};

// Gives the thread's token up for a scope, usually a wait, and then waits for one again; nothing
// when the thread holds none.
// REQUIRES: no lock that a token's holder may want is held at the end of the scope.
class ScopedRunTokenRelease {
 public:
  ScopedRunTokenRelease();
  ~ScopedRunTokenRelease();
  ScopedRunTokenRelease(const ScopedRunTokenRelease&) = delete;
  ScopedRunTokenRelease& operator=(const ScopedRunTokenRelease&) = delete;

 private:
  const bool gave_up_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREADS_RUN_TOKENS_H_
