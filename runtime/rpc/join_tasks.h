// JoinTasks: waits until other tasks answer, and learns their devices.
#ifndef TANDEM_RUNTIME_RPC_JOIN_TASKS_H_
#define TANDEM_RUNTIME_RPC_JOIN_TASKS_H_

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/kernel/cancellation.h"
#include "proto/device_attributes.pb.h"
#include "runtime/rpc/worker_client.h"

namespace tandem {

// The devices of each task, in the order of `clients`. `done` is called once, on any thread.
// `cancellation` may be null. The caller keeps the clients until then, and lets go of them on no
// thread of gRPC.
//
// Every `report_every` the log says who does not answer. DeadlineExceeded, after `timeout`, names
// them. FailedPrecondition: a task answers under another name than the cluster gives it.
void JoinTasks(
    std::vector<std::shared_ptr<WorkerClient>> clients, absl::Duration timeout,
    absl::Duration report_every, CancellationManager* cancellation,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<std::vector<tensorflow::DeviceAttributes>>>)>
        done);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_JOIN_TASKS_H_
