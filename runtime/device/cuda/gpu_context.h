// GpuPlatform and GpuContext: the calls of a GPU's driver that Tandem uses, and no more.
//
// Two implementations: the CUDA driver (cuda_driver.h), and one that emulates it on the host for
// tests (emulated/). What lies above (memory, queue, device) is the same for both.
//
// Streams run what is put on them in order; different streams run in any order but for events:
// Record marks a point of one stream, Wait makes another stream wait for it.
//
// Threads: any. Errors: Internal with the driver's name of the error, ResourceExhausted where there
// is no memory. After an error of a kernel that ran, every later call of the context fails, too.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_GPU_CONTEXT_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_GPU_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernel/gpu.h"

namespace tandem {

// Handles of the driver.
using GpuStream = struct GpuStreamTag*;
using GpuEvent = struct GpuEventTag*;

// One GPU.
class GpuContext {
 public:
  virtual ~GpuContext() = default;

  virtual const GpuProperties& properties() const = 0;
  // Makes the calling thread one of the GPU's, for libraries that ask the driver which it is. The
  // methods below do so themselves.
  virtual absl::Status MakeCurrent() = 0;

  // Memory of the device. `Free` waits for all that runs.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  // Memory of the host that the device reads and writes without the host's help.
  virtual absl::StatusOr<void*> AllocatePinned(size_t bytes) = 0;
  virtual void FreePinned(void* memory) = 0;

  virtual absl::StatusOr<GpuStream> CreateStream() = 0;
  virtual void DestroyStream(GpuStream stream) = 0;
  virtual absl::StatusOr<GpuEvent> CreateEvent() = 0;
  virtual void DestroyEvent(GpuEvent event) = 0;
  // The point that the stream has reached when everything on it so far is done. A new Record
  // replaces the point; waits that are on streams already keep theirs.
  virtual absl::Status Record(GpuEvent event, GpuStream stream) = 0;
  virtual absl::Status Wait(GpuStream stream, GpuEvent event) = 0;
  // Whether the point was passed. True of an event that was never recorded.
  virtual absl::StatusOr<bool> Passed(GpuEvent event) = 0;
  // The host waits. Sleeps meanwhile.
  virtual absl::Status Synchronize(GpuEvent event) = 0;

  // `host` is pinned memory.
  virtual absl::Status CopyToDevice(void* device, const void* host, size_t bytes,
                                    GpuStream stream) = 0;
  virtual absl::Status CopyToHost(void* host, const void* device, size_t bytes,
                                  GpuStream stream) = 0;
  virtual absl::Status CopyOnDevice(void* to, const void* from, size_t bytes, GpuStream stream) = 0;
  virtual absl::Status Fill(void* to, uint8_t value, size_t bytes, GpuStream stream) = 0;

  // As GpuQueue::Launch.
  virtual absl::Status Launch(const GpuFunctionBase& function, const GpuGrid& grid,
                              absl::Span<const GpuArgument> arguments, GpuStream stream) = 0;
};

// The GPUs of a machine.
class GpuPlatform {
 public:
  virtual ~GpuPlatform() = default;
  // Zero where there are none.
  virtual absl::StatusOr<int> DeviceCount() = 0;
  // InvalidArgument: there is no such GPU; says how many there are.
  virtual absl::StatusOr<std::unique_ptr<GpuContext>> Open(int ordinal) = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_GPU_CONTEXT_H_
