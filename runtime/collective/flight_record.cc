#include "runtime/collective/flight_record.h"

#include <utility>

#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "runtime/collective/label.h"

namespace tandem::collective {

int64_t FlightRecord::Begin(FlightEntry entry) {
  MutexLock lock(mu_);
  entry.sequence = next_++;
  entry.state = "running";
  entry.begun = absl::Now();
  entries_.push_back(std::move(entry));
  if (entries_.size() > kEntries) entries_.pop_front();
  return next_ - 1;
}

void FlightRecord::End(int64_t sequence, const absl::Status& status, absl::string_view missing) {
  MutexLock lock(mu_);
  const int64_t oldest = next_ - static_cast<int64_t>(entries_.size());
  if (sequence < oldest || sequence >= next_) return;
  FlightEntry& entry = entries_[static_cast<size_t>(sequence - oldest)];
  entry.ended = absl::Now();
  entry.state = status.ok() ? "done" : "failed";
  entry.status = std::string(status.message());
  entry.missing = std::string(missing);
}

std::string FlightRecord::ToJsonLines() const {
  std::string text;
  MutexLock lock(mu_);
  for (const FlightEntry& entry : entries_) {
    const auto seconds = [](absl::Time time) {
      return time == absl::Time() ? 0.0 : static_cast<double>(absl::ToUnixMicros(time)) / 1e6;
    };
    nlohmann::ordered_json line;
    line["seq"] = entry.sequence;
    line["instance"] = entry.key.instance;
    line["step"] = entry.key.step;
    line["phase"] = entry.key.phase;
    line["name"] = entry.name;
    line["kind"] = KindName(entry.kind);
    line["what"] = DescribeLabel(entry.label);
    line["bytes"] = entry.bytes;
    line["algorithm"] = entry.algorithm;
    line["state"] = entry.state;
    line["begun"] = seconds(entry.begun);
    line["ended"] = seconds(entry.ended);
    line["status"] = entry.status;
    line["missing"] = entry.missing;
    // Names come from a user's graph: what is no UTF-8 is replaced, never thrown about.
    text += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    text += '\n';
  }
  return text;
}

}  // namespace tandem::collective
