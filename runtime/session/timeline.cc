#include "runtime/session/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tandem {
namespace {

// "float32[64,10] int32[]"
std::string Text(const std::vector<StepTracer::Value>& values) {
  std::string text;
  for (const StepTracer::Value& value : values) {
    absl::StrAppend(&text, text.empty() ? "" : " ");
    if (value.dtype == DataType::kInvalid) {
      absl::StrAppend(&text, "-");
    } else {
      absl::StrAppend(&text, DataTypeName(value.dtype), value.shape.DebugString());
    }
  }
  return text;
}

nlohmann::json NameOf(const char* what, int process, int row, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", row}, {"args", {{"name", name}}}};
}

// The rows of one device. Each event goes to the first of its thread's rows that is free.
class Rows {
 public:
  struct Row {
    int number;
    std::string name;
    int64_t end;  // Of its last bar.
  };

  const Row& RowOf(const StepTracer::Event& event) {
    std::vector<Row>& rows = by_thread_[event.thread];
    for (Row& row : rows) {
      if (row.end > event.start_nanoseconds) continue;
      row.end = event.end_nanoseconds;
      return row;
    }
    const std::string thread =
        event.thread_name.empty() ? absl::StrCat("thread ", event.thread)
                                  : absl::StrCat(event.thread_name, " (thread ", event.thread, ")");
    rows.push_back({count_++,
                    rows.empty() ? thread : absl::StrCat(thread, ", overlapping ", rows.size()),
                    event.end_nanoseconds});
    return rows.back();
  }
  int count() const { return count_; }

 private:
  std::map<uint64_t, std::vector<Row>> by_thread_;
  int count_ = 0;
};

}  // namespace

std::string ChromeTrace(const std::vector<StepTracer::Event>& events) {
  std::map<std::string, std::vector<const StepTracer::Event*>> devices;
  int64_t start = events.empty() ? 0 : events[0].start_nanoseconds;
  for (const StepTracer::Event& event : events) {
    start = std::min(start, event.start_nanoseconds);
    devices[event.device].push_back(&event);
  }
  const auto microseconds = [](int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e3;
  };
  nlohmann::json names = nlohmann::json::array();
  nlohmann::json bars = nlohmann::json::array();
  int process = 0;
  for (auto& [device, list] : devices) {
    names.push_back(NameOf("process_name", process, 0, device));
    std::stable_sort(list.begin(), list.end(),
                     [](const StepTracer::Event* a, const StepTracer::Event* b) {
                       return a->start_nanoseconds < b->start_nanoseconds;
                     });
    Rows rows;
    for (const StepTracer::Event* event : list) {
      const int known = rows.count();
      const Rows::Row& row = rows.RowOf(*event);
      if (rows.count() > known) {
        names.push_back(NameOf("thread_name", process, row.number, row.name));
      }
      bars.push_back({{"ph", "X"},
                      {"name", event->op},
                      {"cat", "Op"},
                      {"pid", process},
                      {"tid", row.number},
                      {"ts", microseconds(event->start_nanoseconds - start)},
                      {"dur", microseconds(event->end_nanoseconds - event->start_nanoseconds)},
                      {"args",
                       {{"name", event->node},
                        {"op", event->op},
                        {"inputs", Text(event->inputs)},
                        {"outputs", Text(event->outputs)}}}});
    }
    ++process;
  }
  // Names come from anywhere: bytes that are no UTF-8 are replaced instead of being an error.
  names.insert(names.end(), bars.begin(), bars.end());
  return nlohmann::json({{"traceEvents", std::move(names)}, {"displayTimeUnit", "ns"}})
      .dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tandem
