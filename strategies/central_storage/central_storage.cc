#include "strategies/central_storage/central_storage.h"

#include <utility>

namespace tandem {

absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewCentralStorageBuilder(
    ReplicaBuilderOptions replicas, std::string central_device) {
  replicas.central_device = std::move(central_device);
  return NewReplicaBuilder(std::move(replicas));
}

}  // namespace tandem
