// KernelEvaluator: runs single kernels of host devices outside a step, for constant folding.
#ifndef TANDEM_RUNTIME_SESSION_KERNEL_EVALUATOR_H_
#define TANDEM_RUNTIME_SESSION_KERNEL_EVALUATOR_H_

#include <vector>

#include "core/kernel/evaluator.h"
#include "runtime/device/device.h"

namespace tandem {

// Threads: any. Lifetime: `devices` outlive it.
class KernelEvaluator final : public Evaluator {
 public:
  // Kernels use as many threads for inner loops as they will at run time on a lone device.
  // `inner_parallelism` is as in PlanOptions.
  KernelEvaluator(const DeviceSet& devices, int inner_parallelism);

  absl::StatusOr<std::vector<Tensor>> Evaluate(const Request& request) override;

 private:
  const DeviceSet& devices_;
  const int threads_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_KERNEL_EVALUATOR_H_
