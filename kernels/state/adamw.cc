// _TandemApplyAdamW: Adam (adam.cc) with decoupled weight decay (Loshchilov and Hutter, 2019), in
// one pass over memory. `decay` is the part of the variable that a step takes away, the learning
// rate included:
//   var -= decay var;  then Adam's step
#include <cmath>

#include "core/op/registry.h"
#include "kernels/state/optimizer.h"

namespace tandem::state {
namespace {

struct AdamW {
  static constexpr double kNanosecondsPerElement = 1;

  absl::Status Init(KernelInit&) { return absl::OkStatus(); }

  // Scalars: beta1_power, beta2_power, lr, beta1, beta2, epsilon, decay.
  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    using std::sqrt;
    const T alpha = b.scalars[2] * sqrt(T(1) - b.scalars[1]) / (T(1) - b.scalars[0]);
    const T rest1 = T(1) - b.scalars[3];
    const T rest2 = T(1) - b.scalars[4];
    const T epsilon = b.scalars[5];
    const T decay = b.scalars[6];
    const T* const var = b.before[0];
    const T* const m = b.before[1];
    const T* const v = b.before[2];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_m = b.after[1];
    T* const new_v = b.after[2];
#pragma GCC ivdep
    for (int64_t i = 0; i < b.n; ++i) {
      const T g = gradient[i];
      const T first = m[i] + (g - m[i]) * rest1;
      const T second = v[i] + (g * g - v[i]) * rest2;
      new_var[i] = var[i] - var[i] * decay - first * alpha / (sqrt(second) + epsilon);
      new_m[i] = first;
      new_v[i] = second;
    }
  }
};

TANDEM_OP("_TandemApplyAdamW")
    .Inputs(
        "var:resource, m:resource, v:resource, beta1_power:T, beta2_power:T, lr:T, beta1:T, "
        "beta2:T, epsilon:T, decay:T, grad:T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "m", "v"})
    .Cpu(UpdateByRealRule<AdamW>());

TANDEM_OP("_TandemApplyManyAdamW")
    .Inputs(
        "var:N*resource, m:N*resource, v:N*resource, beta1_power:T, beta2_power:T, lr:T, beta1:T, "
        "beta2:T, epsilon:T, decay:T, grad:N*T")
    .Attrs(TANDEM_UPDATE_MANY_ATTRS)
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"var", "m", "v"})
    .Cpu(UpdateByRealRule<AdamW>());

}  // namespace
}  // namespace tandem::state
