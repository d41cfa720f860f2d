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

namespace tandem::parameter_server {

// `host` outlives the service.
std::unique_ptr<grpc::Service> NewShardService(ShardHost* host);

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_SERVICE_H_
