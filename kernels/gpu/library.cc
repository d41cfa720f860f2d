#include "kernels/gpu/library.h"

#include <dlfcn.h>

#include "core/base/status.h"

namespace tandem {

absl::StatusOr<void*> OpenGpuLibrary(const std::string& title,
                                     std::initializer_list<const char*> names) {
  std::string said;
  for (const char* name : names) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    absl::StrAppend(&said, said.empty() ? "" : "; ", dlerror());
  }
  return errors::Unavailable(title, " cannot be opened (", said,
                             "); install it with the CUDA toolkit, or name its folder in "
                             "LD_LIBRARY_PATH");
}

absl::StatusOr<void*> FindInGpuLibrary(void* library, const std::string& title, const char* name) {
  if (void* const function = dlsym(library, name)) return function;
  return errors::Unavailable(title, " is too old: it has no ", name);
}

}  // namespace tandem
