// Device: where kernels run and where tensors lie.
//
// A device owns its allocator and, if it is not the host's CPU, an in-order queue.
// Two kinds matter to the executor:
//
//   * Host devices (CPU): their memory is the host's and kernels run on the thread that calls.
//   * Queued devices (SIM, GPU): they have a memory of their own, which the host may not touch.
//     Kernels and copies are put on a queue and run in that order, later.
//
// All devices but CPU:0 of a process are as virtual or as real as their class makes them; two CPU
// devices share cores and memory.
//
// Threads: any thread may call any method. Lifetime: a device outlives the sessions that use it.
#ifndef TANDEM_RUNTIME_DEVICE_DEVICE_H_
#define TANDEM_RUNTIME_DEVICE_DEVICE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/kernel/kernel.h"
#include "core/tensor/tensor.h"

namespace tandem {

class Device {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  using Copied = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;

  virtual ~Device() = default;

  // What kernels see of the device, but for the resources, which belong to sessions
  // (session_devices.h).
  virtual const KernelDevice& kernel_device() const = 0;
  const std::string& name() const { return kernel_device().name; }
  const std::string& type() const { return kernel_device().type; }
  // A random number that tells this device from one of the same name in an earlier life.
  virtual uint64_t incarnation() const = 0;
  // Bytes that tensors can take; for DeviceAttributes.
  virtual int64_t memory_limit() const = 0;

  // False for host devices. The methods below are for queued ones only.
  virtual bool is_queued() const = 0;

  // Runs `kernel` on the queue. `done` runs when its outputs may be handed to the next kernel of
  // this device; for other devices and the host their contents become visible through a copy only.
  // `kernel` and `context` live until then.
  virtual void Enqueue(Kernel& kernel, KernelContext& context, Done done) = 0;
  // Copies between the host's memory and the device's, in the order of the queue. `source` is kept
  // alive as long as needed.
  virtual void CopyToDevice(Tensor source, Copied copied) = 0;
  virtual void CopyToHost(Tensor source, Copied copied) = 0;
  // Runs `done` when all that was put on the queue before has been carried out: an event.
  virtual void AfterQueue(Done done) = 0;
};

// "CPU:2,SIM:1": how many devices of which type. A type alone means one.
struct DeviceCount {
  std::string type;
  int count = 0;
};
// InvalidArgument: not of this form, a type named twice, or a count that is not positive.
absl::StatusOr<std::vector<DeviceCount>> ParseDeviceCounts(absl::string_view text);

// Makes a device; `name` is its full name and `ordinal` the number at its end.
using DeviceFactory = absl::StatusOr<std::unique_ptr<Device>> (*)(const std::string& name,
                                                                  int ordinal);

// A device type makes itself known in its own folder: static DeviceRegistration r(kSim, MakeSim);
struct DeviceRegistration {
  DeviceRegistration(absl::string_view type, DeviceFactory factory);
};

// The devices of one task, under the prefix "/job:localhost/replica:0/task:0" or a cluster's.
class DeviceSet {
 public:
  // At least one CPU device is made, also when `counts` names none. InvalidArgument: a type that
  // this program does not hold (the message lists those it does); or the factory's error.
  static absl::StatusOr<std::shared_ptr<DeviceSet>> Create(
      const std::vector<DeviceCount>& counts,
      absl::string_view prefix = "/job:localhost/replica:0/task:0");
  // As the environment says: TANDEM_DEVICES ("CPU:2"), else one CPU.
  static absl::StatusOr<std::shared_ptr<DeviceSet>> FromEnvironment(
      absl::string_view prefix = "/job:localhost/replica:0/task:0");

  // In order: CPU:0 is the first.
  const std::vector<std::unique_ptr<Device>>& devices() const { return devices_; }
  Device& host() const { return *devices_.front(); }
  // By full name. Null when there is none.
  Device* Find(absl::string_view name) const;
  const std::string& prefix() const { return prefix_; }

  // What graphs that run on these devices may touch of the machine's files. Null: all of them.
  const std::shared_ptr<FileSystem>& files() const { return files_; }
  // REQUIRES: no session uses the devices yet.
  void set_files(std::shared_ptr<FileSystem> files) { files_ = std::move(files); }

 private:
  std::string prefix_;
  std::shared_ptr<FileSystem> files_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_DEVICE_H_
