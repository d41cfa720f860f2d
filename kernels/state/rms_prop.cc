// RMSProp (Tieleman and Hinton, 2012), plain and centered:
//   ms += (1-ρ)(g² - ms);  mom = μ mom + λ g / √(ms + ε);  var -= mom
// Centered: mg += (1-ρ)(g - mg), and ms - mg² in ms' place.
#include <cmath>

#include "core/op/registry.h"
#include "kernels/state/optimizer.h"

namespace tandem::state {
namespace {

// Scalars: lr, rho, momentum, epsilon.
struct RmsProp {
  static constexpr double kNanosecondsPerElement = 1.2;

  absl::Status Init(KernelInit&) { return absl::OkStatus(); }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const T rate = b.scalars[0];
    const T rest = T(1) - b.scalars[1];
    const T momentum = b.scalars[2];
    const T epsilon = b.scalars[3];
    const T* const var = b.before[0];
    const T* const ms = b.before[1];
    const T* const mom = b.before[2];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_ms = b.after[1];
    T* const new_mom = b.after[2];
#pragma GCC ivdep
    for (int64_t i = 0; i < b.n; ++i) {
      using std::sqrt;
      const T g = gradient[i];
      const T square = ms[i] + (g * g - ms[i]) * rest;
      const T step = mom[i] * momentum + g * rate / sqrt(square + epsilon);
      new_var[i] = var[i] - step;
      new_ms[i] = square;
      new_mom[i] = step;
    }
  }
};

struct CenteredRmsProp {
  static constexpr double kNanosecondsPerElement = 1.4;

  absl::Status Init(KernelInit&) { return absl::OkStatus(); }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const T rate = b.scalars[0];
    const T rest = T(1) - b.scalars[1];
    const T momentum = b.scalars[2];
    const T epsilon = b.scalars[3];
    const T* const var = b.before[0];
    const T* const mg = b.before[1];
    const T* const ms = b.before[2];
    const T* const mom = b.before[3];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_mg = b.after[1];
    T* const new_ms = b.after[2];
    T* const new_mom = b.after[3];
#pragma GCC ivdep
    for (int64_t i = 0; i < b.n; ++i) {
      using std::sqrt;
      const T g = gradient[i];
      const T square = ms[i] + (g * g - ms[i]) * rest;
      const T mean = mg[i] + (g - mg[i]) * rest;
      const T step = mom[i] * momentum + g * rate / sqrt(square - mean * mean + epsilon);
      new_var[i] = var[i] - step;
      new_mg[i] = mean;
      new_ms[i] = square;
      new_mom[i] = step;
    }
  }
};

TANDEM_OP("ApplyRMSProp")
    .Inputs("var:ref T, ms:ref T, mom:ref T, lr:T, rho:T, momentum:T, epsilon:T, grad:T")
    .Outputs("out:ref T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Shape(UpdateShape)
    .Cpu(UpdateByRule<RmsProp>());

TANDEM_OP("ResourceApplyRMSProp")
    .Inputs("var:resource, ms:resource, mom:resource, lr:T, rho:T, momentum:T, epsilon:T, grad:T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "ms", "mom"})
    .Cpu(UpdateByRule<RmsProp>());

TANDEM_OP("ResourceApplyCenteredRMSProp")
    .Inputs(
        "var:resource, mg:resource, ms:resource, mom:resource, lr:T, rho:T, momentum:T, "
        "epsilon:T, grad:T")
    .Attrs(TANDEM_UPDATE_ATTRS)
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "mg", "ms", "mom"})
    .Cpu(UpdateByRule<CenteredRmsProp>());

}  // namespace
}  // namespace tandem::state
