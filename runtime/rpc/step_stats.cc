#include "runtime/rpc/step_stats.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tandem {

void FillStepStats(const std::vector<StepTracer::Event>& events, tensorflow::StepStats* stats) {
  // Events carry the monotonic clock, which begins anywhere.
  const int64_t offset = absl::ToUnixNanos(absl::Now()) - MonotonicNanoseconds();
  std::map<std::string, std::vector<const StepTracer::Event*>> by_device;
  for (const StepTracer::Event& event : events) by_device[event.device].push_back(&event);
  for (const auto& [device, list] : by_device) {
    tensorflow::DeviceStepStats* const device_stats = stats->add_dev_stats();
    device_stats->set_device(device);
    for (const StepTracer::Event* event : list) {
      tensorflow::NodeExecStats* const node = device_stats->add_node_stats();
      const int64_t start = event->start_nanoseconds + offset;
      const int64_t took = event->end_nanoseconds - event->start_nanoseconds;
      node->set_node_name(event->node);
      node->set_timeline_label(absl::StrCat(event->node, " = ", event->op, "()"));
      node->set_all_start_micros(start / 1000);
      node->set_op_start_rel_micros(0);
      node->set_op_end_rel_micros(took / 1000);
      node->set_all_end_rel_micros(took / 1000);
      node->set_scheduled_micros(start / 1000);
      node->set_all_start_nanos(start);
      node->set_op_end_rel_nanos(took);
      node->set_all_end_rel_nanos(took);
      node->set_scheduled_nanos(start);
      node->set_thread_id(static_cast<uint32_t>(event->thread));
    }
  }
}

}  // namespace tandem
