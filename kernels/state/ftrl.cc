// FTRL-Proximal (McMahan et al., "Ad Click Prediction: a View from the Trenches", 2013). With
// n = accum + g², p = -lr_power and σ = (nᵖ - accumᵖ) / λ:
//   linear += g - σ var
//   var = |linear| > l₁ ? (l₁ sign(linear) - linear) / (nᵖ/λ + 2 l₂) : 0
//   accum = n
// With multiply_linear_by_lr `linear` is kept λ times as large, and nothing is divided by λ.
#include <cmath>

#include "core/op/registry.h"
#include "kernels/state/optimizer.h"

namespace tandem::state {
namespace {

// Scalars: lr, l1, l2, lr_power.
struct Ftrl {
  static constexpr double kNanosecondsPerElement = 2;
  bool multiply_by_rate = false;

  absl::Status Init(KernelInit& init) {
    multiply_by_rate = init.Attr<bool>("multiply_linear_by_lr");
    return absl::OkStatus();
  }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    // The usual power is a root, which is much quicker.
    if (b.scalars[3] == T(-0.5)) {
      Update(b, [](T x) { return std::sqrt(x); });
    } else {
      const T power = -b.scalars[3];
      Update(b, [power](T x) { return std::pow(x, power); });
    }
  }

  template <typename T, typename Power>
  void Update(const UpdateBlock<T>& b, Power power) const {
    const T rate = b.scalars[0];
    const T divisor = multiply_by_rate ? T(1) : rate;
    const T factor = multiply_by_rate ? rate : T(1);
    const T l1 = b.scalars[1] * factor;
    const T l2 = T(2) * b.scalars[2] * factor;
    const T* const var = b.before[0];
    const T* const accum = b.before[1];
    const T* const linear = b.before[2];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_accum = b.after[1];
    T* const new_linear = b.after[2];
#pragma GCC ivdep
    for (int64_t i = 0; i < b.n; ++i) {
      const T g = gradient[i];
      const T n = accum[i] + g * g;
      const T root = power(n);
      const T z = linear[i] + (g * factor - (root - power(accum[i])) / divisor * var[i]);
      const T beyond = (z > T(0) ? l1 : -l1) - z;
      const T next = beyond / (root / divisor + l2);
      new_var[i] = std::abs(z) > l1 ? next : T(0);
      new_accum[i] = n;
      new_linear[i] = z;
    }
  }
};

TANDEM_OP("ApplyFtrl")
    .Inputs("var:ref T, accum:ref T, linear:ref T, grad:T, lr:T, l1:T, l2:T, lr_power:T")
    .Outputs("out:ref T")
    .Attrs(TANDEM_UPDATE_ATTRS "; multiply_linear_by_lr:bool=False")
    .Shape(UpdateShape)
    .Cpu(UpdateByRealRule<Ftrl>());

TANDEM_OP("ResourceApplyFtrl")
    .Inputs("var:resource, accum:resource, linear:resource, grad:T, lr:T, l1:T, l2:T, lr_power:T")
    .Attrs(TANDEM_UPDATE_ATTRS "; multiply_linear_by_lr:bool=False")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum", "linear"})
    .Cpu(UpdateByRealRule<Ftrl>());

}  // namespace
}  // namespace tandem::state
