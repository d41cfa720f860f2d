#include "runtime/device/cuda/emulated/emulated_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <optional>

#include "core/base/status.h"

namespace tandem {
namespace {

// As the driver aligns what it hands out.
constexpr size_t kAlignment = 512;
// What was freed looks like no number that anybody would take for right.
constexpr int kGone = 0xfb;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

absl::StatusOr<std::unique_ptr<EmulatedMemory>> EmulatedMemory::Create(size_t bytes) {
  const size_t size = RoundUp(bytes);
  // [ outside: never mapped ][ inside ]
  void* const base =
      mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED ||
      mprotect(static_cast<char*>(base) + size, size, PROT_READ | PROT_WRITE) != 0) {
    return errors::ResourceExhausted("the system does not grant ", 2 * size,
                                     " bytes of addresses for an emulated GPU");
  }
  return std::unique_ptr<EmulatedMemory>(new EmulatedMemory(static_cast<char*>(base), size));
}

EmulatedMemory::EmulatedMemory(char* outside, size_t size) : outside_(outside), size_(size) {
  free_.AddRange(0, size);
}

EmulatedMemory::~EmulatedMemory() { munmap(outside_, 2 * size_); }

void* EmulatedMemory::Allocate(size_t bytes) {
  const std::optional<size_t> offset = free_.Take(RoundUp(bytes));
  if (!offset.has_value()) return nullptr;
  allocated_[*offset] = bytes;
  return outside_ + *offset;
}

bool EmulatedMemory::Free(void* memory) {
  const auto found = allocated_.find(static_cast<size_t>(static_cast<char*>(memory) - outside_));
  if (found == allocated_.end()) return false;
  std::memset(Inside(memory), kGone, found->second);
  free_.Put(found->first, RoundUp(found->second));
  allocated_.erase(found);
  return true;
}

bool EmulatedMemory::Holds(const void* memory, size_t bytes) const {
  if (Inside(memory) == nullptr) return false;
  const size_t offset = static_cast<size_t>(static_cast<const char*>(memory) - outside_);
  auto after = allocated_.upper_bound(offset);
  if (after == allocated_.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  // The end of an allocation is an address of it, for what has no bytes.
  return offset - begin <= size && bytes <= size - (offset - begin);
}

void* EmulatedMemory::Inside(const void* memory) const {
  const char* const at = static_cast<const char*>(memory);
  if (at < outside_ || at >= outside_ + size_) return nullptr;
  return const_cast<char*>(at) + size_;
}

}  // namespace tandem
