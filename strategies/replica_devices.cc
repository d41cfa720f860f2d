#include "strategies/replica_devices.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "core/base/status.h"

namespace tandem {

std::vector<std::string> DevicesOfType(const DeviceSet& devices, const std::string& type) {
  std::vector<std::string> names;
  for (const auto& device : devices.devices()) {
    if (device->type() == type) names.push_back(device->name());
  }
  return names;
}

absl::StatusOr<ReplicaDevices> ChooseReplicaDevices(const std::string& device_type, int replicas) {
  // As many as there can be devices of a type (runtime/device/device.h).
  constexpr int kMostReplicas = 256;
  if (replicas < 0 || replicas > kMostReplicas) {
    return errors::InvalidArgument(replicas, " replicas; 1 to ", kMostReplicas, " are possible");
  }
  const std::string type = absl::AsciiStrToUpper(device_type);
  ReplicaDevices chosen;
  if (std::getenv("TANDEM_DEVICES") == nullptr && replicas > 0) {
    TANDEM_ASSIGN_OR_RETURN(chosen.devices, DeviceSet::Create({{type, replicas}}));
  } else {
    TANDEM_ASSIGN_OR_RETURN(chosen.devices, DeviceSet::FromEnvironment());
  }
  chosen.replicas = DevicesOfType(*chosen.devices, type);
  if (chosen.replicas.empty() || replicas > static_cast<int>(chosen.replicas.size())) {
    return errors::InvalidArgument(std::max(replicas, 1), " replicas on devices of type ", type,
                                   ", but there are ", chosen.replicas.size(),
                                   "; declare more with TANDEM_DEVICES=", type, ":",
                                   std::max(replicas, 1));
  }
  if (replicas > 0) chosen.replicas.resize(static_cast<size_t>(replicas));
  return chosen;
}

}  // namespace tandem
