// GpuMemory: the memory of a GPU, in two pools, and pinned memory of the host.
//
//   The pool of the compute stream. A block is free as soon as its last tensor is gone on the host,
//   even while the work that uses it still waits: whoever gets it next comes later in the same
//   stream.
//
//   Arrivals: what is copied from the host, in another stream, so that the next step's batch
//   travels while this step computes. A block that comes back carries an event behind the last work
//   that may have read it, and the next copy into it waits for that.
//
//   Pinned memory, into which values are copied from the device, and through which they go there.
//
// All of them keep what they took from the driver, whose own allocation makes the whole device
// wait. Sizes of arrivals and pinned blocks are rounded up to classes an eighth apart.
//
// Threads: any. Lifetime: counted; each buffer keeps its memory alive, with the queue.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_GPU_MEMORY_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_GPU_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/ref_counted.h"
#include "core/tensor/tensor.h"
#include "runtime/device/cuda/gpu_stream_queue.h"
#include "runtime/device/free_blocks.h"

namespace tandem {

// The next size in 8, 9, … 15 times a power of two, and a multiple of kBufferAlignment.
size_t RoundUpToSizeClass(size_t bytes);

class GpuMemory final : public Allocator, public RefCounted {
 public:
  // `name` is the device's. `limit` bytes are taken from the driver at most.
  GpuMemory(std::string name, std::shared_ptr<GpuStreamQueue> queue, int64_t limit);

  std::string name() const override { return name_; }
  int64_t limit() const { return static_cast<int64_t>(limit_); }
  AllocatorStats stats() const override { return counters_.Get(); }

  RefPtr<Buffer> Allocate(size_t bytes) override;

  // A block for a copy in the copy-in stream, which has been told to wait until the block is free.
  // ResourceExhausted, or the driver's error.
  absl::StatusOr<RefPtr<Buffer>> AllocateArrival(size_t bytes);

  // Whether the tensor's elements lie in the memory of a GPU: this one's or another's.
  static bool Holds(const Tensor& tensor);

 private:
  class PoolBuffer;
  class ArrivalBuffer;
  struct FreeArrival {
    void* memory = nullptr;
    GpuEvent last_use = nullptr;  // Null: it was never used.
  };

  ~GpuMemory() override;

  void FreePooled(void* memory, size_t bytes);
  void FreeArrivals(void* memory, size_t bytes);
  // Takes a range from the driver that holds `size` bytes, after giving back what is not used if
  // need be. False: neither the limit nor the driver allows it.
  bool GrowLocked(FreeBlocks& pool, size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TryGrowLocked(FreeBlocks& pool, size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TrimLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  const std::shared_ptr<GpuStreamQueue> queue_;
  const size_t limit_;

  AllocatorCounters counters_;

  Mutex mu_;
  size_t taken_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes, from the driver.
  std::map<void*, size_t> ranges_ ABSL_GUARDED_BY(mu_);
  FreeBlocks pool_ ABSL_GUARDED_BY(mu_);
  // Blocks that no copy used yet.
  FreeBlocks arrivals_ ABSL_GUARDED_BY(mu_);
  // By size class.
  std::map<size_t, std::vector<FreeArrival>> free_arrivals_ ABSL_GUARDED_BY(mu_);
};

class PinnedMemory final : public Allocator, public RefCounted {
 public:
  PinnedMemory(std::string name, std::shared_ptr<GpuContext> context);

  std::string name() const override { return name_; }
  RefPtr<Buffer> Allocate(size_t bytes) override;
  AllocatorStats stats() const override { return counters_.Get(); }

  // Whether the device may read the tensor's elements without a copy.
  static bool Holds(const Tensor& tensor);

 private:
  class PinnedBuffer;

  ~PinnedMemory() override;
  void Free(void* memory, size_t bytes);

  const std::string name_;
  const std::shared_ptr<GpuContext> context_;
  AllocatorCounters counters_;

  Mutex mu_;
  std::map<size_t, std::vector<void*>> free_ ABSL_GUARDED_BY(mu_);  // By size class.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_GPU_MEMORY_H_
