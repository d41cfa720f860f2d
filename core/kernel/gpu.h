// What a kernel for a GPU meets: the queue of its device, and code that runs there.
//
//   static const GpuFunction<const float*, float*, int64_t> negate{{&kUnaryCode, "Neg_float32"}};
//
//   absl::Status Compute(KernelContext& c) override {
//     GpuQueue& queue = GpuQueueOf(c.device());
//     TANDEM_ASSIGN_OR_RETURN(Tensor* y, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
//     return queue.Run(negate, GridForElements(queue, n), x_data, y_data, n);
//   }
//
// Compute puts work on the queue and returns; nothing has run by then. The addresses of tensors on
// the device mean nothing to the host, and values that the host must know (shapes, axes) are named
// as host memory by the kernel's registration. Memory may go back to its allocator as soon as the
// work that uses it is on the queue: whoever gets it next comes later in the same queue.
//
// The code itself is in NAME_gpu.cu.cc (core/kernel/gpu_code.h).
#ifndef TANDEM_CORE_KERNEL_GPU_H_
#define TANDEM_CORE_KERNEL_GPU_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/mutex.h"
#include "core/kernel/kernel.h"
#include "core/tensor/buffer.h"

namespace tandem {

// The compiled functions of one NAME_gpu.cu.cc; the rule tandem_gpu_code defines it. Constant.
struct GpuCode {
  const char* name;  // The source, for messages.
  // A fat binary; null in a build without CUDA.
  const unsigned char* image;
  size_t size;
};

// How many blocks of how many threads. One dimension each: kernels compute their own coordinates.
struct GpuGrid {
  uint32_t blocks = 1;
  uint32_t threads = 1;
};

// One function, without its types. Names are global to the program.
struct GpuFunctionBase {
  const GpuCode* code;
  const char* name;
};
// A function that takes Args: numbers, and pointers into the device's memory.
template <typename... Args>
struct GpuFunction : GpuFunctionBase {};

// Arguments as a launch wants them: where each value is, how large, and whether it is an address.
struct GpuArgument {
  const void* value;
  uint32_t size;
  bool is_address;
};

struct GpuProperties {
  std::string name;  // "NVIDIA H200"
  int64_t memory = 0;
  int multiprocessors = 1;
  int major = 0;  // Compute capability.
  int minor = 0;
};

// The compute queue of a device. Threads: any; while a kernel is in Compute no other thread uses
// the queue. Lifetime: the device's.
class GpuQueue {
 public:
  virtual ~GpuQueue() = default;

  virtual const GpuProperties& properties() const = 0;
  // The CUstream, for libraries.
  virtual void* stream() const = 0;

  // Puts a launch on the queue. FailedPrecondition: the build holds no code for GPUs. Internal: the
  // driver's error, with its name and the function's.
  virtual absl::Status Launch(const GpuFunctionBase& function, const GpuGrid& grid,
                              absl::Span<const GpuArgument> arguments) = 0;
  // Sets every byte.
  virtual absl::Status Fill(void* to, uint8_t value, size_t bytes) = 0;
  // From the device's memory to the device's memory. The ranges do not overlap.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;

  template <typename... Args>
  absl::Status Run(const GpuFunction<Args...>& function, const GpuGrid& grid,
                   std::type_identity_t<Args>... args) {
    const GpuArgument list[] = {{&args, sizeof(args), std::is_pointer_v<Args>}...};
    return Launch(function, grid, list);
  }

  // What a library keeps for a queue (a handle, its workspace), made by the first who asks; one for
  // each type. It goes with the queue.
  template <typename T>
  absl::StatusOr<T*> Attached(const std::function<absl::StatusOr<std::shared_ptr<T>>()>& make) {
    MutexLock lock(mu_);
    std::shared_ptr<void>& place = attached_[std::type_index(typeid(T))];
    if (place == nullptr) {
      absl::StatusOr<std::shared_ptr<T>> made = make();
      if (!made.ok()) return made.status();
      place = *std::move(made);
    }
    return static_cast<T*>(place.get());
  }

 protected:
  // For the destructor of the device, while the driver still answers.
  void DropAttached() {
    MutexLock lock(mu_);
    attached_.clear();
  }

 private:
  Mutex mu_;
  std::map<std::type_index, std::shared_ptr<void>> attached_ ABSL_GUARDED_BY(mu_);
};

// REQUIRES: `device` is of type kCuda.
inline GpuQueue& GpuQueueOf(const KernelDevice& device) { return *device.gpu; }

// A thread for each of `n` elements, or, where there are many, as many as keep the device busy:
// functions loop over the rest.
inline GpuGrid GridForElements(const GpuQueue& queue, int64_t n) {
  constexpr int64_t kThreads = 256;
  constexpr int64_t kBlocksPerMultiprocessor = 8;
  const int64_t wanted = std::max<int64_t>((n + kThreads - 1) / kThreads, 1);
  const int64_t most = kBlocksPerMultiprocessor * queue.properties().multiprocessors;
  return {static_cast<uint32_t>(std::min(wanted, most)), kThreads};
}
// A block for each of `n` rows, up to what a launch may have: functions loop over the rest.
inline GpuGrid GridForRows(int64_t n, uint32_t threads) {
  constexpr int64_t kMostBlocks = 65535;
  return {static_cast<uint32_t>(std::clamp<int64_t>(n, 1, kMostBlocks)), threads};
}

// For ops that pass values on and look into none: on a GPU they run the CPU's kernel. It gets, and
// may hand on, addresses of the device; what it puts into memory of its own is copied there.
// `host_memory` as KernelDef's.
//   TANDEM_KERNEL("Identity", MovesValues());
KernelDef MovesValues(std::vector<std::string> host_memory = {});

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_GPU_H_
