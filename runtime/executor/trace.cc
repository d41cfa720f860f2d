#include "runtime/executor/trace.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "core/base/log.h"

namespace tandem {
namespace {

// A step may loop for ever; who asked for its trace, also from afar, shall not fill the memory. A
// timeline of as many is beyond what viewers show.
constexpr size_t kMostEvents = size_t{1} << 18;

uint64_t ThreadNumber() {
  static std::atomic<uint64_t> next{0};
  thread_local const uint64_t number = next.fetch_add(1);
  return number;
}

// As debuggers show it.
const std::string& ThreadName() {
  thread_local const std::string name = [] {
    char text[16] = {};
    return std::string(pthread_getname_np(pthread_self(), text, sizeof(text)) == 0 ? text : "");
  }();
  return name;
}

}  // namespace

int64_t MonotonicNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void StepTracer::Record(absl::string_view node, absl::string_view op, absl::string_view device,
                        int64_t start_nanoseconds, int64_t end_nanoseconds,
                        std::vector<Value> inputs, std::vector<Value> outputs) {
  Event event{std::string(node), std::string(op),   std::string(device),
              start_nanoseconds, end_nanoseconds,   ThreadNumber(),
              ThreadName(),      std::move(inputs), std::move(outputs)};
  MutexLock lock(mu_);
  if (events_.size() == kMostEvents) return;
  events_.push_back(std::move(event));
  if (events_.size() == kMostEvents) {
    TANDEM_LOG(Warning) << "a step's trace ends at node '" << node << "', its event number "
                        << kMostEvents << ", which is as much as is kept; the step goes on";
  }
}

std::vector<StepTracer::Event> StepTracer::Take() {
  MutexLock lock(mu_);
  return std::exchange(events_, {});
}

}  // namespace tandem
