#include "strategies/one_device/one_device.h"

#include <utility>

#include "strategies/local/replica_builder.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewOneDeviceBuilder(std::string device,
                                                                     int virtual_replicas) {
  ReplicaBuilderOptions replicas;
  replicas.devices = {std::move(device)};
  replicas.virtual_replicas = virtual_replicas;
  return NewReplicaBuilder(std::move(replicas));
}

}  // namespace tandem
