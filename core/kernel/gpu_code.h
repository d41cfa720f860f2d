// The language of NAME_gpu.cu.cc: CUDA C++ in a form that also runs on the host.
//
// nvcc compiles such a file for GPUs. For tests g++ compiles the same file for the emulated GPU
// (runtime/device/cuda/emulated), so that indices, arguments and results are tested on machines
// without one. Two forms of function:
//
//   // One call a thread.
//   TANDEM_GPU_THREADS(Neg_float32, const float* x, float* y, int64_t n) {
//     TANDEM_GPU_FOR(i, n) y[i] = -x[i];
//   }
//
//   // One call a block, whose threads meet between phases.
//   TANDEM_GPU_BLOCKS(RowSum_float32, const float* x, float* y, int64_t rows, int64_t columns) {
//     TANDEM_GPU_SHARED(float, partial, 256);
//     for (int64_t row = GpuBlock(); row < rows; row += GpuBlocks()) {
//       TANDEM_GPU_PHASE(t) { partial[t] = …; }
//       …
//     }
//   }
//
// In the second form everything outside a phase is computed alike by all threads, a phase's body
// once by each, and no value outlives a phase but in shared memory. There are no barriers inside
// phases. Names of functions are global to the program.
//
// These files include nothing but headers of this kind and <cstdint>, <cmath>: nvcc reads them
// several times. Arguments are numbers and pointers.
#ifndef TANDEM_CORE_KERNEL_GPU_CODE_H_
#define TANDEM_CORE_KERNEL_GPU_CODE_H_

#include <cstdint>

#if defined(__CUDACC__)

#define TANDEM_GPU_INLINE __device__ __forceinline__

namespace tandem {
TANDEM_GPU_INLINE int64_t GpuBlock() { return blockIdx.x; }
TANDEM_GPU_INLINE int64_t GpuBlocks() { return gridDim.x; }
TANDEM_GPU_INLINE int GpuThreads() { return static_cast<int>(blockDim.x); }
TANDEM_GPU_INLINE int64_t GpuFirst() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
TANDEM_GPU_INLINE int64_t GpuStride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }
}  // namespace tandem

#define TANDEM_GPU_THREADS(name, ...) extern "C" __global__ void name(__VA_ARGS__)
#define TANDEM_GPU_BLOCKS(name, ...) extern "C" __global__ void name(__VA_ARGS__)
#define TANDEM_GPU_SHARED(type, name, size) __shared__ type name[size]
// The barrier before the body keeps it from overtaking the readers of the phase before; the one
// after it shows its writes to all.
#define TANDEM_GPU_PHASE(thread)                                                           \
  for (int thread = (__syncthreads(), static_cast<int>(threadIdx.x)), once = 1; once != 0; \
       once = 0, __syncthreads())

#else

#include "core/kernel/gpu_emulation.h"

#define TANDEM_GPU_INLINE inline

#define TANDEM_GPU_THREADS(name, ...)                                                            \
  extern "C" void name(__VA_ARGS__);                                                             \
  [[maybe_unused]] static const ::tandem::EmulatedGpuRegistration name##_registered(#name, name, \
                                                                                    false);      \
  extern "C" void name(__VA_ARGS__)
#define TANDEM_GPU_BLOCKS(name, ...)                                                             \
  extern "C" void name(__VA_ARGS__);                                                             \
  [[maybe_unused]] static const ::tandem::EmulatedGpuRegistration name##_registered(#name, name, \
                                                                                    true);       \
  extern "C" void name(__VA_ARGS__)
// Blocks run one after the other on a thread of the host.
#define TANDEM_GPU_SHARED(type, name, size) static thread_local type name[size]
#define TANDEM_GPU_PHASE(thread) for (int thread = 0; thread < ::tandem::GpuThreads(); ++thread)

#endif

// For each element of `n`, spread over the threads of all blocks. Of TANDEM_GPU_THREADS only.
#define TANDEM_GPU_FOR(i, n) \
  for (int64_t i = ::tandem::GpuFirst(); i < (n); i += ::tandem::GpuStride())

#endif  // TANDEM_CORE_KERNEL_GPU_CODE_H_
