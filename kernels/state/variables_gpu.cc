// Assignments to variables on GPUs.
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/gpu.h"
#include "core/op/registry.h"
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
    TANDEM_ASSIGN_OR_RETURN(const VariableInput variable,
                            GetVariable(c, 0, absl::StatusCode::kNotFound));
    TANDEM_RETURN_IF_ERROR(CheckType(variable, c.input(1).dtype()));
    MutexLock lock(variable->mu());
    Tensor& old = variable->value();
    if (validate_shape_ && old.is_valid() && old.shape() != c.input(1).shape()) {
      return errors::InvalidArgument("variable '", variable.name(), "' has shape ",
                                     old.shape().DebugString(), " and the new value ",
                                     c.input(1).shape().DebugString(),
                                     "; with validate_shape they must be the same");
    }
    Tensor value = c.TakeInput(1);
    if (value.OwnsBufferAlone() || !IsTriviallyCopyable(value.dtype())) {
      old = std::move(value);
      return absl::OkStatus();
    }
    if (!old.is_valid() || old.shape() != value.shape() || !old.OwnsBufferAlone()) {
      TANDEM_ASSIGN_OR_RETURN(old, c.AllocateTemporary(value.dtype(), value.shape()));
    }
    return GpuQueueOf(c.device()).Copy(old.mutable_data(), value.data(), value.num_bytes());
  }

 private:
  bool validate_shape_ = false;
};

// variable += change, or -=, by the elementwise op of this name.
class ChangeOnGpu final : public Kernel {
 public:
  ChangeOnGpu(const char* op, DataType dtype) : name_(absl::StrCat(op, "_", DataTypeName(dtype))) {}

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const VariableInput variable,
                            GetVariable(c, 0, absl::StatusCode::kNotFound));
    const Tensor& change = c.input(1);
    TANDEM_RETURN_IF_ERROR(CheckType(variable, change.dtype()));
    MutexLock lock(variable->mu());
    Tensor& value = variable->value();
    if (!value.is_valid()) return variable.NotInitialized(absl::StatusCode::kNotFound);
    if (value.shape() != change.shape()) {
      return errors::InvalidArgument("variable '", variable.name(), "' has shape ",
                                     value.shape().DebugString(), " and what changes it ",
                                     change.shape().DebugString(), "; they must be the same");
    }
    const int64_t n = value.num_elements();
    if (n == 0) return absl::OkStatus();
    TANDEM_ASSIGN_OR_RETURN(Overwrite target, Overwrite::Begin(c, value));
    GpuQueue& queue = GpuQueueOf(c.device());
    const math::GpuBinaryFunction function{{&kBinaryGpuCode, name_.c_str()}};
    TANDEM_RETURN_IF_ERROR(queue.Run(function, GridForElements(queue, n), value.data(),
                                     change.data(), target.data(), n, 1, 1, n, 0, 0, 0, 1, 0, 0, 0,
                                     1));
    target.Commit(value);
    return absl::OkStatus();
  }

 private:
  const std::string name_;
};

KernelDef Assign() {
  KernelDef def = Make<AssignOnGpu>();
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
