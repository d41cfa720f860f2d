// The wire side of a ShardHost: ParameterService over gRPC.
//
// No call holds a thread while its program runs, or a version or other parts are waited for. A call
// that is cancelled, or whose connection is lost, ends its wait. Arguments go from gRPC's slices
// straight into tensors, and results leave in their own memory.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_SERVICE_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_SERVICE_H_

#include <memory>

#include "grpcpp/impl/codegen/service_type.h"
#include "runtime/parameter_server/shard_host.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem::parameter_server {

// `host` outlives the service, as does `shared_memory` (null: none), through which arguments and
// results of calls go to and from processes of this host (runtime/rpc/step_transfers.h).
std::unique_ptr<grpc::Service> NewShardService(ShardHost* host,
                                               SharedMemoryEndpoint* shared_memory = nullptr);

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_SERVICE_H_
