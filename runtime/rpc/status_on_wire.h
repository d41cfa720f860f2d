// Errors on the wire: absl::Status with its payloads as gRPC's status, and back.
//
// Two payloads carry meaning between tasks, under TensorFlow's keys. An error that is derived is
// the consequence of another one, which somebody else reports: whoever collects errors of a step
// prefers others to it. An error with WorkerPossiblyRestarted comes from a task that does not know
// what its caller takes for granted.
#ifndef TANDEM_RUNTIME_RPC_STATUS_ON_WIRE_H_
#define TANDEM_RUNTIME_RPC_STATUS_ON_WIRE_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace tandem {

// Messages are cut to this length, in bytes, since they travel in a header, whose size is limited.
inline constexpr size_t kMaxStatusMessage = 3072;

grpc::Status ToGrpc(const absl::Status& status);
// Details that cannot be read are dropped.
absl::Status FromGrpc(const grpc::Status& status);

// REQUIRES: not OK.
absl::Status MakeDerived(absl::Status status);
bool IsDerived(const absl::Status& status);
// REQUIRES: not OK.
absl::Status MakeWorkerRestarted(absl::Status status);
bool IsWorkerRestarted(const absl::Status& status);

// "From /job:ps/replica:0/task:0:\n" before the message, as TensorFlow has it, unless some task is
// named there already; payloads stay.
absl::Status FromTask(const absl::Status& status, absl::string_view task);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_STATUS_ON_WIRE_H_
