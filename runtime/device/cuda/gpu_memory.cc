#include "runtime/device/cuda/gpu_memory.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "core/base/status.h"

namespace tandem {
namespace {

// A kernel's vector loads want more than the host's cache line.
constexpr size_t kAlignment = 256;
// The driver hands out memory in pages of this size.
constexpr size_t kSmallestRange = size_t{2} << 20;
constexpr size_t kLargestGrowth = size_t{1} << 30;

size_t RoundUp(size_t bytes, size_t multiple) {
  return (std::max<size_t>(bytes, 1) + multiple - 1) / multiple * multiple;
}
size_t BlockSize(size_t bytes) { return RoundUp(bytes, kAlignment); }
size_t AsNumber(const void* memory) { return reinterpret_cast<size_t>(memory); }
void* AsAddress(size_t number) { return reinterpret_cast<void*>(number); }

// A view's root tells what kind of memory it shows.
template <typename B>
bool IsA(const Tensor& tensor) {
  return tensor.buffer() && dynamic_cast<const B*>(tensor.buffer()->root()) != nullptr;
}

// Marks the buffers of GPUs among others.
class GpuBuffer : public Buffer {
 protected:
  using Buffer::Buffer;
};

}  // namespace

size_t RoundUpToSizeClass(size_t bytes) {
  const size_t size = BlockSize(bytes);
  const size_t step = std::max(std::bit_floor(size) / 8, kAlignment);
  return RoundUp(size, step);
}

class GpuMemory::PoolBuffer final : public GpuBuffer {
 public:
  PoolBuffer(RefPtr<GpuMemory> memory, void* data, size_t bytes)
      : GpuBuffer(data, bytes), memory_(std::move(memory)) {}

 private:
  ~PoolBuffer() override { memory_->FreePooled(data(), size()); }

  const RefPtr<GpuMemory> memory_;
};

class GpuMemory::ArrivalBuffer final : public GpuBuffer {
 public:
  ArrivalBuffer(RefPtr<GpuMemory> memory, void* data, size_t bytes)
      : GpuBuffer(data, bytes), memory_(std::move(memory)) {}

 private:
  ~ArrivalBuffer() override { memory_->FreeArrivals(data(), size()); }

