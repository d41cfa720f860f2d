#include "runtime/rpc/step_call.h"

#include <functional>
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

// What a call ended with, whose last try ended so. `reason`: whoever cancelled it; or OK.
absl::Status ErrorOf(const grpc::Status& status, const absl::Status& reason,
                     const StepCallOptions& options) {
  if (!reason.ok()) return reason;
  if (!IsConnectionLost(status)) return options.explain(FromGrpc(status));
  return options.explain(absl::UnavailableError(
      absl::StrCat("the connection was lost, and the server was not found again within ",
                   absl::FormatDuration(kReconnectTime),
                   "; whether the step was carried out is not known: ", status.error_message())));
}

// Whether a call is made again whose connection was lost.
class Patience {
 public:
  explicit Patience(absl::Time deadline) : deadline_(deadline) {}

  bool TriesAgain(const grpc::Status& status) {
    if (!IsConnectionLost(status)) return false;
    const absl::Time now = absl::Now();
    if (lost_at_ == absl::InfiniteFuture()) lost_at_ = now;
    return now - lost_at_ < kReconnectTime && now < deadline_;
  }

 private:
  const absl::Time deadline_;
  absl::Time lost_at_ = absl::InfiniteFuture();
};

// The session's and the caller's end of a call.
class StepCancellation {
 public:
  explicit StepCancellation(const StepCallOptions& options)
      : caller_(options.caller), cancellation_(options.session) {}
  ~StepCancellation() {
    if (registered_with_caller_) caller_->Deregister(caller_token_);
    if (registered_) cancellation_.Deregister(token_);
  }

  // Calls `cancel` when the call is cancelled from now on. False: it is already.
  bool Register(std::function<void()> cancel) {
    token_ = cancellation_.NewToken();
    registered_ = cancellation_.Register(token_, std::move(cancel));
    if (!registered_) return false;
    if (caller_ == nullptr) return true;
    caller_token_ = caller_->NewToken();
    registered_with_caller_ =
        caller_->Register(caller_token_, [this] { cancellation_.Cancel(caller_->status()); });
    if (!registered_with_caller_) cancellation_.Cancel(caller_->status());
    return registered_with_caller_;
  }
  // OK: nobody has cancelled it.
  absl::Status status() const { return cancellation_.status(); }

 private:
  CancellationManager* const caller_;
  CancellationManager cancellation_;
  CancellationManager::Token token_ = 0;
  CancellationManager::Token caller_token_ = 0;
  bool registered_ = false;
  bool registered_with_caller_ = false;
};

void SetDeadline(absl::Time deadline, grpc::ClientContext* context) {
  if (deadline != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline));
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
        done_(std::move(done)),
        patience_(options.deadline) {}

  void Start() {
    calls_->Begin();
    cancellation_.emplace(options_);
    if (cancellation_->Register([this] { Cancel(); })) {
      Try();
    } else {
      Finish(cancellation_->status());
    }
  }

 private:
  void Try() {
    grpc::ClientContext* context = nullptr;
    {
      MutexLock lock(mu_);
      waits_ = false;
      context_.emplace();
      context = &*context_;
      SetDeadline(options_.deadline, context);
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
      if (!cancelled_ && patience_.TriesAgain(status)) {
        waits_ = true;
        alarm_.emplace();
        alarm_->Set(absl::ToChronoTime(absl::Now() + kTryAgainAfter), [this](bool) { Try(); });
        return;
      }
    }
    if (status.ok()) {
      Finish(std::move(response_));
    } else {
      Finish(ErrorOf(status, cancellation_->status(), options_));
    }
  }

  void Cancel() {
    MutexLock lock(mu_);
    cancelled_ = true;
    // Neither ends on this thread: completions come on gRPC's own.
    if (context_.has_value()) context_->TryCancel();
    if (waits_) alarm_->Cancel();
  }

  void Finish(absl::StatusOr<grpc::ByteBuffer> response) {
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
  // Ended before the caller knows.
  std::optional<StepCancellation> cancellation_;

  Mutex mu_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool waits_ ABSL_GUARDED_BY(mu_) = false;  // For the alarm, to try again.
  Patience patience_ ABSL_GUARDED_BY(mu_);
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);  // Of a call that goes on.
  std::optional<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mu_);
};

// One whose caller waits.
class WaitingStepCall {
 public:
  WaitingStepCall(const std::shared_ptr<grpc::Channel>& channel, CallSet* calls,
                  const StepCallOptions& options, const grpc::ByteBuffer& request)
      : stub_(channel), calls_(*calls), options_(options), request_(request) {}

  absl::StatusOr<grpc::ByteBuffer> Run() {
    StepCancellation cancellation(options_);
    if (!cancellation.Register([this] { Cancel(); })) return cancellation.status();
    Patience patience(options_.deadline);
    grpc::ByteBuffer response;
    for (;;) {
      const grpc::Status status = Try(&response);
      if (status.ok()) return response;
      if (!patience.TriesAgain(status) || !WaitToTryAgain()) {
        return ErrorOf(status, cancellation.status(), options_);
      }
    }
  }

 private:
  grpc::Status Try(grpc::ByteBuffer* response) {
    response->Clear();
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    SetDeadline(options_.deadline, &context);
    calls_.Begin(&context);
    {
      MutexLock lock(mu_);
      context_ = &context;
      // A call that is cancelled before it begins ends as soon as it does.
      if (cancelled_) context.TryCancel();
    }
    grpc::Status status;
    {
      const auto call = stub_.PrepareUnaryCall(&context, options_.path, request_, &queue);
      call->StartCall();
      call->Finish(response, &status, this);
      void* tag = nullptr;
      bool ok = false;
      queue.Next(&tag, &ok);
    }
    {
      MutexLock lock(mu_);
      context_ = nullptr;
    }
    calls_.Forget(&context);
    calls_.End();
    return status;
  }

  // False: the call was cancelled.
  bool WaitToTryAgain() {
    const absl::Time deadline = absl::Now() + kTryAgainAfter;
    MutexLock lock(mu_);
    while (!cancelled_ && changed_.WaitUntil(mu_, deadline)) {
    }
    return !cancelled_;
  }

  void Cancel() {
    MutexLock lock(mu_);
    cancelled_ = true;
    changed_.NotifyAll();
    if (context_ != nullptr) context_->TryCancel();
  }

  grpc::GenericStub stub_;
  CallSet& calls_;
  const StepCallOptions& options_;
  const grpc::ByteBuffer& request_;

  Mutex mu_;
  CondVar changed_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // Of a call that goes on.
};

}  // namespace

void StartStepCall(const std::shared_ptr<grpc::Channel>& channel, std::shared_ptr<CallSet> calls,
                   const StepCallOptions& options, grpc::ByteBuffer request,
                   absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)> done) {
  (new StepCall(channel, std::move(calls), options, std::move(request), std::move(done)))->Start();
}

absl::StatusOr<grpc::ByteBuffer> WaitForStepCall(const std::shared_ptr<grpc::Channel>& channel,
                                                 CallSet* calls, const StepCallOptions& options,
                                                 const grpc::ByteBuffer& request) {
  return WaitingStepCall(channel, calls, options, request).Run();
}

}  // namespace tandem
