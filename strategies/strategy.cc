#include "strategies/strategy.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/status.h"
#include "strategies/mirrored/mirrored.h"

namespace tandem {
namespace {

class LocalStrategy final : public Strategy {
 public:
  LocalStrategy(std::string name, tandem::MirroredOptions options,
                std::shared_ptr<DeviceSet> devices)
      : name_(std::move(name)), options_(std::move(options)), devices_(std::move(devices)) {}

  std::string name() const override { return name_; }
  absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const override {
    return NewMirroredBuilder(options_);
  }
  SessionOptions session_options() const override {
    SessionOptions session;
    session.devices = devices_;
    // Sums inside a kernel must not depend on how many threads share them.
    if (options_.virtual_replicas > 0) session.inner_parallelism = 1;
    return session;
  }

 private:
  const std::string name_;
  const tandem::MirroredOptions options_;
  const std::shared_ptr<DeviceSet> devices_;
};

std::vector<std::string> DevicesOfType(const DeviceSet& devices, const std::string& type) {
  std::vector<std::string> names;
  for (const auto& device : devices.devices()) {
    if (device->type() == type) names.push_back(device->name());
  }
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::OneDevice(OneDeviceOptions options) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<DeviceSet> devices, DeviceSet::FromEnvironment());
  tandem::MirroredOptions mirrored;
  mirrored.devices = {options.device};
  mirrored.virtual_replicas = options.virtual_replicas;
  return std::make_unique<LocalStrategy>("one_device", std::move(mirrored), std::move(devices));
}

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::Mirrored(MirroredOptions options) {
  if (options.replicas < 0) {
    return errors::InvalidArgument(options.replicas, " replicas; at least 1 is needed");
  }
  const std::string type = absl::AsciiStrToUpper(options.device_type);
  std::shared_ptr<DeviceSet> devices;
  if (std::getenv("TANDEM_DEVICES") == nullptr && options.replicas > 0) {
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::Create({{type, options.replicas}}));
  } else {
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::FromEnvironment());
  }
  tandem::MirroredOptions mirrored;
  mirrored.virtual_replicas = options.virtual_replicas;
  mirrored.devices = DevicesOfType(*devices, type);
  if (mirrored.devices.empty() || options.replicas > static_cast<int>(mirrored.devices.size())) {
    return errors::InvalidArgument(options.replicas, " replicas on devices of type ", type,
                                   ", but there are ", mirrored.devices.size(),
                                   "; declare more with TANDEM_DEVICES=", type, ":",
                                   options.replicas);
  }
  if (options.replicas > 0) mirrored.devices.resize(static_cast<size_t>(options.replicas));
  return std::make_unique<LocalStrategy>("mirrored", std::move(mirrored), std::move(devices));
}

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::FromEnvironment() {
  if (std::getenv("TF_CONFIG") != nullptr) {
    return errors::Unimplemented(
        "TF_CONFIG is set, but training over several tasks is not supported yet; unset it to "
        "train on this machine's devices");
  }
  const char* name = std::getenv("TANDEM_STRATEGY");
  if (name == nullptr || std::string(name) == "mirrored") return Mirrored({});
  if (std::string(name) == "one_device") return OneDevice({});
  return errors::InvalidArgument("TANDEM_STRATEGY is '", name,
                                 "'; it can be one_device or mirrored");
}

}  // namespace tandem