  const RefPtr<GpuMemory> memory_;
};

GpuMemory::GpuMemory(std::string name, std::shared_ptr<GpuStreamQueue> queue, int64_t limit)
    : name_(std::move(name)), queue_(std::move(queue)), limit_(static_cast<size_t>(limit)) {}

GpuMemory::~GpuMemory() {
  MutexLock lock(mu_);
  for (auto& [size, blocks] : free_arrivals_) {
    for (const FreeArrival& block : blocks) {
      if (block.last_use != nullptr) queue_->GiveBack(block.last_use);
    }
  }
  for (const auto& [memory, size] : ranges_) queue_->context().Free(memory);
}

bool GpuMemory::Holds(const Tensor& tensor) { return IsA<GpuBuffer>(tensor); }

RefPtr<Buffer> GpuMemory::Allocate(size_t bytes) {
  if (bytes > limit_) return nullptr;
  const size_t size = BlockSize(bytes);
  std::optional<size_t> block;
  {
    MutexLock lock(mu_);
    block = pool_.Take(size);
    if (!block.has_value() && GrowLocked(pool_, size)) block = pool_.Take(size);
  }
  if (!block.has_value()) return nullptr;
  counters_.Add(bytes);
  return RefPtr<Buffer>(new PoolBuffer(RefPtr<GpuMemory>::Share(this), AsAddress(*block), bytes));
}

void GpuMemory::FreePooled(void* memory, size_t bytes) {
  counters_.Remove(bytes);
  MutexLock lock(mu_);
  pool_.Put(AsNumber(memory), BlockSize(bytes));
}

absl::StatusOr<RefPtr<Buffer>> GpuMemory::AllocateArrival(size_t bytes) {
  const auto none = [&] {
    return errors::ResourceExhausted("device ", name_, " has no memory for ", bytes,
                                     " bytes: of its ", limit_, " bytes tensors take ",
                                     stats().live_bytes);
  };
  if (bytes > limit_) return none();
  const size_t size = RoundUpToSizeClass(bytes);
  FreeArrival block;
  {
    MutexLock lock(mu_);
    std::vector<FreeArrival>& known = free_arrivals_[size];
    if (!known.empty()) {
      // The one that was freed first: its last use is the likeliest to be over.
      block = known.front();
      known.erase(known.begin());
    } else {
      std::optional<size_t> fresh = arrivals_.Take(size);
      if (!fresh.has_value() && GrowLocked(arrivals_, size)) fresh = arrivals_.Take(size);
      if (!fresh.has_value()) return none();
      block.memory = AsAddress(*fresh);
    }
  }
  if (block.last_use != nullptr) {
    // What is on a stream keeps the event's point; the event itself may be used again.
    const absl::Status status = queue_->context().Wait(queue_->copy_in(), block.last_use);
    queue_->GiveBack(block.last_use);
    TANDEM_RETURN_IF_ERROR(status);
  }
  counters_.Add(bytes);
  return RefPtr<Buffer>(new ArrivalBuffer(RefPtr<GpuMemory>::Share(this), block.memory, bytes));
}

void GpuMemory::FreeArrivals(void* memory, size_t bytes) {
  counters_.Remove(bytes);
  // Copies out hold their source until they are done, so the compute stream's end is enough.
  const absl::StatusOr<GpuEvent> last_use = queue_->Mark(queue_->compute());
  // A context that cannot mark any more runs nothing any more either.
  MutexLock lock(mu_);
  free_arrivals_[RoundUpToSizeClass(bytes)].push_back(
      {memory, last_use.ok() ? *last_use : nullptr});
}

bool GpuMemory::GrowLocked(FreeBlocks& pool, size_t size) {
  if (TryGrowLocked(pool, size)) return true;
  TrimLocked();
  return TryGrowLocked(pool, size);
}

bool GpuMemory::TryGrowLocked(FreeBlocks& pool, size_t size) {
  // Each range is as large as all before it, so that their number stays small.
  const size_t generous = std::clamp(taken_, kSmallestRange, kLargestGrowth);
  for (const size_t wanted : {std::max(size, generous), size}) {
    if (wanted > limit_ - taken_) continue;
    const absl::StatusOr<void*> memory = queue_->context().Allocate(wanted);
    if (!memory.ok()) continue;
    taken_ += wanted;
    ranges_[*memory] = wanted;
    pool.AddRange(AsNumber(*memory), wanted);
    return true;
  }
  return false;
}

void GpuMemory::TrimLocked() {
  for (auto& [size, blocks] : free_arrivals_) {
    for (const FreeArrival& block : blocks) {
      if (block.last_use != nullptr) {
        // Whoever takes the block next knows of no event. A context that cannot wait any more runs
        // nothing any more.
        (void)queue_->context().Synchronize(block.last_use);
        queue_->GiveBack(block.last_use);
      }
      arrivals_.Put(AsNumber(block.memory), size);
    }
    blocks.clear();
  }
  for (FreeBlocks* pool : {&pool_, &arrivals_}) {
    for (const FreeBlocks::Block& range : pool->RemoveFreeRanges()) {
      queue_->context().Free(AsAddress(range.begin));
      ranges_.erase(AsAddress(range.begin));
      taken_ -= range.size;
    }
  }
}

class PinnedMemory::PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(RefPtr<PinnedMemory> memory, void* data, size_t bytes)
      : Buffer(data, bytes), memory_(std::move(memory)) {}

 private:
  ~PinnedBuffer() override { memory_->Free(data(), size()); }

  const RefPtr<PinnedMemory> memory_;
};

PinnedMemory::PinnedMemory(std::string name, std::shared_ptr<GpuContext> context)
    : name_(std::move(name)), context_(std::move(context)) {}

PinnedMemory::~PinnedMemory() {
  MutexLock lock(mu_);
  for (const auto& [size, blocks] : free_) {
    for (void* block : blocks) context_->FreePinned(block);
  }
}

bool PinnedMemory::Holds(const Tensor& tensor) { return IsA<PinnedBuffer>(tensor); }

RefPtr<Buffer> PinnedMemory::Allocate(size_t bytes) {
  const size_t size = RoundUpToSizeClass(bytes);
  if (size < bytes) return nullptr;
  void* memory = nullptr;
  {
    MutexLock lock(mu_);
    std::vector<void*>& known = free_[size];
    if (!known.empty()) {
      memory = known.back();
      known.pop_back();
    }
  }
  if (memory == nullptr) {
    const absl::StatusOr<void*> fresh = context_->AllocatePinned(size);
    if (!fresh.ok()) return nullptr;
    memory = *fresh;
  }
  counters_.Add(bytes);
  return RefPtr<Buffer>(new PinnedBuffer(RefPtr<PinnedMemory>::Share(this), memory, bytes));
}

void PinnedMemory::Free(void* memory, size_t bytes) {
  counters_.Remove(bytes);
  MutexLock lock(mu_);
  free_[RoundUpToSizeClass(bytes)].push_back(memory);
}

}  // namespace tandem
