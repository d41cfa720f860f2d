// The wire side of a Worker: TensorFlow's WorkerService over gRPC.
//
// No call holds a thread while its step runs or a value is waited for. A call that is cancelled, or
// whose connection is lost, cancels its step. Values leave with RecvTensor in their own memory, or
// are lent to tasks of this host.
//
// Unimplemented, so far: collectives between tasks (RecvBuf, GetStepSequence, CompleteGroup,
// CompleteInstance), and Tracing.
#ifndef TANDEM_RUNTIME_RPC_WORKER_SERVICE_H_
#define TANDEM_RUNTIME_RPC_WORKER_SERVICE_H_

#include <memory>

#include "grpcpp/impl/codegen/service_type.h"
#include "runtime/rpc/control_threads.h"
#include "runtime/rpc/worker.h"

namespace tandem {

// `worker` and `control`, where graphs are read and compiled, outlive the service.
std::unique_ptr<grpc::Service> NewWorkerService(Worker* worker, ControlThreads* control);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_WORKER_SERVICE_H_
