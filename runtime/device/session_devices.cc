#include "runtime/device/session_devices.h"

#include <utility>

namespace tandem {

SessionDevices::SessionDevices(std::shared_ptr<DeviceSet> devices) : devices_(std::move(devices)) {
  for (const auto& device : devices_->devices()) {
    auto view = std::make_unique<View>();
    view->kernel_device = device->kernel_device();
    view->kernel_device.resources = &view->resources;
    view->kernel_device.files = devices_->files().get();
    views_.emplace(device.get(), std::move(view));
  }
}

SessionDevices::~SessionDevices() = default;

void SessionDevices::ClearContainer(absl::string_view container) {
  for (const auto& [device, view] : views_) view->resources.ClearContainer(container);
}

}  // namespace tandem
