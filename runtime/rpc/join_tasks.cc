#include "runtime/rpc/join_tasks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {
namespace {

using Devices = std::vector<std::vector<tensorflow::DeviceAttributes>>;

// A port that accepts connections and drops them would be asked for ever.
constexpr int kMostLostAnswers = 20;

// A task that ends while it is asked looks like one that does not speak TLS, once.
constexpr int kMostMismatches = 2;

// What follows says the same again, for clients of TensorFlow.
absl::string_view FirstLine(absl::string_view text) { return text.substr(0, text.find('\n')); }

absl::Status CheckDevices(const WorkerClient& client, const tensorflow::GetStatusResponse& status) {
  if (status.device_attributes().empty()) {
    return errors::FailedPrecondition(client.task(), " at ", client.address(), " has no devices");
  }
  for (const tensorflow::DeviceAttributes& device : status.device_attributes()) {
    const absl::StatusOr<DeviceName> name = DeviceName::Parse(device.name());
    if (!name.ok() || !name->IsComplete()) {
      return errors::FailedPrecondition(client.task(), " at ", client.address(), " has a device '",
                                        device.name(), "', which is no full name");
    }
    if (name->TaskName() != client.task()) {
      return errors::FailedPrecondition(
          "the cluster has ", client.task(), " at ", client.address(),
          ", but who answers there is ", name->TaskName(),
          "; was it started with another --job or --task, or another cluster?");
    }
  }
  return absl::OkStatus();
}

class Join : public std::enable_shared_from_this<Join> {
 public:
  Join(std::vector<std::shared_ptr<WorkerClient>> clients, absl::Duration timeout,
       absl::Duration report_every, CancellationManager* cancellation,
       absl::AnyInvocable<void(absl::StatusOr<Devices>)> done)
      : clients_(std::move(clients)),
        timeout_(timeout),
        report_every_(report_every),
        deadline_(absl::Now() + timeout),
        done_(std::move(done)),
        lost_(clients_.size(), 0),
        mismatches_(clients_.size(), 0),
        pending_(clients_.size()),
        devices_(clients_.size()) {
    cancellation_.emplace(cancellation);
  }

  void Start() {
    for (size_t i = 0; i < clients_.size(); ++i) Ask(i, /*waits=*/false);
  }

 private:
  // One that waits until the task is there does not learn why it cannot be reached. So each is
  // preceded by one that does not wait.
  void Ask(size_t i, bool waits) {
    CallOptions options;
    options.deadline = std::min(deadline_, absl::Now() + report_every_);
    options.wait_for_ready = waits;
    options.cancellation = &*cancellation_;
    clients_[i]->GetStatus(options, [self = shared_from_this(), i, waits](
                                        absl::StatusOr<tensorflow::GetStatusResponse> response) {
      if (waits || response.ok() || !absl::IsUnavailable(response.status()) ||
          self->cancellation_->IsCancelled() || self->IsMismatch(i, response.status())) {
        self->Answered(i, std::move(response));
      } else {
        self->Ask(i, /*waits=*/true);
      }
    });
  }

  // Somebody listens there, and as often as that it cannot have been chance.
  bool IsMismatch(size_t i, const absl::Status& status) {
    if (!MayBeTlsMismatch(status)) {
      mismatches_[i] = 0;
      return false;
    }
    TANDEM_LOG(Warning) << "CreateSession: " << clients_[i]->task() << " at "
                        << clients_[i]->address() << " listens, but no connection comes about: "
                        << FirstLine(status.message());
    const bool is_certain = absl::StrContains(status.message(), "Ssl handshake failed");
    return is_certain || ++mismatches_[i] >= kMostMismatches;
  }

  void Answered(size_t i, absl::StatusOr<tensorflow::GetStatusResponse> response) {
    const WorkerClient& client = *clients_[i];
    absl::Status status = response.status();
    if (status.ok()) status = CheckDevices(client, *response);
    if (MayBeTlsMismatch(status)) {
      status = errors::FailedPrecondition(
          client.task(), " at ", client.address(),
          " listens, but it and this task do not agree about TLS: ", FirstLine(status.message()));
    }
    if (!cancellation_->IsCancelled()) {
      const bool is_late = absl::IsDeadlineExceeded(status);
      if (is_late && absl::Now() < deadline_) {
        TANDEM_LOG(Warning) << "CreateSession still waits for " << client.task() << " at "
                            << client.address();
        Ask(i, /*waits=*/false);
        return;
      }
      if (absl::IsUnavailable(status) && ++lost_[i] < kMostLostAnswers) {
        Ask(i, /*waits=*/true);
        return;
      }
    }
    bool cancels = false;
    bool is_last = false;
    {
      MutexLock lock(mu_);
      if (status.ok()) {
        devices_[i].assign(response->device_attributes().begin(),
                           response->device_attributes().end());
      } else if (absl::IsDeadlineExceeded(status) && !cancellation_->IsCancelled()) {
        missing_.push_back(absl::StrCat(client.task(), " at ", client.address()));
      } else if (error_.ok()) {
        error_ = FromTask(status, client.task());
        cancels = !cancellation_->IsCancelled();
      }
    }
    if (cancels) cancellation_->Cancel(error());
    {
      MutexLock lock(mu_);
      is_last = --pending_ == 0;
    }
    if (is_last) End();
  }

  absl::Status error() {
    MutexLock lock(mu_);
    return error_;
  }

  void End() {
    absl::StatusOr<Devices> result = Devices();
    {
      MutexLock lock(mu_);
      if (!error_.ok()) {
        result = error_;
      } else if (!missing_.empty()) {
        std::sort(missing_.begin(), missing_.end());
        result = errors::DeadlineExceeded(
            "these tasks did not answer within ", absl::FormatDuration(timeout_), ": ",
            absl::StrJoin(missing_, ", "),
            "; start them, or leave them out of the session (ConfigProto.device_filters)");
      } else {
        result = std::move(devices_);
      }
    }
    cancellation_.reset();  // It hangs on the caller's, which may end with `done`.
    // Those too: a client that went with this object, after `done`, would wait for the call whose
    // answer has just come (CallSet::EndAll).
    clients_.clear();
    done_(std::move(result));
  }

  std::vector<std::shared_ptr<WorkerClient>> clients_;  // Until `done`.
  const absl::Duration timeout_;
  const absl::Duration report_every_;
  const absl::Time deadline_;
  absl::AnyInvocable<void(absl::StatusOr<Devices>)> done_;
  std::optional<CancellationManager> cancellation_;
  // Each by the calls of its task only.
  std::vector<int> lost_;
  std::vector<int> mismatches_;  // In a row.
  Mutex mu_;
  size_t pending_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> missing_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  Devices devices_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void JoinTasks(
    std::vector<std::shared_ptr<WorkerClient>> clients, absl::Duration timeout,
    absl::Duration report_every, CancellationManager* cancellation,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<std::vector<tensorflow::DeviceAttributes>>>)>
        done) {
  if (clients.empty()) {
    done(Devices());
    return;
  }
  std::make_shared<Join>(std::move(clients), timeout, report_every, cancellation, std::move(done))
      ->Start();
}

}  // namespace tandem
