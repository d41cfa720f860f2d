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
// A client may keep results for as long as it likes; what it keeps beyond this is its own memory.
constexpr size_t kMostHeldOfServer = size_t{1} << 30;

}  // namespace

absl::optional<SegmentBorrower::Request> HostLink::NewRequest(Introduce introduce) {
  const absl::optional<Connection> connection = Connect(introduce);
  if (!connection.has_value()) return absl::nullopt;
  return connection->borrower->NewRequest();
}

absl::optional<HostLink::Connection> HostLink::Connect(Introduce introduce) {
  {
    MutexLock lock(mu_);
    if (connection_.has_value() && connection_->borrower->is_open()) return connection_;
    connection_.reset();
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

absl::StatusOr<HostLink::Connection> HostLink::ConnectTo(
    const host_transfers::IntroduceResponse& task, bool* is_here) {
  *is_here = false;
  if (task.version() != shared_memory::kVersion) {
    return errors::Unimplemented("another version of transfers within a host");
  }
  Connection connection;
  if (kind_ == Kind::kTask) {
    TANDEM_ASSIGN_OR_RETURN(connection.borrower,
                            endpoint_.Connect(task.socket_name(), task.secret()));
    return connection;
  }
  if (!task.serves_clients()) {
    return errors::Unimplemented("the server hands clients no values in shared memory");
  }
  TANDEM_ASSIGN_OR_RETURN(connection.borrower,
                          endpoint_.Connect(task.socket_name(), task.secret(), kMostHeldOfServer));
  absl::StatusOr<std::shared_ptr<SegmentLender>> lender =
      endpoint_.ConnectToOffer(task.socket_name(), task.secret());
  if (!lender.ok()) {
    connection.borrower->Close();
    return lender.status();
  }
  connection.lender = *std::move(lender);
  return connection;
}

void HostLink::Answered(absl::StatusOr<host_transfers::IntroduceResponse> response) {
  bool may_be_back =
      absl::IsUnavailable(response.status()) || absl::IsDeadlineExceeded(response.status());
  // One that is here, and turned the second connection away, has many at once.
  absl::StatusOr<Connection> connection = response.ok()
                                              ? ConnectTo(*response, &may_be_back)
                                              : absl::StatusOr<Connection>(response.status());
  MutexLock lock(mu_);
  asks_ = false;
  if (connection.ok()) {
    connection_ = *std::move(connection);
  } else if (!may_be_back) {
    ask_after_ = absl::Now() + kMuchLater;
  }
}

bool HostLink::asks() {
  MutexLock lock(mu_);
  return asks_;
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
