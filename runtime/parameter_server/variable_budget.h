// VariableBudget: how many bytes the variables of a server may take, with those of all of its
// shards and replicas (ServerLimits::variable_bytes).
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_VARIABLE_BUDGET_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_VARIABLE_BUDGET_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tandem::parameter_server {

// Threads: any.
class VariableBudget {
 public:
  explicit VariableBudget(int64_t limit) : limit_(limit) {}

  bool has_limit() const { return limit_ < std::numeric_limits<int64_t>::max(); }
  // ResourceExhausted: there are not so many left. They have to be given back.
  absl::Status Take(int64_t bytes) {
    MutexLock lock(mu_);
    if (bytes > limit_ - taken_) {
      return errors::ResourceExhausted(
          "variables of ", bytes, " bytes are to be kept; those of this server may take ", limit_,
          " bytes (--max_variable_bytes), of which ", limit_ - taken_,
          " are left. Give it more, or the job more servers");
    }
    taken_ += bytes;
    return absl::OkStatus();
  }
  void GiveBack(int64_t bytes) {
    MutexLock lock(mu_);
    taken_ -= bytes;
  }

 private:
  const int64_t limit_;
  Mutex mu_;
  int64_t taken_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_VARIABLE_BUDGET_H_
