// Mirrored: one replica a device, every variable on each device, gradients summed over the replicas
// inside the step.
#ifndef TANDEM_STRATEGIES_MIRRORED_MIRRORED_H_
#define TANDEM_STRATEGIES_MIRRORED_MIRRORED_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/builder.h"

namespace tandem {

struct MirroredOptions {
  // One replica runs on each, and each has a copy of every variable. At least one.
  std::vector<std::string> devices;
  // See ReplicaBuilderOptions.
  int virtual_replicas = 0;
  int64_t bucket_bytes = int64_t{1} << 20;
};

// InvalidArgument: no device, or fewer virtual replicas than devices.
absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewMirroredBuilder(MirroredOptions options);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_MIRRORED_MIRRORED_H_
