#include "runtime/device/sim/sim_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/status.h"

#if defined(TANDEM_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)
#define ASAN_UNPOISON_MEMORY_REGION(address, size)
#endif

namespace tandem {
namespace {

// Memory is mapped in steps of this size, since each is a system call.
constexpr size_t kMapStep = size_t{8} << 20;

// Between the two ranges and after the second, so that the end of an empty or last tensor is an
// address of its own range, and a kernel that runs past it faults.
constexpr size_t kGap = size_t{64} << 10;

size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// The memory whose inside the calling thread may see.
thread_local const SimMemory* accessible = nullptr;

}  // namespace

// Its data() is the outside address.
class SimMemory::SimBuffer final : public Buffer {
 public:
  SimBuffer(RefPtr<SimMemory> memory, size_t offset, size_t size)
      : Buffer(memory->outside_ + offset, size), memory_(std::move(memory)), offset_(offset) {}

  void* Localize(void* address) const override { return memory_->Localize(address); }

 private:
  ~SimBuffer() override { memory_->Free(offset_, size()); }

  const RefPtr<SimMemory> memory_;
  const size_t offset_;
};

SimMemory::Access::Access(const SimMemory& memory) : outer_(std::exchange(accessible, &memory)) {}
SimMemory::Access::~Access() { accessible = outer_; }

absl::StatusOr<RefPtr<SimMemory>> SimMemory::Create(std::string name, int64_t limit) {
  constexpr int64_t kMaxLimit = int64_t{1} << 44;
  if (limit < static_cast<int64_t>(kBufferAlignment) || limit > kMaxLimit) {
    return errors::InvalidArgument("device ", name, ": ", limit, " bytes of memory; ",
                                   kBufferAlignment, " to ", kMaxLimit, " are possible");
  }
  const size_t usable = static_cast<size_t>(limit) / kBufferAlignment * kBufferAlignment;
  const size_t distance = RoundUp(usable, kMapStep) + kGap;
  // Addresses only: without rights they count against no limit of memory.
  void* const base =
      mmap(nullptr, 2 * distance, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return errors::ResourceExhausted("device ", name, ": the system does not grant ", 2 * distance,
                                     " bytes of addresses (", std::strerror(errno),
                                     "); check ulimit -v");
  }
  return RefPtr<SimMemory>(
      new SimMemory(std::move(name), usable, static_cast<char*>(base), distance));
}

SimMemory::SimMemory(std::string name, size_t limit, char* outside, size_t distance)
    : name_(std::move(name)),
      limit_(limit),
      outside_(outside),
      distance_(distance),
      inside_(outside + distance) {
  MutexLock lock(mu_);
  free_.AddRange(0, limit_);
}

SimMemory::~SimMemory() {
  ASAN_UNPOISON_MEMORY_REGION(inside_, mapped_);
  munmap(outside_, 2 * distance_);
}

RefPtr<Buffer> SimMemory::Allocate(size_t bytes) {
  if (bytes > limit_) return nullptr;
  const size_t size = RoundUp(std::max<size_t>(bytes, 1), kBufferAlignment);
  size_t offset = 0;
  {
    MutexLock lock(mu_);
    const std::optional<size_t> taken = free_.Take(size);
    if (!taken.has_value()) return nullptr;
    offset = *taken;
    if (!MapLocked(offset + size)) {
      free_.Put(offset, size);
      return nullptr;
    }
    ASAN_UNPOISON_MEMORY_REGION(inside_ + offset, bytes);
  }
  counters_.Add(bytes);
  return RefPtr<Buffer>(new SimBuffer(RefPtr<SimMemory>::Share(this), offset, bytes));
}

void SimMemory::Free(size_t offset, size_t bytes) {
  counters_.Remove(bytes);
  const size_t size = RoundUp(std::max<size_t>(bytes, 1), kBufferAlignment);
  MutexLock lock(mu_);
  ASAN_POISON_MEMORY_REGION(inside_ + offset, size);
  free_.Put(offset, size);
}

bool SimMemory::MapLocked(size_t end) {
  if (end <= mapped_) return true;
  const size_t mapped = RoundUp(end, kMapStep);
  if (mprotect(inside_ + mapped_, mapped - mapped_, PROT_READ | PROT_WRITE) != 0) return false;
  ASAN_POISON_MEMORY_REGION(inside_ + mapped_, mapped - mapped_);
  mapped_ = mapped;
  return true;
}

bool SimMemory::Holds(const Tensor& tensor) const {
  if (!tensor.buffer()) return false;
  const char* const begin = static_cast<const char*>(tensor.buffer()->root()->data());
  return begin >= outside_ && begin < outside_ + limit_;
}

void* SimMemory::Localize(void* address) const {
  char* const at = static_cast<char*>(address);
  const size_t offset = static_cast<size_t>((at >= inside_ ? at - inside_ : at - outside_));
  return (accessible == this ? inside_ : outside_) + offset;
}

}  // namespace tandem
