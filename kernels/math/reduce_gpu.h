// Reductions on GPUs; the twin of reduce.h.
#ifndef TANDEM_KERNELS_MATH_REDUCE_GPU_H_
#define TANDEM_KERNELS_MATH_REDUCE_GPU_H_

#include <string>

#include "absl/status/status.h"
#include "core/kernel/gpu.h"
#include "core/kernel/kernel.h"
#include "kernels/common/reduction.h"

namespace tandem::math {

// What is done with all elements that go into one of the output. Made for an op and a type.
class GpuReduction {
 public:
  // "Sum", "Prod", "Max" or "Min", of a type in kGpuNumbers (elementwise_gpu.h).
  GpuReduction(const std::string& name, DataType dtype);
  GpuReduction(const GpuReduction&) = delete;

  // Puts the reduction of x into y, which holds the geometry's output, on the queue. Results that
  // are floats are divided by `divisor`. Unimplemented: more than three kept, or three reduced,
  // dimensions that alternate.
  absl::Status Run(KernelContext& c, const ReductionGeometry& geometry, const void* x, void* y,
                   double divisor = 1) const;

 private:
  using Fold = GpuFunction<const void*, void*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                           int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  using Finish = GpuFunction<const void*, void*, int64_t, int64_t, double>;

  const DataType accumulator_;
  const std::string rows_name_;
  const std::string columns_name_;
  const std::string finish_name_;
  const Fold rows_;
  const Fold columns_;
  const Finish finish_;
};

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_REDUCE_GPU_H_
