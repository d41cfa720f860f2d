#include "strategies/central_storage/central_storage.h"

#include <utility>

#include "strategies/local/replica_builder.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewCentralStorageBuilder(
    CentralStorageOptions options) {
  ReplicaBuilderOptions replicas;
  replicas.devices = std::move(options.devices);
  replicas.central_device = std::move(options.central_device);
  replicas.virtual_replicas = options.virtual_replicas;
  return NewReplicaBuilder(std::move(replicas));
}

}  // namespace tandem
