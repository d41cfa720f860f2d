// A GPU that is emulated on the host, for tests on machines without one.
//
// What it shows that a real one would hide, most of the time:
//
//   order     Nothing on a stream runs until somebody waits for it, and then only what that wait
//             needs. So work that forgot to wait for another stream finds that stream's work
//             undone.
//   memory    The device's memory has two addresses (as SIM's): at the one that is handed out
//             nothing is mapped, so the host faults at once when it looks there. Freed memory is
//             overwritten. Copies from and to the host check that its memory is pinned.
//   launches  The number and sizes of the arguments are compared with the function's, sizes of
//             grids with what CUDA allows, and addresses must lie in the device's memory.
//
// Functions run as g++ compiled them (core/kernel/gpu_code.h), on the thread that waits.
//
// Threads: any. Lifetime: outlives the devices made of it.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_GPU_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_GPU_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/device/cuda/gpu_context.h"

namespace tandem {

class EmulatedGpuPlatform final : public GpuPlatform {
 public:
  struct Options {
    int devices = 1;
    int64_t memory = int64_t{1} << 30;  // Bytes a device; pages are taken when they are touched.
    int multiprocessors = 3;
  };
  // What the GPUs were asked to do, all of them together.
  struct Counts {
    std::atomic<int64_t> launches{0};
    std::atomic<int64_t> runs{0};           // Launches that were carried out.
    std::atomic<int64_t> waits_of_host{0};  // Synchronize.
    std::atomic<int64_t> allocations{0};    // Of the device's memory.
    std::atomic<int64_t> copies_in{0};
    std::atomic<int64_t> copies_out{0};
  };

  EmulatedGpuPlatform() : EmulatedGpuPlatform(Options()) {}
  explicit EmulatedGpuPlatform(const Options& options);
  ~EmulatedGpuPlatform() override;

  absl::StatusOr<int> DeviceCount() override { return options_.devices; }
  absl::StatusOr<std::unique_ptr<GpuContext>> Open(int ordinal) override;

  const Counts& counts() const { return counts_; }
  // From the next launch of the function on, running it fails, and so does everything after it, as
  // after an illegal address.
  void BreakAt(std::string function);

 private:
  friend class EmulatedGpuContext;

  const Options options_;
  Counts counts_;
  struct Fault;
  const std::unique_ptr<Fault> fault_;
};

// For code that runs as part of a device's work (emulated libraries): the host's address of memory
// of an emulated device. Any other address comes back as it is.
void* EmulatedAddress(void* device_address);

// For emulated libraries: puts a closure on a stream of an emulated device.
absl::Status RunOnEmulatedStream(void* stream, std::function<void()> work);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_GPU_H_
