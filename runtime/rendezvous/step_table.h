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

  ~StepTable();

  // Aborted: the step has ended.
  absl::StatusOr<std::shared_ptr<Rendezvous>> FindOrBegin(int64_t step_id);
  // Whoever still waits in the step gets `reason` (not OK).
  void End(int64_t step_id, absl::Status reason);
  void EndAll(const absl::Status& reason);
  // How many go on.
  size_t size() const;

 private:
  mutable Mutex mu_;
  std::map<int64_t, std::shared_ptr<LocalRendezvous>> steps_ ABSL_GUARDED_BY(mu_);
  std::set<int64_t> ended_ ABSL_GUARDED_BY(mu_);
  std::deque<int64_t> ended_order_ ABSL_GUARDED_BY(mu_);  // Oldest first.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RENDEZVOUS_STEP_TABLE_H_
