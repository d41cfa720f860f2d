// Adam (Kingma and Ba, 2015), also with Nesterov's momentum (Dozat, 2016) and as AMSGrad (Reddi et
// al., 2018):
//   α = λ √(1-β₂ᵗ) / (1-β₁ᵗ)
//   m += (1-β₁)(g - m);  v += (1-β₂)(g² - v);  var -= α m / (√v + ε)
// Nesterov: (1-β₁) g + β₁ m in m's place. AMSGrad: the largest v so far in v's place.
#include <cmath>

#include "core/op/registry.h"
#include "kernels/state/optimizer.h"

namespace tandem::state {
namespace {

// Scalars: beta1_power, beta2_power, lr, beta1, beta2, epsilon.
template <typename T>
struct Constants {
  explicit Constants(const T* scalars)
      : rest1(T(1) - scalars[3]), rest2(T(1) - scalars[4]), beta1(scalars[3]), epsilon(scalars[5]) {
    using std::sqrt;
    alpha = scalars[2] * sqrt(T(1) - scalars[1]) / (T(1) - scalars[0]);
  }
  T alpha;
  T rest1;
  T rest2;
  T beta1;
  T epsilon;
};

struct Adam {
  static constexpr double kNanosecondsPerElement = 1;
  bool nesterov = false;

  absl::Status Init(KernelInit& init) {
    nesterov = init.Attr<bool>("use_nesterov");
    return absl::OkStatus();
  }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const Constants<T> k(b.scalars);
    const T* const var = b.before[0];
    const T* const m = b.before[1];
    const T* const v = b.before[2];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_m = b.after[1];
    T* const new_v = b.after[2];
    if (nesterov) {
#pragma GCC ivdep
      for (int64_t i = 0; i < b.n; ++i) {
        using std::sqrt;
        const T g = gradient[i];
        const T first = m[i] + (g - m[i]) * k.rest1;
        const T second = v[i] + (g * g - v[i]) * k.rest2;
        new_var[i] =
            var[i] - (g * k.rest1 + first * k.beta1) * k.alpha / (sqrt(second) + k.epsilon);
        new_m[i] = first;
        new_v[i] = second;
      }
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < b.n; ++i) {
        using std::sqrt;
        const T g = gradient[i];
        const T first = m[i] + (g - m[i]) * k.rest1;
        const T second = v[i] + (g * g - v[i]) * k.rest2;
        new_var[i] = var[i] - first * k.alpha / (sqrt(second) + k.epsilon);
        new_m[i] = first;
        new_v[i] = second;
      }
    }
  }
};

struct Amsgrad {
  static constexpr double kNanosecondsPerElement = 1.2;

  absl::Status Init(KernelInit&) { return absl::OkStatus(); }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const Constants<T> k(b.scalars);
    const T* const var = b.before[0];
    const T* const m = b.before[1];
    const T* const v = b.before[2];
    const T* const vhat = b.before[3];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_m = b.after[1];
    T* const new_v = b.after[2];
    T* const new_vhat = b.after[3];
#pragma GCC ivdep
    for (int64_t i = 0; i < b.n; ++i) {
      using std::sqrt;
      const T g = gradient[i];
      const T first = m[i] + (g - m[i]) * k.rest1;
      const T second = v[i] + (g * g - v[i]) * k.rest2;
      const T largest = vhat[i] > second ? vhat[i] : second;
      new_var[i] = var[i] - first * k.alpha / (sqrt(largest) + k.epsilon);
      new_m[i] = first;
      new_v[i] = second;
      new_vhat[i] = largest;
    }
  }
};

TANDEM_OP("ApplyAdam")
    .Inputs(
        "var:ref T, m:ref T, v:ref T, beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, "
        "epsilon:T, grad:T")
    .Outputs("out:ref T")
    .Attrs(TANDEM_UPDATE_ATTRS "; use_nesterov:bool=False")
    .Shape(UpdateShape)
    .Cpu(UpdateByRule<Adam>());

TANDEM_OP("ResourceApplyAdam")
    .Inputs(
        "var:resource, m:resource, v:resource, beta1_power:T, beta2_power:T, lr:T, beta1:T, "
        "beta2:T, epsilon:T, grad:T")
    .Attrs(TANDEM_UPDATE_ATTRS "; use_nesterov:bool=False")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "m", "v"})
    .Cpu(UpdateByRule<Adam>());

TANDEM_OP("_TandemApplyManyAdam")
    .Inputs(
        "var:N*resource, m:N*resource, v:N*resource, beta1_power:T, beta2_power:T, lr:T, beta1:T, "
        "beta2:T, epsilon:T, grad:N*T")
    .Attrs(TANDEM_UPDATE_MANY_ATTRS "; use_nesterov:bool=False")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"var", "m", "v"})
    .Cpu(UpdateByRule<Adam>());

TANDEM_OP("ResourceApplyAdamWithAmsgrad")
    .Inputs(
        "var:resource, m:resource, v:resource, vhat:resource, beta1_power:T, beta2_power:T, "
        "lr:T, beta1:T, beta2:T, epsilon:T, grad:T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "m", "v", "vhat"})
    .Cpu(UpdateByRealRule<Amsgrad>());

}  // namespace
}  // namespace tandem::state
