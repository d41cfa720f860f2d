// Running out of memory where a pipeline has threads of its own, in which nobody else would catch
// it: the element fails, or the pass, and not the process.
#ifndef TANDEM_RUNTIME_INPUT_NO_MEMORY_H_
#define TANDEM_RUNTIME_INPUT_NO_MEMORY_H_

#include <new>
#include <stdexcept>

#include "absl/status/status.h"
#include "runtime/device/out_of_memory.h"

namespace tandem::data {

// ResourceExhausted, made ahead: to return it takes no memory. Threads: any.
const absl::Status& NoMemory();

// CatchOutOfMemory that ends well even where its message finds no memory either.
template <typename Work>
auto OrNoMemory(Work&& work) -> decltype(work()) {
  try {
    return CatchOutOfMemory(work);
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_NO_MEMORY_H_
