// Momentum, in two forms that keep different things in `accum`.
//
//   Momentum        accum = μ accum + g           var -= λ accum
//   with Nesterov's                               var -= λ (g + μ accum)
//   Keras' form     accum = μ accum - λ g         var += accum
//   with Nesterov's                               var += μ accum - λ g
#include "core/op/registry.h"
#include "kernels/state/optimizer.h"

namespace tandem::state {
namespace {

struct Momentum {
  static constexpr double kNanosecondsPerElement = 0.6;
  bool nesterov = false;

  absl::Status Init(KernelInit& init) {
    nesterov = init.Attr<bool>("use_nesterov");
    return absl::OkStatus();
  }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const T rate = b.scalars[0];
    const T momentum = b.scalars[1];
    const T* const var = b.before[0];
    const T* const accum = b.before[1];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_accum = b.after[1];
    if (nesterov) {
#pragma GCC ivdep
      for (int64_t i = 0; i < b.n; ++i) {
        const T g = gradient[i];
        const T a = accum[i] * momentum + g;
        new_var[i] = var[i] - (g * rate + a * momentum * rate);
        new_accum[i] = a;
      }
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < b.n; ++i) {
        const T a = accum[i] * momentum + gradient[i];
        new_var[i] = var[i] - a * rate;
        new_accum[i] = a;
      }
    }
  }
};

struct KerasMomentum {
  static constexpr double kNanosecondsPerElement = 0.6;
  bool nesterov = false;

  absl::Status Init(KernelInit& init) {
    nesterov = init.Attr<bool>("use_nesterov");
    return absl::OkStatus();
  }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const T rate = b.scalars[0];
    const T momentum = b.scalars[1];
    const T* const var = b.before[0];
    const T* const accum = b.before[1];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_accum = b.after[1];
    if (nesterov) {
#pragma GCC ivdep
      for (int64_t i = 0; i < b.n; ++i) {
        const T step = gradient[i] * rate;
        const T a = accum[i] * momentum - step;
        new_var[i] = var[i] + (a * momentum - step);
        new_accum[i] = a;
      }
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < b.n; ++i) {
        const T a = accum[i] * momentum - gradient[i] * rate;
        new_var[i] = var[i] + a;
        new_accum[i] = a;
      }
    }
  }
};

TANDEM_OP("ApplyMomentum")
    .Inputs("var:ref T, accum:ref T, lr:T, grad:T, momentum:T")
    .Outputs("out:ref T")
    .Attrs(TANDEM_UPDATE_ATTRS "; use_nesterov:bool=False")
    .Shape(UpdateShape)
    .Cpu(UpdateByRule<Momentum>());

TANDEM_OP("ResourceApplyMomentum")
    .Inputs("var:resource, accum:resource, lr:T, grad:T, momentum:T")
    .Attrs(TANDEM_UPDATE_ATTRS "; use_nesterov:bool=False")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<Momentum>());

TANDEM_OP("_TandemApplyManyMomentum")
    .Inputs("var:N*resource, accum:N*resource, lr:T, grad:N*T, momentum:T")
    .Attrs(TANDEM_UPDATE_MANY_ATTRS "; use_nesterov:bool=False")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<Momentum>());

TANDEM_OP("ResourceSparseApplyMomentum")
    .Inputs("var:resource, accum:resource, lr:T, grad:T, indices:Tindices, momentum:T")
    .Attrs(TANDEM_SPARSE_UPDATE_ATTRS "; use_nesterov:bool=False")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<Momentum>());

TANDEM_OP("ResourceApplyKerasMomentum")
    .Inputs("var:resource, accum:resource, lr:T, grad:T, momentum:T")
    .Attrs(TANDEM_UPDATE_ATTRS "; use_nesterov:bool=False")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<KerasMomentum>());

TANDEM_OP("_TandemApplyManyKerasMomentum")
    .Inputs("var:N*resource, accum:N*resource, lr:T, grad:N*T, momentum:T")
    .Attrs(TANDEM_UPDATE_MANY_ATTRS "; use_nesterov:bool=False")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<KerasMomentum>());

TANDEM_OP("ResourceSparseApplyKerasMomentum")
    .Inputs("var:resource, accum:resource, lr:T, grad:T, indices:Tindices, momentum:T")
    .Attrs(TANDEM_SPARSE_UPDATE_ATTRS "; use_nesterov:bool=False")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<KerasMomentum>());

}  // namespace
}  // namespace tandem::state
