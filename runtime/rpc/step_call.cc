#include "runtime/rpc/step_call.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "grpcpp/alarm.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {
namespace {

// A connection that only blinked is there again at once. A server that was killed should be known
// to be gone within a second.
constexpr absl::Duration kReconnectTime = absl::Milliseconds(800);
constexpr absl::Duration kTryAgainAfter = absl::Milliseconds(50);

// gRPC tells by its words only; a server's own errors have other ones.
bool IsConnectionLost(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !status.error_details().empty()) {
    return false;
  }
  if (IsNotConnected(FromGrpc(status))) return true;
  for (const char* const words :
       {"Socket closed", "Connection reset", "Broken pipe", "GOAWAY", "recvmsg", "sendmsg"}) {
    if (absl::StrContains(status.error_message(), words)) return true;
  }
  return false;
}

// Deletes itself when it is over.
class StepCall {
 public:
  StepCall(const std::shared_ptr<grpc::Channel>& channel, std::shared_ptr<CallSet> calls,
           const StepCallOptions& options, grpc::ByteBuffer request,
           absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)> done)
      : stub_(channel),
        calls_(std::move(calls)),
        options_(options),
        request_(std::move(request)),
        done_(std::move(done)) {}

  void Start() {
    calls_->Begin();
    cancellation_.emplace(options_.session);
    token_ = cancellation_->NewToken();
    if (!cancellation_->Register(token_, [this] { Cancel(); })) {
      Finish(cancellation_->status());
      return;
    }
    registered_ = true;
    if (options_.caller != nullptr) {
      caller_token_ = options_.caller->NewToken();
      registered_with_caller_ = options_.caller->Register(
          caller_token_, [this] { cancellation_->Cancel(options_.caller->status()); });
      if (!registered_with_caller_) {
        cancellation_->Cancel(options_.caller->status());
        Finish(cancellation_->status());
        return;
      }
    }
    Try();
  }

 private:
  void Try() {
    grpc::ClientContext* context = nullptr;
    {
      MutexLock lock(mu_);
      waits_ = false;
      context_.emplace();
      context = &*context_;
      if (options_.deadline != absl::InfiniteFuture()) {
        context->set_deadline(absl::ToChronoTime(options_.deadline));
      }
      // A call that is cancelled before it begins ends as soon as it does.
      if (cancelled_) context->TryCancel();
    }
    calls_->Begin(context);
    response_.Clear();
    stub_.UnaryCall(context, options_.path, grpc::StubOptions(), &request_, &response_,
                    [this](const grpc::Status& status) { Ended(status); });
  }

  void Ended(const grpc::Status& status) {
    {
      MutexLock lock(mu_);
      calls_->Forget(&*context_);
      calls_->End();
      context_.reset();
      if (TriesAgainLocked(status)) {
        waits_ = true;
        alarm_.emplace();
        alarm_->Set(absl::ToChronoTime(absl::Now() + kTryAgainAfter), [this](bool) { Try(); });
        return;
      }
    }
    if (cancellation_->IsCancelled() && !status.ok()) {
      Finish(cancellation_->status());
    } else if (status.ok()) {
      Finish(std::move(response_));
    } else if (IsConnectionLost(status)) {
      Finish(options_.explain(absl::UnavailableError(absl::StrCat(
          "the connection was lost, and the server was not found again within ",
          absl::FormatDuration(kReconnectTime),
          "; whether the step was carried out is not known: ", status.error_message()))));
    } else {
      Finish(options_.explain(FromGrpc(status)));
    }
  }

  bool TriesAgainLocked(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (cancelled_ || !IsConnectionLost(status)) return false;
    const absl::Time now = absl::Now();
    if (lost_at_ == absl::InfiniteFuture()) lost_at_ = now;
    return now - lost_at_ < kReconnectTime && now < options_.deadline;
  }

  void Cancel() {
    MutexLock lock(mu_);
    cancelled_ = true;
    // Neither ends on this thread: completions come on gRPC's own.
    if (context_.has_value()) context_->TryCancel();
    if (waits_) alarm_->Cancel();
  }

  void Finish(absl::StatusOr<grpc::ByteBuffer> response) {
    if (registered_with_caller_) options_.caller->Deregister(caller_token_);
    if (registered_) cancellation_->Deregister(token_);
    cancellation_.reset();
    const std::shared_ptr<CallSet> calls = std::move(calls_);
    absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)> done = std::move(done_);
    delete this;
    done(std::move(response));
    calls->End();
  }

  grpc::GenericStub stub_;
  std::shared_ptr<CallSet> calls_;
  const StepCallOptions options_;
  const grpc::ByteBuffer request_;
  absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)> done_;
  grpc::ByteBuffer response_;
  // The session's and the caller's end; ended before the caller knows.
  std::optional<CancellationManager> cancellation_;
  CancellationManager::Token token_ = 0;
  CancellationManager::Token caller_token_ = 0;
  bool registered_ = false;
  bool registered_with_caller_ = false;

  Mutex mu_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool waits_ ABSL_GUARDED_BY(mu_) = false;  // For the alarm, to try again.
  absl::Time lost_at_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);  // Of a call that goes on.
  std::optional<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void StartStepCall(const std::shared_ptr<grpc::Channel>& channel, std::shared_ptr<CallSet> calls,
                   const StepCallOptions& options, grpc::ByteBuffer request,
                   absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)> done) {
  (new StepCall(channel, std::move(calls), options, std::move(request), std::move(done)))->Start();
}

}  // namespace tandem
