// What the host's allocator (HostAllocator, buffer.h) keeps of freed memory.
#ifndef TANDEM_CORE_TENSOR_HOST_ALLOCATOR_H_
#define TANDEM_CORE_TENSOR_HOST_ALLOCATOR_H_

#include <cstddef>

namespace tandem {

// Gives the freed block that a buffer of `bytes` bytes would get next back to the system, if one is
// kept. For whoever knows that it will not ask for as much again. Threads: any.
void ReleaseKeptHostBlock(size_t bytes);

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_HOST_ALLOCATOR_H_
