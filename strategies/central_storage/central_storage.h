// CentralStorage: replicas on several devices, variables in one copy on another one, as a rule the
// host. Replicas read them at the beginning of each step; the sum of their gradients is applied
// where the variables live. For models whose variables and slots do not fit on the devices.
#ifndef TANDEM_STRATEGIES_CENTRAL_STORAGE_CENTRAL_STORAGE_H_
#define TANDEM_STRATEGIES_CENTRAL_STORAGE_CENTRAL_STORAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "strategies/builder.h"
#include "strategies/local/replica_builder.h"

namespace tandem {

// One replica runs on each of `replicas.devices`; the variables live on `central_device`.
// InvalidArgument: no device, or fewer virtual replicas than devices.
absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewCentralStorageBuilder(
    ReplicaBuilderOptions replicas, std::string central_device = "/device:CPU:0");

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_CENTRAL_STORAGE_CENTRAL_STORAGE_H_
