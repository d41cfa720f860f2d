// The clock is passed in, so that tests of timeouts need not sleep.
#ifndef TANDEM_CORE_BASE_CLOCK_H_
#define TANDEM_CORE_BASE_CLOCK_H_

#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace tandem {

// Threads: any.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;

  // The machine's clock; lives as long as the process.
  static Clock* Real();
};

// A clock that stands still until it is moved.
class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time start) : now_(start) {}

  absl::Time Now() override {
    MutexLock lock(mu_);
    return now_;
  }
  void Advance(absl::Duration by) {
    MutexLock lock(mu_);
    now_ += by;
  }

 private:
  Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_CLOCK_H_
