// Host memory. A block is one allocation: a header (the Buffer object itself), then, from the next
// multiple of 64, the data.
//
// Small blocks go straight to malloc, whose thread caches are hard to beat. Large ones (from
// kCachedFrom bytes) would cost page faults each time; freed ones are kept in free lists, four size
// classes for each power of two, up to kCacheLimit bytes in all.
#include "core/tensor/host_allocator.h"

#include <array>
#include <cstdlib>
#include <new>
#include <vector>

#include "core/base/mutex.h"
#include "core/tensor/buffer.h"

namespace tandem {
namespace {

constexpr size_t kHeaderBytes = kBufferAlignment;
// Room to align the data, and for the header before it.
constexpr size_t kExtraBytes = kHeaderBytes + kBufferAlignment;
constexpr size_t kCachedFrom = size_t{32} << 10;
// Sanitizers find uses of freed memory only if it is really freed.
#if defined(TANDEM_ASAN) || defined(TANDEM_TSAN)
constexpr size_t kCacheLimit = 0;
#else
constexpr size_t kCacheLimit = size_t{512} << 20;
#endif
constexpr int kClasses = 4 * 64;

// Number of the size class of `bytes` (at least kCachedFrom), and the size that it is rounded to:
// the next of 4/4, 5/4, 6/4, 7/4 of a power of two.
struct SizeClass {
  int index;
  size_t bytes;
};
SizeClass ClassOf(size_t bytes) {
  const int log = 63 - __builtin_clzll(bytes);
  const size_t quarter = size_t{1} << (log - 2);
  const size_t steps = (bytes + quarter - 1) / quarter;  // 4 to 8; 8 is the next power of two.
  return steps == 8 ? SizeClass{4 * (log + 1), quarter * 8}
                    : SizeClass{4 * log + static_cast<int>(steps - 4), quarter * steps};
}

class BlockCache {
 public:
  void* Take(int size_class) {
    MutexLock lock(mu_);
    std::vector<void*>& list = free_[static_cast<size_t>(size_class)];
    if (list.empty()) return nullptr;
    void* block = list.back();
    list.pop_back();
    cached_ -= BytesOfClass(size_class);
    return block;
  }
  // Returns false when the cache is full; the block then stays the caller's.
  bool Put(int size_class, void* block) {
    MutexLock lock(mu_);
    if (cached_ + BytesOfClass(size_class) > kCacheLimit) return false;
    cached_ += BytesOfClass(size_class);
    free_[static_cast<size_t>(size_class)].push_back(block);
    return true;
  }

 private:
  static size_t BytesOfClass(int index) {
    return (size_t{1} << (index / 4 - 2)) * static_cast<size_t>(4 + index % 4);
  }

  Mutex mu_;
  size_t cached_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<std::vector<void*>, kClasses> free_ ABSL_GUARDED_BY(mu_);
};

AllocatorCounters& Counters() {
  static AllocatorCounters counters;
  return counters;
}

BlockCache& Cache() {
  static BlockCache* cache = new BlockCache;  // Never destroyed: buffers may outlive main.
  return *cache;
}

// Lives in the first bytes of its own block.
class HostBuffer final : public Buffer {
 public:
  HostBuffer(void* data, size_t size, void* block, int size_class)
      : Buffer(data, size), block_(block), size_class_(size_class) {}

  static void* operator new(size_t, void* place) { return place; }
  static void operator delete(void*, void*) {}  // Pairs with the placement form.
  // The object lies inside the block that goes, so that destruction and release are one step.
  static void operator delete(HostBuffer* buffer, std::destroying_delete_t) {
    Counters().Remove(buffer->size());
    void* const block = buffer->block_;
    const int size_class = buffer->size_class_;
    buffer->~HostBuffer();
    if (size_class >= 0 && Cache().Put(size_class, block)) return;
    std::free(block);
  }

 private:
  void* const block_;
  const int size_class_;  // -1: not cached.
};

static_assert(sizeof(HostBuffer) <= kHeaderBytes);

class HostAllocatorImpl final : public Allocator {
 public:
  std::string name() const override { return "host"; }

  RefPtr<Buffer> Allocate(size_t bytes) override {
    if (bytes > SIZE_MAX / 2) return nullptr;
    size_t block_bytes = bytes + kExtraBytes;
    int size_class = -1;
    void* block = nullptr;
    if (block_bytes >= kCachedFrom) {
      const SizeClass rounded = ClassOf(block_bytes);
      size_class = rounded.index;
      block_bytes = rounded.bytes;
      block = Cache().Take(size_class);
    }
    if (block == nullptr) block = std::malloc(block_bytes);
    if (block == nullptr) return nullptr;
    const uintptr_t data =
        (reinterpret_cast<uintptr_t>(block) + kExtraBytes - 1) & ~(kBufferAlignment - 1);
    Counters().Add(bytes);
    return RefPtr<Buffer>(new (reinterpret_cast<void*>(data - kHeaderBytes))
                              HostBuffer(reinterpret_cast<void*>(data), bytes, block, size_class));
  }

  AllocatorStats stats() const override { return Counters().Get(); }
};

}  // namespace

Allocator* HostAllocator() {
  static HostAllocatorImpl* allocator = new HostAllocatorImpl;
  return allocator;
}

void ReleaseKeptHostBlock(size_t bytes) {
  if (bytes + kExtraBytes < kCachedFrom) return;
  std::free(Cache().Take(ClassOf(bytes + kExtraBytes).index));
}

}  // namespace tandem
