// CentralStorage: replicas on several devices, variables in one copy on another one, as a rule the
// host. Replicas read them at the beginning of each step; the sum of their gradients is applied
// where the variables live. For models whose variables and slots do not fit on the devices.
#ifndef TANDEM_STRATEGIES_CENTRAL_STORAGE_CENTRAL_STORAGE_H_
#define TANDEM_STRATEGIES_CENTRAL_STORAGE_CENTRAL_STORAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/builder.h"

namespace tandem {

struct CentralStorageOptions {
  // One replica runs on each. At least one.
  std::vector<std::string> devices;
  std::string central_device = "/device:CPU:0";
  // See ReplicaBuilderOptions.
  int virtual_replicas = 0;
};

// InvalidArgument: no device, or fewer virtual replicas than devices.
absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewCentralStorageBuilder(
    CentralStorageOptions options);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_CENTRAL_STORAGE_CENTRAL_STORAGE_H_
