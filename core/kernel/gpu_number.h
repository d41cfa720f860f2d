// Numbers in code for GPUs: how they lie in memory and in which type they are computed.
//
// float16 and bfloat16 are computed in float and rounded once, to nearest even, as the CPU's
// kernels do it. In memory they are these types; tensors of them are passed as pointers to such.
#ifndef TANDEM_CORE_KERNEL_GPU_NUMBER_H_
#define TANDEM_CORE_KERNEL_GPU_NUMBER_H_

#include <cstdint>

#include "core/kernel/gpu_code.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#else
#include "core/tensor/float16.h"
#endif

namespace tandem {

struct GpuFloat16 {
  uint16_t bits;
};
struct GpuBfloat16 {
  uint16_t bits;
};

// Computed in the same type, unless said otherwise.
template <typename T>
struct GpuNumber {
  using Compute = T;
  static TANDEM_GPU_INLINE T Load(T x) { return x; }
  static TANDEM_GPU_INLINE T Round(T x) { return x; }
};

template <>
struct GpuNumber<GpuFloat16> {
  using Compute = float;
#if defined(__CUDACC__)
  static TANDEM_GPU_INLINE float Load(GpuFloat16 x) {
    return __half2float(__ushort_as_half(x.bits));
  }
  static TANDEM_GPU_INLINE GpuFloat16 Round(float x) {
    return {__half_as_ushort(__float2half_rn(x))};
  }
#else
  static float Load(GpuFloat16 x) { return static_cast<float>(Float16::FromBits(x.bits)); }
  static GpuFloat16 Round(float x) { return {Float16(x).bits}; }
#endif
};

template <>
struct GpuNumber<GpuBfloat16> {
  using Compute = float;
#if defined(__CUDACC__)
  static TANDEM_GPU_INLINE float Load(GpuBfloat16 x) {
    return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
  }
  static TANDEM_GPU_INLINE GpuBfloat16 Round(float x) {
    const uint32_t bits = __float_as_uint(x);
    if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40)};  // Stays not a number.
    return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  }
#else
  static float Load(GpuBfloat16 x) { return static_cast<float>(Bfloat16::FromBits(x.bits)); }
  static GpuBfloat16 Round(float x) { return {Bfloat16(x).bits}; }
#endif
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_GPU_NUMBER_H_
