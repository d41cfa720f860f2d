// SIM: an accelerator made of a thread. What works on it has no hidden assumption that memory is
// shared or that what was started has finished.
//
//   queue    One thread, which runs kernels and copies in the order in which they came. While it
//            computes it holds a run token; inner loops of its kernels do not branch out, so that
//            declaring more devices than there are cores costs no more than the work itself.
//   memory   Tensors on the device carry addresses at which the host faults (sim_memory.h).
//   kernels  The CPU's (OpRegistry::FindKernel). Arguments in host memory stay there.
//
// What a kernel on the queue sees of a tensor in the device's memory, allocated, passed in or read
// from a variable, is an address that it can use; whatever leaves the queue (outputs, and values of
// variables that the host looks at) has the faulting one again. Outputs are put where their kind of
// memory says, if the kernel, which knows only one, put them elsewhere.
//
// An asynchronous kernel is not queued: it runs on a thread of the host, and may hand tensors in
// the device's memory on but not look into them.
#ifndef TANDEM_RUNTIME_DEVICE_SIM_SIM_DEVICE_H_
#define TANDEM_RUNTIME_DEVICE_SIM_SIM_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"

namespace tandem {

struct SimOptions {
  // Bytes. Tensors beyond it fail with ResourceExhausted. Pages are taken from the system when they
  // are first touched.
  int64_t memory_limit = int64_t{4} << 30;
};

// Devices that DeviceSet makes have the default options. Errors are those of SimMemory::Create.
// The device must not be destroyed on its own queue.
absl::StatusOr<std::unique_ptr<Device>> MakeSimDevice(const std::string& name, int ordinal,
                                                      const SimOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_SIM_SIM_DEVICE_H_
