// Where running out of memory becomes an error.
//
// Tensors say ResourceExhausted themselves (Tensor::Create). What kernels and compilers keep beside
// them, in containers whose size a user decides, throws; whoever calls a kernel, or compiles for a
// user, does so through this, so that a step fails and not the process.
#ifndef TANDEM_RUNTIME_DEVICE_OUT_OF_MEMORY_H_
#define TANDEM_RUNTIME_DEVICE_OUT_OF_MEMORY_H_

#include <new>
#include <stdexcept>

#include "core/base/status.h"

namespace tandem {

// What `work()` returns, an absl::Status or an absl::StatusOr; ResourceExhausted when it throws
// because the system grants no memory, or a container cannot be that large. Costs nothing
// otherwise.
template <typename Work>
auto CatchOutOfMemory(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return errors::ResourceExhausted(
      "the system grants no memory for intermediate values; make them smaller (the batch, for "
      "instance), or raise the process's limit");
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_OUT_OF_MEMORY_H_
