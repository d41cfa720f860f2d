// Opening the libraries of the CUDA toolkit at run time.
#ifndef TANDEM_KERNELS_GPU_LIBRARY_H_
#define TANDEM_KERNELS_GPU_LIBRARY_H_

#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"

namespace tandem {

// The first of `names` that the system's loader finds, for the life of the process. Unavailable,
// with what the loader said, and where to get it.
absl::StatusOr<void*> OpenGpuLibrary(const std::string& title,
                                     std::initializer_list<const char*> names);

// One of its functions. Unavailable: the library is too old for it.
absl::StatusOr<void*> FindInGpuLibrary(void* library, const std::string& title, const char* name);

}  // namespace tandem

#endif  // TANDEM_KERNELS_GPU_LIBRARY_H_
