// SessionDevices: the devices of a session as its kernels see them, each with resources (variables,
// queues) that belong to the session. So two sessions on the same devices do not meet each other's
// variables, unless they are given the same SessionDevices on purpose, as the sessions of a server
// are.
#ifndef TANDEM_RUNTIME_DEVICE_SESSION_DEVICES_H_
#define TANDEM_RUNTIME_DEVICE_SESSION_DEVICES_H_

#include <map>
#include <memory>

#include "core/kernel/kernel.h"
#include "runtime/device/device.h"

namespace tandem {

// Threads: any; it never changes. Lifetime: outlives the kernels that were made for it.
class SessionDevices {
 public:
  explicit SessionDevices(std::shared_ptr<DeviceSet> devices);
  ~SessionDevices();

  const DeviceSet& devices() const { return *devices_; }
  DeviceSet& devices() { return *devices_; }
  const std::shared_ptr<DeviceSet>& shared_devices() const { return devices_; }
  // REQUIRES: `device` is one of devices().
  const KernelDevice& kernel_device(const Device& device) const {
    return views_.find(&device)->second->kernel_device;
  }
  // Forgets all resources in a container, on all devices.
  void ClearContainer(absl::string_view container);

 private:
  struct View {
    KernelDevice kernel_device;
    ResourceManager resources;
  };

  const std::shared_ptr<DeviceSet> devices_;
  std::map<const Device*, std::unique_ptr<View>> views_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_SESSION_DEVICES_H_
