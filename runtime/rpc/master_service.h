// The wire side of a Master: TensorFlow's MasterService over gRPC.
//
// No call holds a thread while its step runs, but for the first moment of one that is known to be
// short: it runs where its request was read, since another thread would take longer to wake up. A
// call that is cancelled, or whose deadline or RunOptions.timeout_in_ms passes, cancels its step.
#ifndef TANDEM_RUNTIME_RPC_MASTER_SERVICE_H_
#define TANDEM_RUNTIME_RPC_MASTER_SERVICE_H_

#include <memory>

#include "grpcpp/impl/codegen/service_type.h"
#include "runtime/rpc/master.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem {

// `master` and `control`, where graphs are read and compiled, outlive the service, as does
// `shared_memory`, through which clients are handed large values; null: these go in messages.
std::unique_ptr<grpc::Service> NewMasterService(Master* master, ControlThreads* control,
                                                SharedMemoryEndpoint* shared_memory);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_MASTER_SERVICE_H_
