// Buffer: a counted piece of memory that tensors share. Allocator: where buffers come from.
#ifndef TANDEM_CORE_TENSOR_BUFFER_H_
#define TANDEM_CORE_TENSOR_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/ref_counted.h"

namespace tandem {

// Alignment of every buffer's first byte: a cache line, and the widest vector register.
inline constexpr size_t kBufferAlignment = 64;

// The memory belongs to the buffer and goes with its last reference. Subclasses say how.
class Buffer : public RefCounted {
 public:
  void* data() const { return data_; }
  size_t size() const { return size_; }  // Bytes.
  // The buffer whose memory this one shows: itself, unless it is a view of another one. Two tensors
  // share memory exactly when their roots are equal.
  virtual const Buffer* root() const { return this; }
  // Some memory has two addresses: one for threads of its device, and another, which faults, for
  // all others (runtime/device/sim). `address`, into this buffer by either of them, as the calling
  // thread has to use it. Ordinary memory has one address. A view asks its root.
  virtual void* Localize(void* address) const { return address; }

 protected:
  Buffer(void* data, size_t size) : data_(data), size_(size) {}

 private:
  void* const data_;
  const size_t size_;
};

// Figures of an allocator since it was made.
struct AllocatorStats {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t allocations = 0;
};

// Threads: any. Lifetime: an allocator outlives its buffers.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual std::string name() const = 0;

  // Memory of `bytes` bytes, aligned to kBufferAlignment, with undefined contents. Null when there
  // is not enough. `bytes` may be 0.
  virtual RefPtr<Buffer> Allocate(size_t bytes) = 0;

  virtual AllocatorStats stats() const = 0;
};

// The allocator of the host's memory, which lives as long as the process. It keeps freed blocks of
// common sizes, up to a limit, since fresh pages from the system cost more than many kernels.
Allocator* HostAllocator();

// Counts for an allocator's stats, without a lock.
class AllocatorCounters {
 public:
  void Add(size_t bytes) {
    allocations_.fetch_add(1, std::memory_order_relaxed);
    const int64_t live = live_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed) +
                         static_cast<int64_t>(bytes);
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (live > peak && !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
    }
  }
  void Remove(size_t bytes) {
    live_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }
  AllocatorStats Get() const {
    return {live_.load(std::memory_order_relaxed), peak_.load(std::memory_order_relaxed),
            allocations_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> allocations_{0};
};

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_BUFFER_H_
