// How registrations name their kernels.
//
//   .Cpu(Make<ShapeKernel>())                         one class for all types
//   .Cpu(ByType<AddKernel, float, int32_t>("T"))      a class template, by one type attribute
//   .Cpu(Function(ComputeNoOp))                       a plain function without attributes
//
// A kernel class takes its attributes in `absl::Status Init(KernelInit&)`, if it has any.
#ifndef TANDEM_CORE_KERNEL_FACTORIES_H_
#define TANDEM_CORE_KERNEL_FACTORIES_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status.h"
#include "core/kernel/kernel.h"
#include "core/op/op_def.h"
#include "core/op/registry.h"

namespace tandem {

template <typename K>
absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(KernelInit& init) {
  auto kernel = std::make_unique<K>();
  if constexpr (requires { kernel->Init(init); }) {
    TANDEM_RETURN_IF_ERROR(kernel->Init(init));
  }
  return kernel;
}

// A kernel class for every type, or for the given types of an attribute.
template <typename K>
KernelDef Make() {
  return KernelDef{"", {}, MakeKernel<K>, {}};
}
template <typename K>
KernelDef Make(std::string type_attr, std::vector<DataType> types) {
  return KernelDef{"", {{std::move(type_attr), std::move(types)}}, MakeKernel<K>, {}};
}

// K<T> for the value T of a type attribute.
template <template <typename> class K, typename... Ts>
KernelDef ByType(std::string type_attr) {
  KernelDef def;
  def.types = {{type_attr, {DataTypeOf<Ts>()...}}};
  def.factory = [type_attr](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const DataType type = init.Attr<DataType>(type_attr);
    absl::StatusOr<std::unique_ptr<Kernel>> kernel =
        errors::Internal("no kernel for type ", DataTypeName(type));
    // The first match makes the kernel; the rest of the list is not looked at.
    (void)((type == DataTypeOf<Ts>() && (kernel = MakeKernel<K<Ts>>(init), true)) || ...);
    return kernel;
  };
  return def;
}

using KernelFunction = absl::Status (*)(KernelContext& c);

inline KernelDef Function(KernelFunction function) {
  class FunctionKernel : public Kernel {
   public:
    explicit FunctionKernel(KernelFunction function) : function_(function) {}
    absl::Status Compute(KernelContext& c) override { return function_(c); }

   private:
    const KernelFunction function_;
  };
  KernelDef def;
  def.factory = [function](KernelInit&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<FunctionKernel>(function);
  };
  return def;
}

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_FACTORIES_H_
