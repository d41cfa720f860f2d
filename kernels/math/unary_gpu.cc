// Elementwise ops of one input on GPUs: unary.cc's, functions.cc's and trigonometry.cc's.
#include "core/op/registry.h"
#include "kernels/math/elementwise_gpu.h"
#include "kernels/math/unary_gpu_code.h"

namespace tandem::math {
namespace {

KernelDef Numbers(const char* name) { return GpuUnaryKernel(kUnaryGpuCode, name, kGpuNumbers); }
KernelDef Floats(const char* name) { return GpuUnaryKernel(kUnaryGpuCode, name, kGpuFloats); }

TANDEM_KERNEL("Neg", Numbers("Neg"));
TANDEM_KERNEL("Abs", Numbers("Abs"));
TANDEM_KERNEL("Sign", Numbers("Sign"));
TANDEM_KERNEL("Square", Numbers("Square"));
TANDEM_KERNEL("Sqrt", Floats("Sqrt"));
TANDEM_KERNEL("Rsqrt", Floats("Rsqrt"));
TANDEM_KERNEL("Reciprocal", Floats("Reciprocal"));
TANDEM_KERNEL("Inv", Floats("Reciprocal"));
TANDEM_KERNEL("Floor", Floats("Floor"));
TANDEM_KERNEL("Ceil", Floats("Ceil"));
TANDEM_KERNEL("Rint", Floats("Rint"));
TANDEM_KERNEL("Round", Floats("Rint"));
TANDEM_KERNEL("IsNan", Floats("IsNan"));
TANDEM_KERNEL("IsInf", Floats("IsInf"));
TANDEM_KERNEL("IsFinite", Floats("IsFinite"));
TANDEM_KERNEL("Exp", Floats("Exp"));
TANDEM_KERNEL("Expm1", Floats("Expm1"));
TANDEM_KERNEL("Log", Floats("Log"));
TANDEM_KERNEL("Log1p", Floats("Log1p"));
TANDEM_KERNEL("Sin", Floats("Sin"));
TANDEM_KERNEL("Cos", Floats("Cos"));
TANDEM_KERNEL("Tanh", Floats("Tanh"));
TANDEM_KERNEL("Erf", Floats("Erf"));
TANDEM_KERNEL("Sigmoid", Floats("Sigmoid"));

}  // namespace
}  // namespace tandem::math
