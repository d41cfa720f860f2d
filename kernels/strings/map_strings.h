// MapStrings: what kernels share that make one element of each string.
#ifndef TANDEM_KERNELS_STRINGS_MAP_STRINGS_H_
#define TANDEM_KERNELS_STRINGS_MAP_STRINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/kernel/kernel.h"

namespace tandem::strings {

// Output 0 is shaped like input 0, and each of its elements, of type To, is `function` of the
// string at the same place. `function` may be called from several threads.
template <typename To, typename F>
absl::Status MapStrings(KernelContext& c, const F& function) {
  const Tensor& input = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, input.shape()));
  const auto from = input.Elements<std::string>();
  const auto to = output->MutableElements<To>();
  constexpr double kNanosecondsPerString = 100;
  c.parallel().For(input.num_elements(), kNanosecondsPerString, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      to[i] = function(from[i]);
    }
  });
  return absl::OkStatus();
}

}  // namespace tandem::strings

#endif  // TANDEM_KERNELS_STRINGS_MAP_STRINGS_H_
