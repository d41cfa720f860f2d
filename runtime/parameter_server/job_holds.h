// JobHolds: which coordinators hold which jobs at this server. A job has one at a time; whoever
// holds it renews the lease. One that ends gives it back, one that dies loses it when the lease is
// over.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_JOB_HOLDS_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_JOB_HOLDS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/parameter_service.pb.h"

namespace tandem::parameter_server {

// Threads: one at a time.
class JobHolds {
 public:
  static constexpr size_t kMostJobs = 1000;
  static constexpr absl::Duration kLongestLease = absl::Minutes(10);

  // InvalidArgument: the request is none that a coordinator sends. ResourceExhausted: kMostJobs are
  // held already.
  absl::StatusOr<HoldResponse> Hold(const HoldRequest& request, absl::Time now);

 private:
  struct Lease {
    uint64_t holder = 0;
    std::string who;
    int64_t number = 0;  // Of its newest request.
    int64_t renewals = 0;
    absl::Time heard;
    absl::Time until;  // It stays here afterwards, since one of its requests may still come.
  };
  void RemoveEnded(absl::Time now);

  std::map<std::string, Lease> leases_;  // By job.
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_JOB_HOLDS_H_
