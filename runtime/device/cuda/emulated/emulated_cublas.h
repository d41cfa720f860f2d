// cuBLAS on the emulated GPU: plain loops over column-major matrices.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_CUBLAS_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_CUBLAS_H_

#include "kernels/gpu/cublas.h"

namespace tandem {

// For SetCublas. Arguments are checked as the library checks them.
const cublas::Calls& EmulatedCublas();

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_EMULATED_EMULATED_CUBLAS_H_
