#include "tests/cancellation/waiting_step.h"

#include <thread>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "core/kernel/cancellation.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::Status ReachedCompute(KernelContext&) {
  Reached().Raise();
  return absl::OkStatus();
}
TANDEM_OP("_TestReached").Shape(NoOutputs).Stateful().Cpu(Function(ReachedCompute));

}  // namespace

void Signal::Raise() {
  MutexLock lock(mu_);
  raised_ = true;
  changed_.NotifyAll();
}

void Signal::Await() {
  MutexLock lock(mu_);
  while (!raised_) changed_.Wait(mu_);
}

void Signal::Clear() {
  MutexLock lock(mu_);
  raised_ = false;
}

Signal& Reached() {
  static Signal* const signal = new Signal;
  return *signal;
}

absl::Status RunAndCancel(const std::function<absl::Status(const RunOptions& options)>& run,
                          const std::function<void()>& cancelled) {
  Reached().Clear();
  CancellationManager cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  options.timeout = absl::Minutes(1);
  std::thread canceller([&] {
    Reached().Await();
    cancellation.Cancel(absl::AbortedError("enough"));
    if (cancelled) cancelled();
  });
  const absl::Status status = run(options);
  // A run that failed before it came to the point would leave the canceller waiting.
  Reached().Raise();
  canceller.join();
  return status;
}

void ExpectCancellable(Session& session, const std::string& target) {
  SCOPED_TRACE(target);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(RunAndCancel([&](const RunOptions& options) {
                return session.Run(options, {}, {}, {target}, nullptr).status();
              }),
              absl::AbortedError("enough"));
  }
}

void ExpectNamedAtDeadline(Session& session, const std::string& target) {
  absl::Status status;
  // On a busy machine a short deadline may come before it waits; a longer one follows.
  for (absl::Duration timeout = absl::Milliseconds(20); timeout < absl::Seconds(20); timeout *= 4) {
    RunOptions options;
    options.timeout = timeout;
    status = session.Run(options, {}, {}, {target}, nullptr).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    if (absl::StrContains(status.message(), target)) return;
  }
  FAIL() << status;
}

}  // namespace tandem
