// Cast on GPUs.
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/gpu.h"
#include "core/op/registry.h"
#include "kernels/math/cast_gpu_code.h"

namespace tandem::math {
namespace {

class CastOnGpu final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    const DataType from = init.Attr<DataType>("SrcT");
    const DataType to = init.Attr<DataType>("DstT");
    is_same_ = from == to;
    if (init.Attr<bool>("Truncate") && !is_same_) {
      return errors::Unimplemented("on a GPU a cast rounds; place one with Truncate on the CPU");
    }
    name_ = absl::StrCat("Cast_", DataTypeName(from), "_", DataTypeName(to));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    if (is_same_) {
      c.SetOutput(0, c.TakeInput(0));
      return absl::OkStatus();
    }
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, x.shape()));
    const int64_t n = y->num_elements();
    if (n == 0) return absl::OkStatus();
    GpuQueue& queue = GpuQueueOf(c.device());
    const GpuFunction<const void*, void*, int64_t> function{{&kCastGpuCode, name_.c_str()}};
    return queue.Run(function, GridForElements(queue, n), x.data(), y->mutable_data(), n);
  }

 private:
  bool is_same_ = false;
  std::string name_;
};

KernelDef Cast() {
  const std::vector<DataType> types = {kFloat32, kFloat64, kFloat16, kBfloat16,
                                       kInt32,   kInt64,   kUint8,   kBool};
  KernelDef def = Make<CastOnGpu>("SrcT", types);
  def.types.push_back({"DstT", types});
  def.device = kCuda;
  return def;
}

TANDEM_KERNEL("Cast", Cast());

}  // namespace
}  // namespace tandem::math
