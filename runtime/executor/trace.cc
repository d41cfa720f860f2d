#include "runtime/executor/trace.h"

#include <atomic>
#include <chrono>
#include <utility>

namespace tandem {
namespace {

uint64_t ThreadNumber() {
  static std::atomic<uint64_t> next{0};
  thread_local const uint64_t number = next.fetch_add(1);
  return number;
}

}  // namespace

int64_t MonotonicNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void StepTracer::Record(absl::string_view node, absl::string_view op, absl::string_view device,
                        int64_t start_nanoseconds, int64_t end_nanoseconds) {
  Event event{std::string(node), std::string(op), std::string(device),
              start_nanoseconds, end_nanoseconds, ThreadNumber()};
  MutexLock lock(mu_);
  events_.push_back(std::move(event));
}

std::vector<StepTracer::Event> StepTracer::Take() {
  MutexLock lock(mu_);
  return std::exchange(events_, {});
}

}  // namespace tandem
