// BiasAdd, BiasAddV1 and BiasAddGrad on GPUs, by the elementwise sum and the reduction.
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/gpu.h"
#include "core/op/registry.h"
#include "kernels/math/binary_gpu_code.h"
#include "kernels/math/elementwise_gpu.h"
#include "kernels/math/reduce_gpu.h"
#include "kernels/nn/bias_channels.h"

namespace tandem {
namespace {

class BiasAddOnGpu final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    channels_first_ = HasChannelsFirst(init.attrs());
    name_ = absl::StrCat("Add_", DataTypeName(init.Attr<DataType>("T")));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& value = c.input(0);
    const Tensor& bias = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const BiasChannels s,
                            ChannelsForBias(value.shape(), bias.shape(), channels_first_));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, value.shape()));
    const int64_t n = output->num_elements();
    if (n == 0) return absl::OkStatus();
    GpuQueue& queue = GpuQueueOf(c.device());
    const math::GpuBinaryFunction add{{&kBinaryGpuCode, name_.c_str()}};
    return queue.Run(add, GridForElements(queue, n), c.input(0).data(), c.input(1).data(),
                     output->mutable_data(), n, s.outer, s.channels, s.inner, 0,
                     s.channels * s.inner, s.inner, 1, 0, 0, 1, 0);
  }

 private:
  bool channels_first_ = false;
  std::string name_;
};

class BiasAddGradOnGpu final : public Kernel {
 public:
  BiasAddGradOnGpu(DataType dtype, bool channels_first)
      : sum_("Sum", dtype), channels_first_(channels_first) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& dy = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const BiasChannels s, ChannelsOf(dy.shape(), channels_first_));
    TANDEM_ASSIGN_OR_RETURN(
        const ReductionGeometry geometry,
        ReductionGeometry::Make(Shape({s.outer, s.channels, s.inner}), {0, 2}, false));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const db, c.AllocateOutput(0, Shape({s.channels})));
    return sum_.Run(c, geometry, dy.data(), db->mutable_data());
  }

 private:
  const math::GpuReduction sum_;
  const bool channels_first_;
};

KernelDef BiasAdd() {
  KernelDef def = Make<BiasAddOnGpu>("T", math::kGpuNumbers);
  def.device = kCuda;
  return def;
}
KernelDef BiasAddGrad() {
  KernelDef def;
  def.device = kCuda;
  def.types = {{"T", math::kGpuNumbers}};
  def.factory = [](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<BiasAddGradOnGpu>(init.Attr<DataType>("T"),
                                              HasChannelsFirst(init.attrs()));
  };
  return def;
}

TANDEM_KERNEL("BiasAdd", BiasAdd());
TANDEM_KERNEL("BiasAddV1", BiasAdd());
TANDEM_KERNEL("BiasAddGrad", BiasAddGrad());

}  // namespace
}  // namespace tandem
