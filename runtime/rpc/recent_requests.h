// RecentRequests: tells a request that comes a second time, because its answer was lost, from a new
// one.
#ifndef TANDEM_RUNTIME_RPC_RECENT_REQUESTS_H_
#define TANDEM_RUNTIME_RPC_RECENT_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tandem {

// Threads: any.
class RecentRequests {
 public:
  // Remembers the last `remembered` of them.
  explicit RecentRequests(size_t remembered) : remembered_(remembered) {}

  // Aborted: the request came before. 0 is no id.
  absl::Status Note(int64_t id) {
    if (id == 0) return absl::OkStatus();
    MutexLock lock(mu_);
    if (!ids_.insert(id).second) {
      return errors::Aborted("request ", id,
                             " came before: its answer was lost, and it is not run a second time");
    }
    order_.push_back(id);
    if (order_.size() > remembered_) {
      ids_.erase(order_.front());
      order_.pop_front();
    }
    return absl::OkStatus();
  }

 private:
  const size_t remembered_;
  Mutex mu_;
  absl::flat_hash_set<int64_t> ids_ ABSL_GUARDED_BY(mu_);
  std::deque<int64_t> order_ ABSL_GUARDED_BY(mu_);  // Oldest first.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_RECENT_REQUESTS_H_
