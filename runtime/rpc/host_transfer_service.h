// HostTransferService: tells other tasks of this host, and clients, how to borrow values of this
// one and to lend theirs to it (host_link.h).
#ifndef TANDEM_RUNTIME_RPC_HOST_TRANSFER_SERVICE_H_
#define TANDEM_RUNTIME_RPC_HOST_TRANSFER_SERVICE_H_

#include <memory>

#include "grpcpp/impl/codegen/service_type.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem {

// `endpoint` outlives the service. `serves_clients`: not other tasks alone.
std::unique_ptr<grpc::Service> NewHostTransferService(SharedMemoryEndpoint* endpoint,
                                                      bool serves_clients);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_HOST_TRANSFER_SERVICE_H_
