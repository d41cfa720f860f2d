// Strategy: which devices train, and how they work together. The same program runs under each; only
// the line that makes the strategy differs.
//
//   auto strategy = Strategy::FromEnvironment();
//   auto strategy = Strategy::Mirrored({.replicas = 2});
//
// A strategy makes a builder (strategies/builder.h: what the graph looks like) and says how the
// session that runs the graph is opened.
#ifndef TANDEM_STRATEGIES_STRATEGY_H_
#define TANDEM_STRATEGIES_STRATEGY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/session/session.h"
#include "strategies/builder.h"

namespace tandem {

class Strategy {
 public:
  struct OneDeviceOptions {
    std::string device = "/device:CPU:0";
    // 0: off; see MirroredOptions::virtual_replicas.
    int virtual_replicas = 0;
  };
  struct MirroredOptions {
    // One a device of `device_type`. 0: as many as there are.
    int replicas = 0;
    std::string device_type = "CPU";
    int virtual_replicas = 0;
  };

  virtual ~Strategy() = default;

  // InvalidArgument: the environment asks for devices that do not exist.
  static absl::StatusOr<std::unique_ptr<Strategy>> OneDevice(OneDeviceOptions options);
  // InvalidArgument: a negative number, or more replicas than there are devices (TANDEM_DEVICES
  // declares virtual ones; CPU devices are declared by this call as needed when that is not set).
  static absl::StatusOr<std::unique_ptr<Strategy>> Mirrored(MirroredOptions options);
  // TANDEM_STRATEGY: "one_device" or "mirrored"; else mirrored over all local CPU devices.
  // Unimplemented: TF_CONFIG is set.
  static absl::StatusOr<std::unique_ptr<Strategy>> FromEnvironment();

  virtual std::string name() const = 0;
  virtual absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const = 0;
  // For the session that runs what the builder built.
  virtual SessionOptions session_options() const = 0;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_STRATEGY_H_
