// GPU: a device over the CUDA driver, or over what emulates it.
//
//   kernels   Compute runs on the thread that calls Enqueue, one call at a time, and puts work on
//             the compute stream; nobody waits for it. `done` runs as soon as it is there, so a
//             step is queued far ahead of what the GPU has done.
//   inputs    CopyToDevice goes through pinned memory and the copy-in stream; the compute stream
//             waits for it, the host does not.
//   results   CopyToHost goes through the copy-out stream. A thread of the device waits for the end
//             of each, and that is the only place where anybody does.
//
// An output that a kernel put into the host's memory, and that belongs on the device, is copied
// there: so kernels that only pass values on, or make small ones, are the CPU's (MovesValues).
//
// After an error of a kernel that ran, the driver answers every call with it: the device is lost
// for the process, and the error says so. With TANDEM_GPU_BLOCKING=1 in the environment each launch
// is waited for, and the error is that of its op.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_GPU_DEVICE_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_GPU_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/gpu_context.h"
#include "runtime/device/device.h"

namespace tandem {

struct GpuOptions {
  // Bytes that tensors may take. 0: what the device has.
  int64_t memory_limit = 0;
};

// Errors are those of GpuPlatform::Open. `name` is the device's full name, `ordinal` its number and
// the GPU's. `platform` outlives the device. Buffers may outlive it.
absl::StatusOr<std::unique_ptr<Device>> MakeGpuDevice(GpuPlatform& platform,
                                                      const std::string& name, int ordinal,
                                                      const GpuOptions& options = {});

// What devices of type GPU are made from, when a DeviceSet makes them: null, at first, is the CUDA
// driver of this machine. For tests. REQUIRES: no device is being made meanwhile.
void SetGpuPlatform(GpuPlatform* platform);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_GPU_DEVICE_H_
