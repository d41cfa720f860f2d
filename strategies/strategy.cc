#include "strategies/strategy.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "runtime/device/device.h"
#include "strategies/central_storage/central_storage.h"
#include "strategies/local/local_runner.h"
#include "strategies/mirrored/mirrored.h"
#include "strategies/one_device/one_device.h"

namespace tandem {
namespace {

// A strategy whose replicas are devices of this process.
class LocalStrategy final : public Strategy {
 public:
  enum class Kind { kOneDevice, kMirrored, kCentralStorage };

  LocalStrategy(Kind kind, std::vector<std::string> replicas, int virtual_replicas,
                std::shared_ptr<DeviceSet> devices)
      : kind_(kind),
        replicas_(std::move(replicas)),
        virtual_replicas_(virtual_replicas),
        devices_(std::move(devices)) {}

  std::string name() const override {
    switch (kind_) {
      case Kind::kOneDevice:
        return "one_device";
      case Kind::kMirrored:
        return "mirrored";
      case Kind::kCentralStorage:
        break;
    }
    return "central_storage";
  }

  absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const override {
    switch (kind_) {
      case Kind::kOneDevice:
        return NewOneDeviceBuilder(replicas_[0], virtual_replicas_);
      case Kind::kMirrored:
        return NewMirroredBuilder({.devices = replicas_, .virtual_replicas = virtual_replicas_});
      case Kind::kCentralStorage:
        break;
    }
    return NewCentralStorageBuilder({.devices = replicas_,
                                     .central_device = devices_->host().name(),
                                     .virtual_replicas = virtual_replicas_});
  }

  absl::StatusOr<std::unique_ptr<StrategyRunner>> NewRunner(
      const StrategyBuilder& builder) const override {
    SessionOptions session;
    session.devices = devices_;
    // Sums inside a kernel must not depend on how many threads share them.
    if (virtual_replicas_ > 0) session.inner_parallelism = 1;
    return LocalRunner::Create(builder, std::move(session));
  }

 private:
  const Kind kind_;
  const std::vector<std::string> replicas_;
  const int virtual_replicas_;
  const std::shared_ptr<DeviceSet> devices_;
};

std::vector<std::string> DevicesOfType(const DeviceSet& devices, const std::string& type) {
  std::vector<std::string> names;
  for (const auto& device : devices.devices()) {
    if (device->type() == type) names.push_back(device->name());
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Strategy>> OverDevices(LocalStrategy::Kind kind,
                                                      const Strategy::ReplicaOptions& options) {
  // As many as there can be devices of a type (runtime/device/device.h).
  constexpr int kMostReplicas = 256;
  if (options.replicas < 0 || options.replicas > kMostReplicas) {
    return errors::InvalidArgument(options.replicas, " replicas; 1 to ", kMostReplicas,
                                   " are possible");
  }
  const std::string type = absl::AsciiStrToUpper(options.device_type);
  std::shared_ptr<DeviceSet> devices;
  if (std::getenv("TANDEM_DEVICES") == nullptr && options.replicas > 0) {
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::Create({{type, options.replicas}}));
  } else {
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::FromEnvironment());
  }
  std::vector<std::string> replicas = DevicesOfType(*devices, type);
  if (replicas.empty() || options.replicas > static_cast<int>(replicas.size())) {
    return errors::InvalidArgument(std::max(options.replicas, 1), " replicas on devices of type ",
                                   type, ", but there are ", replicas.size(),
                                   "; declare more with TANDEM_DEVICES=", type, ":",
                                   std::max(options.replicas, 1));
  }
  if (options.replicas > 0) replicas.resize(static_cast<size_t>(options.replicas));
  return std::make_unique<LocalStrategy>(kind, std::move(replicas), options.virtual_replicas,
                                         std::move(devices));
}

// All devices of the fastest type that the environment declares.
absl::StatusOr<std::string> FastestType() {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<DeviceSet> devices, DeviceSet::FromEnvironment());
  for (const char* type : {kCuda, kSim}) {
    if (!DevicesOfType(*devices, type).empty()) return std::string(type);
  }
  return std::string(kCpu);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::OneDevice(OneDeviceOptions options) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<DeviceSet> devices, DeviceSet::FromEnvironment());
  return std::make_unique<LocalStrategy>(LocalStrategy::Kind::kOneDevice,
                                         std::vector<std::string>{options.device},
                                         options.virtual_replicas, std::move(devices));
}

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::Mirrored(ReplicaOptions options) {
  return OverDevices(LocalStrategy::Kind::kMirrored, options);
}

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::CentralStorage(ReplicaOptions options) {
  return OverDevices(LocalStrategy::Kind::kCentralStorage, options);
}

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::FromEnvironment() {
  const char* const wished = std::getenv("TANDEM_STRATEGY");
  if (wished == nullptr && std::getenv("TF_CONFIG") != nullptr) {
    return errors::Unimplemented(
        "TF_CONFIG is set, but training over several tasks is not supported yet; unset it, or set "
        "TANDEM_STRATEGY=mirrored, to train on this machine's devices");
  }
  const std::string name = wished == nullptr ? "mirrored" : wished;
  if (name == "one_device") return OneDevice({});
  if (name == "mirrored" || name == "central_storage") {
    ReplicaOptions options;
    TANDEM_ASSIGN_OR_RETURN(options.device_type, FastestType());
    return name == "mirrored" ? Mirrored(options) : CentralStorage(options);
  }
  return errors::InvalidArgument("TANDEM_STRATEGY is '", name,
                                 "'; it can be one_device, mirrored or central_storage");
}

}  // namespace tandem
