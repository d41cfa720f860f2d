// Strategy: which devices train, and how they work together. The same program runs under each; only
// the line that makes the strategy differs.
//
//   auto strategy = Strategy::FromEnvironment();
//   auto strategy = Strategy::Mirrored({.replicas = 2});
//
// A strategy makes a builder (strategies/builder.h: what the graph looks like) and a runner
// (strategies/runner.h: how its steps are run). docs/adding/strategy.md says how to add one.
#ifndef TANDEM_STRATEGIES_STRATEGY_H_
#define TANDEM_STRATEGIES_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "strategies/builder.h"
#include "strategies/runner.h"

namespace tandem {

class Strategy {
 public:
  struct OneDeviceOptions {
    std::string device = "/device:CPU:0";  // A full or partial name.
    // 0: off; see ReplicaOptions.
    int virtual_replicas = 0;
  };
  struct ReplicaOptions {
    // One a device of `device_type`. 0: as many as there are.
    int replicas = 0;
    std::string device_type = "CPU";
    // Deterministic mode: the global batch is cut into so many parts, whatever the number of
    // devices, which then does not show in the results. 0: off.
    int virtual_replicas = 0;
    // Gradients are reduced in pieces of about this many bytes, the first of which leaves while the
    // backward pass still runs.
    int64_t bucket_bytes = int64_t{1} << 20;
    // A step whose replicas wait longer for one of them ends with DeadlineExceeded, naming it.
    absl::Duration collective_timeout = absl::Seconds(60);
  };

  virtual ~Strategy() = default;

  // InvalidArgument: there is no such device.
  static absl::StatusOr<std::unique_ptr<Strategy>> OneDevice(OneDeviceOptions options);
  // Variables on every device. InvalidArgument: a negative number, a timeout or bucket that is not
  // positive, or more replicas than there are devices (TANDEM_DEVICES declares virtual ones; when
  // it is not set, this call declares those it needs).
  static absl::StatusOr<std::unique_ptr<Strategy>> Mirrored(ReplicaOptions options);
  // Variables on the host. Errors as Mirrored.
  static absl::StatusOr<std::unique_ptr<Strategy>> CentralStorage(ReplicaOptions options);
  // TANDEM_STRATEGY: one_device, mirrored or central_storage; else mirrored. Over all local devices
  // (one_device: on the first) of the fastest type that there is: GPU, CPU, SIM, as nodes are
  // placed. InvalidArgument: another name, or TF_CONFIG cannot be read. Unimplemented: TF_CONFIG
  // has more than one task, and TANDEM_STRATEGY is not set.
  static absl::StatusOr<std::unique_ptr<Strategy>> FromEnvironment();

  virtual std::string name() const = 0;
  // Whether this process writes what one process of the job writes for all: checkpoints and logs.
  // By TF_CONFIG, unless a strategy knows better.
  virtual bool is_chief() const;
  virtual absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const = 0;
  // For the graph that `builder`, one of this strategy's, has built. Both outlive the runner.
  // InvalidArgument: another strategy made the builder.
  virtual absl::StatusOr<std::unique_ptr<StrategyRunner>> NewRunner(
      const StrategyBuilder& builder) const = 0;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_STRATEGY_H_
