// Gradient descent: var -= α δ.
#include "core/op/registry.h"
#include "kernels/state/optimizer.h"

namespace tandem::state {
namespace {

struct GradientDescent {
  static constexpr double kNanosecondsPerElement = 0.4;

  absl::Status Init(KernelInit&) { return absl::OkStatus(); }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const T rate = b.scalars[0];
    const T* const var = b.before[0];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < b.n; ++i) new_var[i] = var[i] - rate * gradient[i];
  }
};

TANDEM_OP("ApplyGradientDescent")
    .Inputs("var:ref T, alpha:T, delta:T")
    .Outputs("out:ref T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Shape(UpdateShape)
    .Cpu(UpdateByRule<GradientDescent>());

TANDEM_OP("ResourceApplyGradientDescent")
    .Inputs("var:resource, alpha:T, delta:T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var"})
    .Cpu(UpdateByRule<GradientDescent>());

TANDEM_OP("_TandemApplyManyGradientDescent")
    .Inputs("var:N*resource, alpha:T, delta:N*T")
    .Attrs(TANDEM_UPDATE_MANY_ATTRS)
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"var"})
    .Cpu(UpdateByRule<GradientDescent>());

}  // namespace
}  // namespace tandem::state
