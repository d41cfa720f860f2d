// StepTable: the rendezvous of the steps that go on in this process.
//
// A step's rendezvous begins with whichever comes first, its run here or a request of another task
// for one of its values, and ends when the step is cleaned up.
#ifndef TANDEM_RUNTIME_RENDEZVOUS_STEP_TABLE_H_
#define TANDEM_RUNTIME_RENDEZVOUS_STEP_TABLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "runtime/rendezvous/local_rendezvous.h"

namespace tandem {

// Threads: any. What it hands out stays valid for as long as it is held.
class StepTable {
 public:
  // Steps that ended last are remembered, so that a request that comes late does not begin one
  // again that nobody would end.
  static constexpr size_t kRemembered = 4096;

  // A step that nobody ends, since its master was lost before it ran anything here, must not stay
  // for ever: of more than `most_steps` the oldest is ended.
  explicit StepTable(size_t most_steps = size_t{1} << 16) : most_steps_(most_steps) {}
  ~StepTable();

  // Aborted: the step has ended.
  absl::StatusOr<std::shared_ptr<Rendezvous>> FindOrBegin(int64_t step_id);
  // Whoever still waits in the step gets `reason` (not OK).
  void End(int64_t step_id, absl::Status reason);
  void EndAll(const absl::Status& reason);
  // How many go on.
  size_t size() const;

 private:
  struct Step {
    std::shared_ptr<LocalRendezvous> rendezvous;
    uint64_t number = 0;  // In the order in which steps began.
  };

  const size_t most_steps_;
  mutable Mutex mu_;
  std::map<int64_t, Step> steps_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, int64_t> by_age_ ABSL_GUARDED_BY(mu_);  // The same, oldest first.
  uint64_t next_number_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<int64_t> ended_ ABSL_GUARDED_BY(mu_);
  std::deque<int64_t> ended_order_ ABSL_GUARDED_BY(mu_);  // Oldest first.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RENDEZVOUS_STEP_TABLE_H_
