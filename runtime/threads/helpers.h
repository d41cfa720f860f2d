// The second pool of the process: helpers, threads that join a loop or an OpenMP team for a while.
//
// Unlike a thread pool this has no queue. A caller who wants help calls an idle helper, which then
// has the caller's errand and nothing else to do; if it has not begun by the time the caller is
// through without it, the call is taken back. So a helper that wakes slowly delays nobody.
//
// An idle helper spins for a moment (only while a run token is free, that is, on a core that would
// idle) and then sleeps. The one that became idle last is called first: it may still spin, and its
// caches are warm.
//
// Helpers are started when one is called and none is idle, or reserved. They never end: the pool
// grows to the most that were ever needed at once, which is one less than the number of run tokens,
// or than the largest OpenMP team.
// The pool is never destroyed, for the reasons that thread_pool.h gives for the executor's.
#ifndef TANDEM_RUNTIME_THREADS_HELPERS_H_
#define TANDEM_RUNTIME_THREADS_HELPERS_H_

#include <atomic>
#include <limits>
#include <vector>

#include "core/base/mutex.h"

namespace tandem {

// What a helper is called for. Lives until each call was taken back or has ended its Done().
class Errand {
 public:
  // With a run token held, unless the call said kNone.
  virtual void Help() = 0;
  // The helper is free for other calls, its token is given back; it does not touch the errand
  // after this.
  virtual void Done() = 0;

 protected:
  ~Errand() = default;
};

struct Helper;

// Threads: any, for all methods.
class HelperPool {
 public:
  static HelperPool& Process();

  enum class Token {
    kBrought,  // The caller took a token for the helper.
    kNone,     // It works without: for teams larger than the number of tokens.
  };

  // Sends a helper on `errand`. Null when none is idle and the system refuses another thread (which
  // is logged); a token that the caller took is then still the caller's.
  Helper* Call(Errand* errand, Token token);

  // The same, but waits for a helper when the system refuses another thread.
  // REQUIRES: there are helpers that are not the caller's (Reserve), and none of them waits, in
  // turn, for the caller.
  void CallOrWait(Errand* errand, Token token);

  // Starts helpers until there are `wanted`. Returns how many there are, which is less when the
  // system refuses (logged): whoever needs no more of them than this gets them, if not at once.
  int Reserve(int wanted);

  // Takes a call back. True: the helper never began, it will not call Done(), and a token that was
  // brought for it is the caller's again. False: it has begun, and has called Done() or will.
  bool TakeBack(Helper* helper, Errand* errand);

  // Helpers started so far.
  int size() const;

  // From now on starts none beyond `limit`, as if the system refused. For tests.
  void SetLimit(int limit);

 private:
  HelperPool() = default;
  // Starts a helper, with an errand or (null) without. Null when the system refuses.
  Helper* Start(Errand* errand, Token token);
  void RunHelper(Helper* self);

  mutable Mutex mu_;
  std::vector<Helper*> idle_ ABSL_GUARDED_BY(mu_);  // The last one is the last that became idle.
  CondVar became_idle_;                             // For those that wait.
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;
  int size_ ABSL_GUARDED_BY(mu_) = 0;
  int limit_ ABSL_GUARDED_BY(mu_) = std::numeric_limits<int>::max();
};

// Lets the caller wait for its helpers.
//
// Lifetime: may be destroyed once Wait returned, or when nothing was expected.
class HelpersDone {
 public:
  // Before the call that it is about.
  void Expect() { state_.fetch_add(kOne, std::memory_order_relaxed); }
  // A call that was not made, or was taken back. Before the waiter waits.
  void ExpectOneLess() { state_.fetch_sub(kOne, std::memory_order_relaxed); }
  // In Errand::Done.
  void Arrive();
  // Spins for a moment, then sleeps. The thread keeps its run token, since kernels run loops under
  // locks (of variables) that holders of other tokens wait for: to ask for the token again there
  // could deadlock. The helpers have begun, with tokens of their own, and wait for nobody.
  void Wait();

 private:
  // The number that is expected, times two; plus one when the waiter sleeps. One atomic, so that
  // the last one to arrive knows whether it must touch this object again.
  static constexpr unsigned kOne = 2;
  static constexpr unsigned kSleeps = 1;
  std::atomic<unsigned> state_{0};

  Mutex mu_;
  CondVar wake_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREADS_HELPERS_H_
