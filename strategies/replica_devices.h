// Which devices of this process replicas run on.
#ifndef TANDEM_STRATEGIES_REPLICA_DEVICES_H_
#define TANDEM_STRATEGIES_REPLICA_DEVICES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"

namespace tandem {

struct ReplicaDevices {
  std::shared_ptr<DeviceSet> devices;
  std::vector<std::string> replicas;  // The name of each replica's device.
};

// The names of the devices of a type ("CPU").
std::vector<std::string> DevicesOfType(const DeviceSet& devices, const std::string& type);

// For `replicas` replicas, one a device of the type; 0: on all that there are. Devices are those of
// the environment; where it declares none (TANDEM_DEVICES), as many as are asked for.
// InvalidArgument: a negative number, or more than there are devices.
absl::StatusOr<ReplicaDevices> ChooseReplicaDevices(const std::string& device_type, int replicas);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_REPLICA_DEVICES_H_
