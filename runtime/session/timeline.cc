#include "runtime/session/timeline.h"

#include <algorithm>
#include <map>

#include "nlohmann/json.hpp"

namespace tandem {

std::string ChromeTrace(const std::vector<StepTracer::Event>& events) {
  std::map<std::string, int> devices;
  int64_t start = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    start = i == 0 ? events[i].start_nanoseconds : std::min(start, events[i].start_nanoseconds);
    devices.emplace(events[i].device, static_cast<int>(devices.size()));
  }
  nlohmann::json bars = nlohmann::json::array();
  for (const auto& [device, number] : devices) {
    bars.push_back(
        {{"ph", "M"}, {"name", "process_name"}, {"pid", number}, {"args", {{"name", device}}}});
  }
  for (const StepTracer::Event& event : events) {
    bars.push_back(
        {{"ph", "X"},
         {"name", event.op},
         {"cat", "op"},
         {"pid", devices[event.device]},
         {"tid", event.thread},
         {"ts", static_cast<double>(event.start_nanoseconds - start) / 1e3},
         {"dur", static_cast<double>(event.end_nanoseconds - event.start_nanoseconds) / 1e3},
         {"args", {{"name", event.node}, {"op", event.op}}}});
  }
  return nlohmann::json({{"traceEvents", bars}, {"displayTimeUnit", "ns"}}).dump(1);
}

}  // namespace tandem
