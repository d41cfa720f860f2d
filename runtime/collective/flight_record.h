// FlightRecord: what a member did lately, for the time after a crash: its last operations with
// size, algorithm, state and times. Written as lines of JSON, which `tandem flight FILE…` lines up
// with those of other members.
//
//   {"group":"workers","generation":2,"rank":0,"member":"worker:0","host":"a","size":2,"why":"…"}
//   {"seq":17,"instance":3,"step":9,"phase":0,"name":"grads/0","kind":"all-reduce",
//    "what":"all-reduce (sum) of float32[10] by ring","bytes":40,"algorithm":"ring",
//    "state":"running","begun":1764513000.123456,"ended":0,"status":"","missing":"worker:1 on b"}
#ifndef TANDEM_RUNTIME_COLLECTIVE_FLIGHT_RECORD_H_
#define TANDEM_RUNTIME_COLLECTIVE_FLIGHT_RECORD_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "runtime/collective/schedule.h"
#include "runtime/transport/frame.h"

namespace tandem::collective {

struct FlightEntry {
  int64_t sequence = 0;
  transport::OperationKey key;
  std::string name;
  Kind kind = Kind::kAllReduce;
  transport::Label label;
  int64_t bytes = 0;
  const char* algorithm = "";
  std::string state;  // running, done, failed.
  absl::Time begun;
  absl::Time ended;
  std::string status;   // Why it failed.
  std::string missing;  // Who it waits for.
};

// Threads: any.
class FlightRecord {
 public:
  static constexpr size_t kEntries = 1000;

  // Gives the entry's number.
  int64_t Begin(FlightEntry entry);
  void End(int64_t sequence, const absl::Status& status, absl::string_view missing);

  // The entries, a line each, oldest first.
  std::string ToJsonLines() const;

 private:
  mutable Mutex mu_;
  std::deque<FlightEntry> entries_ ABSL_GUARDED_BY(mu_);
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_FLIGHT_RECORD_H_
