// StepCall: a client's call that runs a step.
//
// It ends with its session, its caller or its deadline. A call whose connection is lost is made
// again for a moment, with the same request, which names itself: a server that has seen it does not
// run it a second time, but says so (Aborted); one that was restarted says that it has lost the
// session (Aborted).
#ifndef TANDEM_RUNTIME_RPC_STEP_CALL_H_
#define TANDEM_RUNTIME_RPC_STEP_CALL_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/kernel/cancellation.h"
#include "grpcpp/support/byte_buffer.h"
#include "runtime/rpc/call_set.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace tandem {

struct StepCallOptions {
  std::string path;  // "/tensorflow.MasterService/RunStep"
  absl::Time deadline = absl::InfiniteFuture();
  CancellationManager* session = nullptr;  // Outlives the call, as does the caller's.
  CancellationManager* caller = nullptr;   // May be null.
  // Says more of what gRPC or the server ended the call with.
  std::function<absl::Status(const absl::Status& status)> explain;
};

// Holds no thread. `done` is called once, outside locks, on a thread of gRPC or on the calling one;
// the call is among `calls` until it returns. Errors: the reason of whoever cancelled it; what the
// server answered; gRPC's. Unavailable: the connection was lost, and the server was not found
// again.
void StartStepCall(const std::shared_ptr<grpc::Channel>& channel, std::shared_ptr<CallSet> calls,
                   const StepCallOptions& options, grpc::ByteBuffer request,
                   absl::AnyInvocable<void(absl::StatusOr<grpc::ByteBuffer>)> done);

// The same, and waits. The calling thread itself reads the answer from the connection: no other one
// has to wake up for it, which costs more than a small step takes.
absl::StatusOr<grpc::ByteBuffer> WaitForStepCall(const std::shared_ptr<grpc::Channel>& channel,
                                                 CallSet* calls, const StepCallOptions& options,
                                                 const grpc::ByteBuffer& request);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_STEP_CALL_H_
