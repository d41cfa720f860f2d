// SimMemory: memory of a simulated accelerator, which the host cannot touch by accident.
//
// Every byte has two addresses, a constant distance apart:
//
//   outside  what tensors carry everywhere but on the device's queue. Nothing is mapped there: who
//            reads or writes through it gets SIGSEGV at once, in every build.
//   inside   the bytes themselves. Only code within a SimMemory::Access gets to see it: the queue,
//            while it runs a kernel or a copy.
//
//   [ outside: limit bytes, never mapped ][ gap ][ inside: limit bytes, mapped as needed ][ gap ]
//
// A tensor keeps its buffer when it passes from one side to the other and only its address moves
// (Tensor::Localize). So counts of references, and with them the question whether a kernel may
// overwrite its input, are the same on both sides, and views need no buffers of their own.
//
// Blocks are multiples of kBufferAlignment. Under the address sanitizer what is free is poisoned, so
// that kernels which run past the end of a tensor, or use one that is gone, are found here as in
// host memory.
//
// Threads: any. Lifetime: counted; each buffer keeps its memory alive.
#ifndef TANDEM_RUNTIME_DEVICE_SIM_SIM_MEMORY_H_
#define TANDEM_RUNTIME_DEVICE_SIM_SIM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/ref_counted.h"
#include "core/tensor/buffer.h"
#include "core/tensor/tensor.h"
#include "runtime/device/free_blocks.h"

namespace tandem {

class SimMemory final : public Allocator, public RefCounted {
 public:
  // `name` is the device's, for messages. InvalidArgument: `limit` (bytes) is not positive or
  // larger than an address space. ResourceExhausted: the system does not grant the addresses.
  static absl::StatusOr<RefPtr<SimMemory>> Create(std::string name, int64_t limit);

  std::string name() const override { return name_; }
  RefPtr<Buffer> Allocate(size_t bytes) override;
  AllocatorStats stats() const override { return counters_.Get(); }
  int64_t limit() const { return static_cast<int64_t>(limit_); }

  // Whether the tensor's elements lie in this memory.
  bool Holds(const Tensor& tensor) const;

  // In this scope the calling thread is the device: memory has its inside addresses.
  class Access {
   public:
    explicit Access(const SimMemory& memory);
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    const SimMemory* const outer_;
  };

 private:
  class SimBuffer;

  SimMemory(std::string name, size_t limit, char* outside, size_t distance);
  ~SimMemory() override;

  void* Localize(void* address) const;
  void Free(size_t offset, size_t size);
  // Maps the inside up to `end`; false when the system has no memory.
  bool MapLocked(size_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  const size_t limit_;
  char* const outside_;
  const size_t distance_;  // From outside to inside.
  char* const inside_;

  AllocatorCounters counters_;

  Mutex mu_;
  size_t mapped_ ABSL_GUARDED_BY(mu_) = 0;
  FreeBlocks free_ ABSL_GUARDED_BY(mu_);  // By offset.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_SIM_SIM_MEMORY_H_
