// MatMul on GPUs, by cuBLAS.
#include <memory>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "kernels/gpu/cublas.h"
#include "kernels/linalg/matmul_shape.h"

namespace tandem {
namespace {

const std::vector<DataType> kTypes = {kFloat32, kFloat64, kFloat16, kBfloat16};

class MatMulOnGpu final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    gemm_.dtype = init.Attr<DataType>("T");
    gemm_.transpose_a = init.Attr<bool>("transpose_a");
    gemm_.transpose_b = init.Attr<bool>("transpose_b");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& a = c.input(0);
    const Tensor& b = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(
        const MatMulSizes sizes,
        SizesOfMatMul(a.shape(), b.shape(), gemm_.transpose_a, gemm_.transpose_b));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const product, c.AllocateOutput(0, Shape({sizes.m, sizes.n})));
    GpuGemm gemm = gemm_;
    gemm.m = sizes.m, gemm.n = sizes.n, gemm.k = sizes.k;
    gemm.a = a.data(), gemm.b = b.data(), gemm.product = product->mutable_data();
    return RunGpuGemm(GpuQueueOf(c.device()), gemm);
  }

 private:
  GpuGemm gemm_;  // Without what a run brings.
};

KernelDef OnGpu(KernelDef def) {
  def.device = kCuda;
  return def;
}

TANDEM_KERNEL("MatMul", OnGpu(Make<MatMulOnGpu>("T", kTypes)));

}  // namespace
}  // namespace tandem
