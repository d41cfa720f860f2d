// Assignments to variables on GPUs.
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/gpu.h"
#include "core/op/registry.h"
#include "kernels/array/elements.h"
#include "kernels/math/binary_gpu_code.h"
#include "kernels/math/elementwise_gpu.h"
#include "kernels/state/variables.h"

namespace tandem::state {
namespace {

class AssignOnGpu final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    validate_shape_ = init.Attr<bool>("validate_shape");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    return AssignByHandle(c, validate_shape_, [&c](void* to, const Tensor& from) {
      return GpuQueueOf(c.device()).Copy(to, from.data(), from.num_bytes());
    });
  }

 private:
  bool validate_shape_ = false;
};

// variable += change, or -=, by the elementwise op of this name.
class ChangeOnGpu final : public Kernel {
 public:
  ChangeOnGpu(const char* op, DataType dtype) : name_(absl::StrCat(op, "_", DataTypeName(dtype))) {}

  absl::Status Compute(KernelContext& c) override {
    return ChangeVariable(c, [&](void* to, const Tensor& value, const Tensor& change) {
      GpuQueue& queue = GpuQueueOf(c.device());
      const int64_t n = value.num_elements();
      const math::GpuBinaryFunction function{{&kBinaryGpuCode, name_.c_str()}};
      return queue.Run(function, GridForElements(queue, n), value.data(), change.data(), to, n, 1,
                       1, n, 0, 0, 0, 1, 0, 0, 0, 1);
    });
  }

 private:
  const std::string name_;
};

KernelDef Assign() {
  KernelDef def = Make<AssignOnGpu>("dtype", array::AllTypesBut({kString, kResource, kVariant}));
  def.device = kCuda;
  def.host_memory = {"resource"};
  return def;
}
KernelDef Change(const char* op) {
  KernelDef def;
  def.device = kCuda;
  def.types = {{"dtype", math::kGpuNumbers}};
  def.host_memory = {"resource"};
  def.factory = [op](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<ChangeOnGpu>(op, init.Attr<DataType>("dtype"));
  };
  return def;
}

TANDEM_KERNEL("AssignVariableOp", Assign());
TANDEM_KERNEL("AssignAddVariableOp", Change("Add"));
TANDEM_KERNEL("AssignSubVariableOp", Change("Sub"));

}  // namespace
}  // namespace tandem::state
