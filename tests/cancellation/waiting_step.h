// What tests need that catch a step where it waits.
//
// The op _TestReached raises Reached() when it runs; nodes that run after it are, or are about to
// be, where they wait.
#ifndef TANDEM_TESTS_CANCELLATION_WAITING_STEP_H_
#define TANDEM_TESTS_CANCELLATION_WAITING_STEP_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/thread_pool.h"

namespace tandem {

// Tells a thread that another one has come to a certain point.
class Signal {
 public:
  void Raise();
  void Await();
  void Clear();

 private:
  Mutex mu_;
  CondVar changed_;
  bool raised_ ABSL_GUARDED_BY(mu_) = false;
};

Signal& Reached();

// One executor thread and one token, as long as it lives.
class Narrow {
 public:
  Narrow() {
    ExecutorPool().SetMaxRunning(1);
    RunTokens::Process().SetCapacity(1);
  }
  ~Narrow() {
    RunTokens::Process().SetCapacity(tokens_);
    ExecutorPool().SetMaxRunning(threads_);
  }

 private:
  const int threads_ = ExecutorPool().max_running();
  const int tokens_ = RunTokens::Process().capacity();
};

// A fixture for suites that run with all threads, and with one.
class Cancellation : public ::testing::TestWithParam<bool> {
 protected:
  Cancellation() {
    if (GetParam()) narrow_ = std::make_unique<Narrow>();
  }
  std::unique_ptr<Narrow> narrow_;
};

// Runs `run` with options that time out after a minute, and cancels it with Aborted once it has
// raised Reached(). `cancelled` (may be null) is called right after. Returns what `run` returned.
absl::Status RunAndCancel(const std::function<absl::Status(const RunOptions& options)>& run,
                          const std::function<void()>& cancelled = nullptr);

// Runs `target` many times, cancels it each time once it is, or is about to be, where it waits, and
// expects that it ends with the reason.
void ExpectCancellable(Session& session, const std::string& target);
// Runs `target` until a deadline finds it where it waits, and says so.
void ExpectNamedAtDeadline(Session& session, const std::string& target);

}  // namespace tandem

#endif  // TANDEM_TESTS_CANCELLATION_WAITING_STEP_H_
