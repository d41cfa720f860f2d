// The server's end of a call that lasts: it can be cancelled, and holds no thread.
#ifndef TANDEM_RUNTIME_RPC_SERVER_CALL_H_
#define TANDEM_RUNTIME_RPC_SERVER_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/kernel/cancellation.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/server_callback.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {

// Deletes itself when gRPC has done with it, which is after End.
class ServerCall final : public grpc::ServerUnaryReactor {
 public:
  ServerCall() : cancellation_(std::make_shared<CancellationManager>()) {}

  // Cancelled when the client cancels the call, its deadline passes or its connection is lost.
  CancellationManager* cancellation() { return cancellation_.get(); }

  // `name` is what the message calls the limit. 0: none.
  void CancelAfter(int64_t milliseconds, const char* name) {
    if (milliseconds <= 0) return;
    alarm_.emplace();
    alarm_->Set(absl::ToChronoTime(absl::Now() + absl::Milliseconds(milliseconds)),
                // The call may be over, and deleted, when the alarm goes off.
                [cancellation = cancellation_, milliseconds, name](bool went_off) {
                  if (!went_off) return;
                  cancellation->Cancel(errors::DeadlineExceeded("the step was not done after ",
                                                                milliseconds, " ms (", name, ")"));
                });
  }

  // REQUIRES: called once. The call may be deleted before it returns.
  void End(const absl::Status& status) {
    if (alarm_.has_value()) alarm_->Cancel();
    Finish(ToGrpc(status));
  }

  void OnCancel() override {
    cancellation_->Cancel(
        errors::Cancelled("the client cancelled the call, or its deadline passed"));
  }
  void OnDone() override { delete this; }

 private:
  // What this does when it is cancelled or done is short, and may run on the thread of gRPC that
  // noticed. Otherwise gRPC wakes one of its others for it, for each call.
  bool InternalInlineable() override { return true; }

  const std::shared_ptr<CancellationManager> cancellation_;
  std::optional<grpc::Alarm> alarm_;  // Of a call with a limit.
};

// A call that ended at once.
inline grpc::ServerUnaryReactor* EndedCall(grpc::CallbackServerContext* context,
                                           const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SERVER_CALL_H_
