#include "strategies/mirrored/mirrored.h"

#include <utility>

#include "strategies/local/replica_builder.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewMirroredBuilder(MirroredOptions options) {
  ReplicaBuilderOptions replicas;
  replicas.devices = std::move(options.devices);
  replicas.virtual_replicas = options.virtual_replicas;
  replicas.bucket_bytes = options.bucket_bytes;
  return NewReplicaBuilder(std::move(replicas));
}

}  // namespace tandem
