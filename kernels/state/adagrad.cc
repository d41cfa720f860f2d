// Adagrad (Duchi et al., 2011): accum += g²; var -= λ g / √accum. The second version divides by
// √accum + ε. With update_slots = false `accum` stays as it is.
#include <cmath>

#include "core/op/registry.h"
#include "kernels/state/optimizer.h"

namespace tandem::state {
namespace {

template <bool kWithEpsilon>
struct Adagrad {
  static constexpr double kNanosecondsPerElement = 1;
  bool update_slots = true;

  absl::Status Init(KernelInit& init) {
    update_slots = init.Attr<bool>("update_slots");
    return absl::OkStatus();
  }

  template <typename T>
  void operator()(const UpdateBlock<T>& b) const {
    const T rate = b.scalars[0];
    const T epsilon = kWithEpsilon ? b.scalars[1] : T(0);
    const T share = update_slots ? T(1) : T(0);
    const T* const var = b.before[0];
    const T* const accum = b.before[1];
    const T* const gradient = b.gradient;
    T* const new_var = b.after[0];
    T* const new_accum = b.after[1];
#pragma GCC ivdep
    for (int64_t i = 0; i < b.n; ++i) {
      using std::sqrt;
      const T g = gradient[i];
      const T a = accum[i] + share * (g * g);
      new_var[i] = var[i] - rate * g / (sqrt(a) + epsilon);
      new_accum[i] = a;
    }
  }
};

TANDEM_OP("ApplyAdagrad")
    .Inputs("var:ref T, accum:ref T, lr:T, grad:T")
    .Outputs("out:ref T")
    .Attrs(TANDEM_UPDATE_ATTRS "; update_slots:bool=True")
    .Shape(UpdateShape)
    .Cpu(UpdateByRule<Adagrad<false>>());

TANDEM_OP("ResourceApplyAdagrad")
    .Inputs("var:resource, accum:resource, lr:T, grad:T")
    .Attrs(TANDEM_UPDATE_ATTRS "; update_slots:bool=True")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<Adagrad<false>>());

TANDEM_OP("ResourceSparseApplyAdagrad")
    .Inputs("var:resource, accum:resource, lr:T, grad:T, indices:Tindices")
    .Attrs(TANDEM_SPARSE_UPDATE_ATTRS "; update_slots:bool=True")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<Adagrad<false>>());

TANDEM_OP("ResourceApplyAdagradV2")
    .Inputs("var:resource, accum:resource, lr:T, epsilon:T, grad:T")
    .Attrs(TANDEM_UPDATE_ATTRS "; update_slots:bool=True")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<Adagrad<true>>());

TANDEM_OP("ResourceSparseApplyAdagradV2")
    .Inputs("var:resource, accum:resource, lr:T, epsilon:T, grad:T, indices:Tindices")
    .Attrs(TANDEM_SPARSE_UPDATE_ATTRS "; update_slots:bool=True")
    .Stateful()
    .Shape(UpdateShape)
    .HostMemory({"var", "accum"})
    .Cpu(UpdateByRule<Adagrad<true>>());

}  // namespace
}  // namespace tandem::state
