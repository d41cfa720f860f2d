// Conversion of runs of float16 and bfloat16 from and to float, rounding to nearest even.
//
// Kernels compute these types in float: convert a block, compute, convert back, so that they need
// no code of their own and round once.
#ifndef TANDEM_KERNELS_COMMON_HALF_H_
#define TANDEM_KERNELS_COMMON_HALF_H_

#include <cstdint>

#include "core/tensor/float16.h"

namespace tandem {

// A block that keeps a few float buffers in the first-level cache.
inline constexpr int64_t kHalfBlock = 512;

void ToFloat(const Float16* from, float* to, int64_t n);
void ToFloat(const Bfloat16* from, float* to, int64_t n);
void FromFloat(const float* from, Float16* to, int64_t n);
void FromFloat(const float* from, Bfloat16* to, int64_t n);

}  // namespace tandem

#endif  // TANDEM_KERNELS_COMMON_HALF_H_
