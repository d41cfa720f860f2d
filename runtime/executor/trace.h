// StepTracer: collects when and where each node of a step ran, for RunMetadata and timelines. It
// keeps the first 262,144 events and drops the rest, with one warning, since a step may loop for
// ever; timelines of more are beyond what viewers show anyway.
#ifndef TANDEM_RUNTIME_EXECUTOR_TRACE_H_
#define TANDEM_RUNTIME_EXECUTOR_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tandem {

// Threads: any.
class StepTracer {
 public:
  // An input or an output. No type: there was no tensor, since it is dead, a variable of
  // TensorFlow 1, or was taken by the kernel.
  struct Value {
    DataType dtype = DataType::kInvalid;
    Shape shape;
  };
  struct Event {
    std::string node;
    std::string op;
    std::string device;
    int64_t start_nanoseconds;  // Of the monotonic clock.
    int64_t end_nanoseconds;
    uint64_t thread;  // Where the node ended: a small number, in order of appearance.
    std::string thread_name;
    std::vector<Value> inputs;
    std::vector<Value> outputs;
  };

  void Record(absl::string_view node, absl::string_view op, absl::string_view device,
              int64_t start_nanoseconds, int64_t end_nanoseconds, std::vector<Value> inputs = {},
              std::vector<Value> outputs = {});
  // In order of their ends.
  std::vector<Event> Take();

 private:
  Mutex mu_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
};

// Nanoseconds of the monotonic clock.
int64_t MonotonicNanoseconds();

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_TRACE_H_
