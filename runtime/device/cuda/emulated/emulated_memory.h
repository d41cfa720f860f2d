// The memory of an emulated GPU: addresses that fault, and the bytes behind them.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_MEMORY_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/device/free_blocks.h"

namespace tandem {

// Threads: one at a time, but Inside, which any may call.
class EmulatedMemory {
 public:
  static absl::StatusOr<std::unique_ptr<EmulatedMemory>> Create(size_t bytes);
  ~EmulatedMemory();

  // Null: there is not enough.
  void* Allocate(size_t bytes);
  // False: it was not allocated.
  bool Free(void* memory);
  // Whether [memory, memory + bytes) lies in one allocation.
  bool Holds(const void* memory, size_t bytes) const;
  // The bytes behind an address of the device; null for any other address.
  void* Inside(const void* memory) const;

 private:
  EmulatedMemory(char* outside, size_t size);

  char* const outside_;
  const size_t size_;
  FreeBlocks free_;                     // By offset.
  std::map<size_t, size_t> allocated_;  // Size by offset.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_MEMORY_H_
