// activations.cc's ops on GPUs, but for LeakyRelu.
#include "core/op/registry.h"
#include "kernels/math/elementwise_gpu.h"
#include "kernels/nn/activations_gpu_code.h"

namespace tandem {
namespace {

KernelDef Activation(const char* name) {
  return math::GpuUnaryKernel(kActivationsGpuCode, name, math::kGpuFloats);
}
KernelDef Gradient(const char* name) {
  return math::GpuBinaryKernel(kActivationsGpuCode, name, math::kGpuFloats, /*same_shape=*/true);
}

TANDEM_KERNEL("Relu", Activation("Relu"));
TANDEM_KERNEL("Relu6", Activation("Relu6"));
TANDEM_KERNEL("Elu", Activation("Elu"));
TANDEM_KERNEL("Selu", Activation("Selu"));
TANDEM_KERNEL("Softplus", Activation("Softplus"));
TANDEM_KERNEL("Softsign", Activation("Softsign"));
TANDEM_KERNEL("ReluGrad", Gradient("ReluGrad"));
TANDEM_KERNEL("Relu6Grad", Gradient("Relu6Grad"));
TANDEM_KERNEL("EluGrad", Gradient("EluGrad"));
TANDEM_KERNEL("SeluGrad", Gradient("SeluGrad"));
TANDEM_KERNEL("SoftplusGrad", Gradient("SoftplusGrad"));
TANDEM_KERNEL("SoftsignGrad", Gradient("SoftsignGrad"));

}  // namespace
}  // namespace tandem
