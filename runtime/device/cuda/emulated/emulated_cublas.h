// cuBLAS on the emulated GPU: plain loops over column-major matrices.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_CUBLAS_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_CUBLAS_H_

#include "kernels/gpu/cublas.h"
#include "runtime/device/cuda/emulated/emulated_gpu.h"

namespace tandem {

// For SetCublas. Arguments are checked as the library checks them.
const cublas::Calls& EmulatedCublas();

// From now on devices of type GPU are emulated, as many as this, with their libraries. The platform
// lives as long as the process. REQUIRES: no device of the type was made yet.
EmulatedGpuPlatform& UseEmulatedGpus(int devices);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_CUBLAS_H_
