// The kernels for GPUs of the ops in conformance_ops.cc. Those that look into no value are the
// CPU's.
#include <cstdint>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/gpu.h"
#include "core/op/registry.h"
#include "runtime/device/conformance/conformance_gpu_code.h"

namespace tandem {
namespace {

KernelDef OnGpu(KernelFunction function, std::vector<std::string> host_memory = {}) {
  KernelDef def = Function(function);
  def.device = kCuda;
  def.host_memory = std::move(host_memory);
  return def;
}

const int32_t* Values(const Tensor& tensor) { return static_cast<const int32_t*>(tensor.data()); }
int32_t* Values(Tensor& tensor) { return static_cast<int32_t*>(tensor.mutable_data()); }

const GpuFunction<const int32_t*, int32_t*, int64_t> add_one{
    {&kConformanceGpuCode, "ConformanceAddOne"}};
const GpuFunction<const int32_t*, int32_t, int32_t*, int64_t> scale{
    {&kConformanceGpuCode, "ConformanceScale"}};
const GpuFunction<int32_t*, int32_t, int64_t> append{{&kConformanceGpuCode, "ConformanceAppend"}};

absl::Status AddOne(KernelContext& c) {
  GpuQueue& queue = GpuQueueOf(c.device());
  const Tensor& x = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.ForwardOrAllocate({0}, 0, x.shape()));
  const int64_t n = y->num_elements();
  return queue.Run(add_one, GridForElements(queue, n), Values(c.input(0)), Values(*y), n);
}
TANDEM_KERNEL("_ConformanceAddOne", OnGpu(AddOne));

absl::Status Scale(KernelContext& c) {
  GpuQueue& queue = GpuQueueOf(c.device());
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, c.input(0).shape()));
  const int64_t n = y->num_elements();
  return queue.Run(scale, GridForElements(queue, n), Values(c.input(0)),
                   c.input(1).ScalarValue<int32_t>(), Values(*y), n);
}
TANDEM_KERNEL("_ConformanceScale", OnGpu(Scale, {"factor"}));

absl::Status Fill(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, {c.input(0).ScalarValue<int64_t>()}));
  return GpuQueueOf(c.device()).Fill(y->mutable_data(), 0, y->num_bytes());
}
TANDEM_KERNEL("_ConformanceFill", OnGpu(Fill, {"count"}));

absl::Status Append(KernelContext& c) {
  GpuQueue& queue = GpuQueueOf(c.device());
  Variable& variable = c.reference(0);
  MutexLock lock(variable.mu());
  Tensor& value = variable.value();
  if (!value.OwnsBufferAlone()) {
    // Whoever read the variable keeps what was read.
    TANDEM_ASSIGN_OR_RETURN(Tensor fresh, c.AllocateTemporary(kInt32, value.shape()));
    TANDEM_RETURN_IF_ERROR(queue.Copy(fresh.mutable_data(), value.data(), value.num_bytes()));
    value = std::move(fresh);
  }
  const int64_t n = value.num_elements();
  return queue.Run(append, GridForElements(queue, n), Values(value),
                   c.input(1).ScalarValue<int32_t>(), n);
}
TANDEM_KERNEL("_ConformanceAppend", OnGpu(Append, {"value"}));

TANDEM_KERNEL("_ConformanceTail", MovesValues());
TANDEM_KERNEL("_ConformanceSize", MovesValues({"size"}));
TANDEM_KERNEL("_ConformanceAssign", MovesValues());
TANDEM_KERNEL("_ConformanceRead", MovesValues());

}  // namespace
}  // namespace tandem
