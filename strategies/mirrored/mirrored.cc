#include "strategies/mirrored/mirrored.h"

#include <utility>

#include "core/base/status.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewMirroredBuilder(
    ReplicaBuilderOptions replicas) {
  if (!replicas.central_device.empty()) {
    return errors::InvalidArgument("mirrored variables live on every device, not on '",
                                   replicas.central_device, "' alone");
  }
  return NewReplicaBuilder(std::move(replicas));
}

}  // namespace tandem
