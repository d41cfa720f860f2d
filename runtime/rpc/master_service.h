// The wire side of a Master: TensorFlow's MasterService over gRPC.
//
// No call holds a thread while its step runs. A call that is cancelled, or whose deadline or
// RunOptions.timeout_in_ms passes, cancels its step.
#ifndef TANDEM_RUNTIME_RPC_MASTER_SERVICE_H_
#define TANDEM_RUNTIME_RPC_MASTER_SERVICE_H_

#include <memory>

#include "grpcpp/impl/codegen/service_type.h"
#include "runtime/rpc/master.h"

namespace tandem {

// `master` and `control`, where graphs are read and compiled, outlive the service.
std::unique_ptr<grpc::Service> NewMasterService(Master* master, ControlThreads* control);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_MASTER_SERVICE_H_
