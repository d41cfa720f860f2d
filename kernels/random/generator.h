// The position of a stateful random op. It belongs to the op's kernel, thus to session and node:
// runs with other signatures go on where the last one stopped. It can be saved, so that another
// process goes on there, too.
#ifndef TANDEM_KERNELS_RANDOM_GENERATOR_H_
#define TANDEM_KERNELS_RANDOM_GENERATOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/kernel/kernel.h"
#include "core/tensor/tensor.h"
#include "kernels/random/philox.h"

namespace tandem::random {

// Threads: any.
class Generator {
 public:
  // Takes the attributes seed and seed2. With both zero the operating system gives the seeds.
  void Init(KernelInit& init);
  // The position from which the caller takes numbers; the next caller's is `blocks` further on.
  Philox Reserve(uint64_t blocks);

  // Where it stands, the operating system's seeds included: int64 [3], the lower and the upper half
  // of the counter, and the key.
  Tensor Save();
  // InvalidArgument: Save gives no such tensor.
  absl::Status Restore(const Tensor& position);

 private:
  Mutex mu_;
  Philox next_ ABSL_GUARDED_BY(mu_);
};

// A kernel with a generator. What saves the positions of a session's kernels knows them by this
// class.
class GeneratorKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    generator_.Init(init);
    return absl::OkStatus();
  }
  Generator& generator() { return generator_; }

 protected:
  Generator generator_;
};

}  // namespace tandem::random

#endif  // TANDEM_KERNELS_RANDOM_GENERATOR_H_
