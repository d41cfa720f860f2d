#include "runtime/rpc/host_link.h"

#include <utility>

#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/rpc/worker_client.h"

namespace tandem {
namespace {

constexpr absl::Duration kAnswerTime = absl::Seconds(3);
// A connection that ended, or a task that could not be reached: it may be back.
constexpr absl::Duration kSoon = absl::Seconds(1);
// A task of another host, or one that does not lend.
constexpr absl::Duration kMuchLater = absl::Minutes(1);

}  // namespace

absl::optional<SegmentBorrower::Request> HostLink::NewRequest(Introduce introduce) {
  {
    MutexLock lock(mu_);
    if (borrower_ != nullptr && borrower_->is_open()) return borrower_->NewRequest();
    borrower_.reset();
    const absl::Time now = absl::Now();
    if (asks_ || now < ask_after_) return absl::nullopt;
    asks_ = true;
    ask_after_ = now + kSoon;
    was_logged_ = false;
  }
  CallOptions options;
  options.deadline = absl::Now() + kAnswerTime;
  introduce(options, [this](absl::StatusOr<host_transfers::IntroduceResponse> response) {
    Answered(std::move(response));
  });
  return absl::nullopt;
}

void HostLink::Answered(absl::StatusOr<host_transfers::IntroduceResponse> response) {
  const auto connect = [&]() -> absl::StatusOr<std::shared_ptr<SegmentBorrower>> {
    TANDEM_RETURN_IF_ERROR(response.status());
    if (response->version() != shared_memory::kVersion) {
      return errors::Unimplemented("another version of transfers within a host");
    }
    return endpoint_.Connect(response->socket_name(), response->secret());
  };
  absl::StatusOr<std::shared_ptr<SegmentBorrower>> borrower = connect();
  const bool may_be_back =
      absl::IsUnavailable(response.status()) || absl::IsDeadlineExceeded(response.status());
  MutexLock lock(mu_);
  asks_ = false;
  if (borrower.ok()) {
    borrower_ = *std::move(borrower);
  } else if (!may_be_back) {
    ask_after_ = absl::Now() + kMuchLater;
  }
}

void HostLink::NoteLoan() {
  {
    MutexLock lock(mu_);
    if (was_logged_) return;
    was_logged_ = true;
  }
  TANDEM_LOG(Info) << "large values of " << task_ << " come through shared memory";
}

}  // namespace tandem
