// A place where a pass waits for other threads: a lock, a condition variable, and the cancellation
// that ends the wait.
#ifndef TANDEM_RUNTIME_INPUT_WAITING_H_
#define TANDEM_RUNTIME_INPUT_WAITING_H_

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/kernel/cancellation.h"

namespace tandem::data {

// Wakes all waiters of `changed` when `cancellation` is cancelled. They look at it themselves.
//
// Lifetime: all three outlive this. REQUIRES: not destroyed with `mu` held.
class CancellationWake {
 public:
  CancellationWake(CancellationManager* cancellation, Mutex* mu, CondVar* changed)
      : cancellation_(cancellation), token_(cancellation->NewToken()) {
    registered_ = cancellation->Register(token_, [mu, changed] {
      MutexLock lock(*mu);
      changed->NotifyAll();
    });
  }
  ~CancellationWake() {
    if (registered_) cancellation_->Deregister(token_);
  }
  CancellationWake(const CancellationWake&) = delete;
  CancellationWake& operator=(const CancellationWake&) = delete;

 private:
  CancellationManager* const cancellation_;
  const CancellationManager::Token token_;
  bool registered_ = false;
};

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_WAITING_H_
