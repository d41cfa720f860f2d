// Mirrored: one replica a device, every variable on each device, gradients summed over the replicas
// inside the step.
#ifndef TANDEM_STRATEGIES_MIRRORED_MIRRORED_H_
#define TANDEM_STRATEGIES_MIRRORED_MIRRORED_H_

#include <memory>

#include "absl/status/statusor.h"
#include "strategies/builder.h"
#include "strategies/local/replica_builder.h"

namespace tandem {

// One replica runs on each of `replicas.devices`, and each device has a copy of every variable.
// InvalidArgument: no device, fewer virtual replicas than devices, or a central device.
absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewMirroredBuilder(ReplicaBuilderOptions replicas);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_MIRRORED_MIRRORED_H_
