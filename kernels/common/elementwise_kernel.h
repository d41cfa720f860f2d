// ElementwiseKernel: what a kernel shows of itself whose output has at each place a number that
// comes from the numbers at that place in its inputs. Others may then run its loop over blocks that
// they choose (_TandemElementwise runs several, one after the other, over what fits into the
// first-level cache).
#ifndef TANDEM_KERNELS_COMMON_ELEMENTWISE_KERNEL_H_
#define TANDEM_KERNELS_COMMON_ELEMENTWISE_KERNEL_H_

#include <cstdint>

#include "core/kernel/kernel.h"

namespace tandem {

class ElementwiseKernel : public Kernel {
 public:
  // Computes `n` elements that lie one after the other, from as many in each input. `out` may be
  // one of the inputs, but not overlap them otherwise. An element gets the same bits wherever it
  // lies and in whatever company. False: an element has no answer; `out` then holds anything.
  virtual bool ComputeBlock(const void* const* inputs, void* out, int64_t n) const = 0;

  // What an element costs on one core in nanoseconds.
  virtual double cost() const = 0;

  // False: the inputs must have one shape. True: they may broadcast.
  virtual bool broadcasts() const = 0;
};

}  // namespace tandem

#endif  // TANDEM_KERNELS_COMMON_ELEMENTWISE_KERNEL_H_
