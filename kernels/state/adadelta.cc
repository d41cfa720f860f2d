// Adadelta (Zeiler, 2012):
//   accum = ρ accum + (1-ρ) g²
//   update = √(accum_update + ε) / √(accum + ε) · g;  var -= λ update
//   accum_update = ρ accum_update + (1-ρ) update²
#include <cmath>

#include "core/op/registry.h"
#include "kernels/state/optimizer.h"

namespace tandem::state {
namespace {

struct Adadelta {
  static constexpr double kNanosecondsPerElement = 2;

  absl::Status Init(KernelInit&) { return absl::OkStatus(); }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const T rate = b.scalars[0];
    const T rho = b.scalars[1];
    const T rest = T(1) - rho;
    const T epsilon = b.scalars[2];
    const T* const var = b.before[0];
    const T* const accum = b.before[1];
    const T* const accum_update = b.before[2];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_accum = b.after[1];
    T* const new_accum_update = b.after[2];
#pragma GCC ivdep
    for (int64_t i = 0; i < b.n; ++i) {
      using std::sqrt;
      const T g = gradient[i];
      const T a = accum[i] * rho + g * g * rest;
      const T update = sqrt(accum_update[i] + epsilon) / sqrt(a + epsilon) * g;
      new_var[i] = var[i] - update * rate;
      new_accum[i] = a;
      new_accum_update[i] = accum_update[i] * rho + update * update * rest;
    }
  }
};

TANDEM_OP("ApplyAdadelta")
    .Inputs("var:ref T, accum:ref T, accum_update:ref T, lr:T, rho:T, epsilon:T, grad:T")
    .Outputs("out:ref T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Shape(UpdateShape)
    .Cpu(UpdateByRule<Adadelta>());

TANDEM_OP("ResourceApplyAdadelta")
    .Inputs("var:resource, accum:resource, accum_update:resource, lr:T, rho:T, epsilon:T, grad:T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum", "accum_update"})
    .Cpu(UpdateByRule<Adadelta>());

}  // namespace
}  // namespace tandem::state
