// The host's CPU. Kernels run on the executor's thread; the queue's methods are not used.
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "runtime/device/device.h"
#include "runtime/device/incarnation.h"
#include "runtime/threads/inner_loop.h"

namespace tandem {
namespace {

class CpuDevice final : public Device {
 public:
  CpuDevice(std::string name, int ordinal) : incarnation_(RandomIncarnation()) {
    kernel_device_.name = std::move(name);
    kernel_device_.type = kCpu;
    kernel_device_.ordinal = ordinal;
    kernel_device_.allocator = HostAllocator();
    kernel_device_.parallel = InnerLoopRunner();
  }

  const KernelDevice& kernel_device() const override { return kernel_device_; }
  uint64_t incarnation() const override { return incarnation_; }
  int64_t memory_limit() const override { return int64_t{256} << 20; }
  bool is_queued() const override { return false; }

  void Enqueue(Kernel&, KernelContext&, Done done) override { done(NotQueued()); }
  void CopyToDevice(Tensor source, Copied copied) override { copied(std::move(source)); }
  void CopyToHost(Tensor source, Copied copied) override { copied(std::move(source)); }
  void AfterQueue(Done done) override { done(absl::OkStatus()); }

 private:
  absl::Status NotQueued() const {
    return errors::Internal("device ", name(),
                            " has no queue; its kernels run where they are called");
  }

  KernelDevice kernel_device_;
  const uint64_t incarnation_;
};

const DeviceRegistration registration(kCpu,
                                      [](const std::string& name,
                                         int ordinal) -> absl::StatusOr<std::unique_ptr<Device>> {
                                        return std::make_unique<CpuDevice>(name, ordinal);
                                      });

}  // namespace
}  // namespace tandem
