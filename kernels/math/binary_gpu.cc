// Elementwise ops of two inputs on GPUs: arithmetic.cc's, division.cc's, comparison.cc's and those
// of gradients.
#include "core/op/registry.h"
#include "kernels/math/binary_gpu_code.h"
#include "kernels/math/elementwise_gpu.h"

namespace tandem::math {
namespace {

KernelDef Numbers(const char* name) { return GpuBinaryKernel(kBinaryGpuCode, name, kGpuNumbers); }
KernelDef Floats(const char* name) { return GpuBinaryKernel(kBinaryGpuCode, name, kGpuFloats); }
KernelDef Gradient(const char* name) {
  return GpuBinaryKernel(kBinaryGpuCode, name, kGpuFloats, /*same_shape=*/true);
}

TANDEM_KERNEL("Add", Numbers("Add"));
TANDEM_KERNEL("AddV2", Numbers("Add"));
TANDEM_KERNEL("Sub", Numbers("Sub"));
TANDEM_KERNEL("Mul", Numbers("Mul"));
TANDEM_KERNEL("Maximum", Numbers("Maximum"));
TANDEM_KERNEL("Minimum", Numbers("Minimum"));
TANDEM_KERNEL("SquaredDifference", Numbers("SquaredDifference"));
TANDEM_KERNEL("RealDiv", Floats("RealDiv"));
TANDEM_KERNEL("Div", Floats("RealDiv"));
TANDEM_KERNEL("DivNoNan", Floats("DivNoNan"));
TANDEM_KERNEL("Pow", Floats("Pow"));
TANDEM_KERNEL("Equal", GpuEqualityKernel(kBinaryGpuCode, "Equal", kGpuNumbers, false));
TANDEM_KERNEL("NotEqual", GpuEqualityKernel(kBinaryGpuCode, "NotEqual", kGpuNumbers, true));
TANDEM_KERNEL("Less", Numbers("Less"));
TANDEM_KERNEL("LessEqual", Numbers("LessEqual"));
TANDEM_KERNEL("Greater", Numbers("Greater"));
TANDEM_KERNEL("GreaterEqual", Numbers("GreaterEqual"));
TANDEM_KERNEL("SqrtGrad", Gradient("SqrtGrad"));
TANDEM_KERNEL("RsqrtGrad", Gradient("RsqrtGrad"));
TANDEM_KERNEL("TanhGrad", Gradient("TanhGrad"));
TANDEM_KERNEL("SigmoidGrad", Gradient("SigmoidGrad"));

}  // namespace
}  // namespace tandem::math
