// Fill, ZerosLike and OnesLike on GPUs.
#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/gpu.h"
#include "core/op/registry.h"
#include "core/tensor/float16.h"
#include "kernels/array/fill_gpu_code.h"
#include "kernels/common/arguments.h"

namespace tandem::array {
namespace {

using FillFunction = GpuFunction<const void*, void*, int64_t>;
using FillBitsFunction = GpuFunction<uint64_t, void*, int64_t>;

const std::vector<DataType> kTypes = {kFloat32, kFloat64, kFloat16, kBfloat16, kInt8,
                                      kInt16,   kInt32,   kInt64,   kUint8,    kUint16,
                                      kUint32,  kUint64,  kBool};

absl::Status Fill(KernelContext& c) {
  const Tensor& value = c.input(1);
  TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(0), "dims"));
  if (value.shape().rank() > 1 || value.num_elements() != 1) {
    return errors::InvalidArgument("the value to fill with has shape ", value.shape().DebugString(),
                                   "; a scalar is wanted");
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, std::move(shape)));
  const int64_t n = y->num_elements();
  if (n == 0) return absl::OkStatus();
  const std::string name = absl::StrCat("Fill_", DataTypeSize(value.dtype()));
  GpuQueue& queue = GpuQueueOf(c.device());
  return queue.Run(FillFunction{{&kFillGpuCode, name.c_str()}}, GridForElements(queue, n),
                   value.data(), y->mutable_data(), n);
}

absl::Status ZerosLike(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, c.input(0).shape()));
  return GpuQueueOf(c.device()).Fill(y->mutable_data(), 0, y->num_bytes());
}

// A one, as it lies in memory.
uint64_t BitsOfOne(DataType dtype) {
  uint64_t bits = 1;
  if (dtype == kFloat32) {
    const float one = 1;
    std::memcpy(&bits, &one, sizeof(one));
    bits &= 0xffffffff;
  } else if (dtype == kFloat64) {
    const double one = 1;
    std::memcpy(&bits, &one, sizeof(one));
  } else if (dtype == kFloat16) {
    bits = Float16(1.f).bits;
  } else if (dtype == kBfloat16) {
    bits = Bfloat16(1.f).bits;
  }
  return bits;
}

absl::Status OnesLike(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, c.input(0).shape()));
  const int64_t n = y->num_elements();
  if (n == 0) return absl::OkStatus();
  const std::string name = absl::StrCat("FillBits_", DataTypeSize(y->dtype()));
  GpuQueue& queue = GpuQueueOf(c.device());
  return queue.Run(FillBitsFunction{{&kFillGpuCode, name.c_str()}}, GridForElements(queue, n),
                   BitsOfOne(y->dtype()), y->mutable_data(), n);
}

KernelDef OnGpu(KernelFunction function, std::vector<std::string> host_memory = {}) {
  KernelDef def = Function(function);
  def.device = kCuda;
  def.types = {{"T", kTypes}};
  def.host_memory = std::move(host_memory);
  return def;
}

TANDEM_KERNEL("Fill", OnGpu(Fill, {"dims"}));
TANDEM_KERNEL("ZerosLike", OnGpu(ZerosLike));
TANDEM_KERNEL("OnesLike", OnGpu(OnesLike));

}  // namespace
}  // namespace tandem::array
