#include "runtime/parameter_server/job_holds.h"

#include <algorithm>

#include "core/base/status.h"
#include "runtime/parameter_server/wire.h"

namespace tandem::parameter_server {
namespace {

constexpr size_t kLongestName = 1024;

absl::Status Check(const HoldRequest& request) {
  TANDEM_RETURN_IF_ERROR(CheckKey(KeyOf(request.job(), 0)));
  if (request.holder() == 0 || request.who().size() > kLongestName || request.lease_ms() < 0 ||
      absl::Milliseconds(request.lease_ms()) > JobHolds::kLongestLease || request.number() < 1) {
    return errors::InvalidArgument(
        "the job '", request.job(), "' is to be held by ", request.holder(), " for ",
        request.lease_ms(), " ms, in request ", request.number(),
        "; a holder is a number that is not 0, with a name of at most ", kLongestName,
        " bytes, and holds it for at most ", absl::FormatDuration(JobHolds::kLongestLease));
  }
  return absl::OkStatus();
}

}  // namespace

void JobHolds::RemoveEnded(absl::Time now) {
  for (auto it = leases_.begin(); it != leases_.end();) {
    it = it->second.until <= now ? leases_.erase(it) : std::next(it);
  }
}

absl::StatusOr<HoldResponse> JobHolds::Hold(const HoldRequest& request, absl::Time now) {
  TANDEM_RETURN_IF_ERROR(Check(request));
  HoldResponse response;
  const absl::Duration lease = absl::Milliseconds(request.lease_ms());
  auto found = leases_.find(request.job());
  if (found != leases_.end() && found->second.holder == request.holder()) {
    Lease& mine = found->second;
    if (request.number() <= mine.number) return response;
    mine.number = request.number();
    ++mine.renewals;
    mine.heard = now;
    mine.until = now + lease;
    return response;
  }
  if (found != leases_.end() && found->second.until > now) {
    HoldResponse::Other& other = *response.mutable_other();
    other.set_holder(found->second.holder);
    other.set_who(found->second.who);
    other.set_renewals(found->second.renewals);
    other.set_heard_ms_ago(absl::ToInt64Milliseconds(now - found->second.heard));
    return response;
  }
  if (request.lease_ms() == 0) return response;
  if (leases_.size() >= kMostJobs) RemoveEnded(now);
  if (leases_.size() >= kMostJobs) {
    return errors::ResourceExhausted(kMostJobs, " jobs are held here, and that is the limit");
  }
  leases_[request.job()] = {request.holder(), request.who(), request.number(), 0, now, now + lease};
  return response;
}

}  // namespace tandem::parameter_server
