// OneDevice: one replica, and all variables, on one device. What every other strategy is compared
// with.
#ifndef TANDEM_STRATEGIES_ONE_DEVICE_ONE_DEVICE_H_
#define TANDEM_STRATEGIES_ONE_DEVICE_ONE_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "strategies/builder.h"

namespace tandem {

// `virtual_replicas`: see ReplicaBuilderOptions.
absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewOneDeviceBuilder(std::string device,
                                                                     int virtual_replicas = 0);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_ONE_DEVICE_ONE_DEVICE_H_
