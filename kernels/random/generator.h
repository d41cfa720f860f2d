// The position of a stateful random op. It belongs to the op's kernel, thus to session and node:
// runs with other signatures go on where the last one stopped.
#ifndef TANDEM_KERNELS_RANDOM_GENERATOR_H_
#define TANDEM_KERNELS_RANDOM_GENERATOR_H_

#include <cstdint>

#include "core/base/mutex.h"
#include "core/kernel/kernel.h"
#include "kernels/random/philox.h"

namespace tandem::random {

// Threads: any.
class Generator {
 public:
  // Takes the attributes seed and seed2. With both zero the operating system gives the seeds.
  void Init(KernelInit& init);
  // The position from which the caller takes numbers; the next caller's is `blocks` further on.
  Philox Reserve(uint64_t blocks);

 private:
  Mutex mu_;
  Philox next_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::random

#endif  // TANDEM_KERNELS_RANDOM_GENERATOR_H_
