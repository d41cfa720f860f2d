// The dense updates of gradient descent, momentum (both forms) and Adam on GPUs.
// What the scalars are is known on the device only: a step does not wait for them.
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/kernel/gpu.h"
#include "core/op/registry.h"
#include "kernels/state/optimizer.h"
#include "kernels/state/optimizer_gpu_code.h"

namespace tandem::state {
namespace {

constexpr size_t kMaxScalars = 6;  // As optimizer_gpu.cu.cc has them.

using UpdateFunction = GpuFunction<const void*, const void*, const void*, void*, void*, void*,
                                   const void*, const void*, const void*, const void*, const void*,
                                   const void*, const void*, int64_t, bool>;

class UpdateOnGpu final : public UpdateKernel {
 public:
  explicit UpdateOnGpu(const char* rule) : name_(absl::StrCat("Apply", rule, "_")) {}

  absl::Status Init(KernelInit& init) {
    const DataType dtype = init.Attr<DataType>("T");
    absl::StrAppend(&name_, DataTypeName(dtype));
    const auto nesterov = init.attrs().find("use_nesterov");
    nesterov_ = nesterov != init.attrs().end() && *nesterov->second.Get<bool>();
    return InitLayout(init, dtype, 0);
  }

 private:
  absl::Status ReadScalars(KernelContext& c, int count, void*) const override {
    for (const Argument& argument : scalar_arguments()) {
      const int input = argument.Input(0, count);
      if (c.input(input).shape().IsScalar()) continue;
      return errors::InvalidArgument("input ", input, " must be a scalar; it has shape ",
                                     c.input(input).shape().DebugString());
    }
    return absl::OkStatus();
  }

  absl::Status UpdateParts(KernelContext& c, int count, absl::Span<const Part> parts,
                           int64_t elements, const void*) const override {
    GpuQueue& queue = GpuQueueOf(c.device());
    const UpdateFunction function{{&kOptimizerGpuCode, name_.c_str()}};
    std::array<const void*, kMaxScalars> s{};
    for (size_t i = 0; i < scalar_arguments().size(); ++i) {
      s[i] = c.input(scalar_arguments()[i].Input(0, count)).data();
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const Pointers& p = parts[i].pointers;
      const int64_t n = (i + 1 < parts.size() ? parts[i + 1].first : elements) - parts[i].first;
      TANDEM_RETURN_IF_ERROR(queue.Run(
          function, GridForElements(queue, n), p.before[0], p.before[1], p.before[2], p.after[0],
          p.after[1], p.after[2], p.gradient, s[0], s[1], s[2], s[3], s[4], s[5], n, nesterov_));
    }
    return absl::OkStatus();
  }

  std::string name_;
  bool nesterov_ = false;
};

KernelDef Updates(const char* rule, std::vector<std::string> host_memory) {
  KernelDef def;
  def.device = kCuda;
  def.types = {{"T", {kFloat32, kFloat64, kFloat16, kBfloat16}}};
  def.host_memory = std::move(host_memory);
  def.factory = [rule](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    auto kernel = std::make_unique<UpdateOnGpu>(rule);
    TANDEM_RETURN_IF_ERROR(kernel->Init(init));
    return kernel;
  };
  return def;
}

TANDEM_KERNEL("ResourceApplyGradientDescent", Updates("GradientDescent", {"var"}));
TANDEM_KERNEL("_TandemApplyManyGradientDescent", Updates("GradientDescent", {"var"}));
TANDEM_KERNEL("ResourceApplyMomentum", Updates("Momentum", {"var", "accum"}));
TANDEM_KERNEL("_TandemApplyManyMomentum", Updates("Momentum", {"var", "accum"}));
TANDEM_KERNEL("ResourceApplyKerasMomentum", Updates("KerasMomentum", {"var", "accum"}));
TANDEM_KERNEL("_TandemApplyManyKerasMomentum", Updates("KerasMomentum", {"var", "accum"}));
TANDEM_KERNEL("ResourceApplyAdam", Updates("Adam", {"var", "m", "v"}));
TANDEM_KERNEL("_TandemApplyManyAdam", Updates("Adam", {"var", "m", "v"}));

}  // namespace
}  // namespace tandem::state
