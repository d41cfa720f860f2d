// The code of cast_gpu.cc.
#include "core/kernel/gpu_code.h"
#include "core/kernel/gpu_number.h"

namespace tandem::math {
namespace {

template <typename From, typename To>
TANDEM_GPU_INLINE void Cast(const void* x, void* y, int64_t n) {
  const From* const from = static_cast<const From*>(x);
  To* const to = static_cast<To*>(y);
  using C = typename GpuNumber<To>::Compute;
  TANDEM_GPU_FOR(i, n) to[i] = GpuNumber<To>::Round(static_cast<C>(GpuNumber<From>::Load(from[i])));
}

}  // namespace

#define TANDEM_GPU_CAST(from_name, From, to_name, To)                                   \
  TANDEM_GPU_THREADS(Cast_##from_name##_##to_name, const void* x, void* y, int64_t n) { \
    Cast<From, To>(x, y, n);                                                            \
  }
#define TANDEM_GPU_CASTS_FROM(from_name, From)            \
  TANDEM_GPU_CAST(from_name, From, float32, float)        \
  TANDEM_GPU_CAST(from_name, From, float64, double)       \
  TANDEM_GPU_CAST(from_name, From, float16, GpuFloat16)   \
  TANDEM_GPU_CAST(from_name, From, bfloat16, GpuBfloat16) \
  TANDEM_GPU_CAST(from_name, From, int32, int32_t)        \
  TANDEM_GPU_CAST(from_name, From, int64, int64_t)        \
  TANDEM_GPU_CAST(from_name, From, uint8, uint8_t)        \
  TANDEM_GPU_CAST(from_name, From, bool, bool)

TANDEM_GPU_CASTS_FROM(float32, float)
TANDEM_GPU_CASTS_FROM(float64, double)
TANDEM_GPU_CASTS_FROM(float16, GpuFloat16)
TANDEM_GPU_CASTS_FROM(bfloat16, GpuBfloat16)
TANDEM_GPU_CASTS_FROM(int32, int32_t)
TANDEM_GPU_CASTS_FROM(int64, int64_t)
TANDEM_GPU_CASTS_FROM(uint8, uint8_t)
TANDEM_GPU_CASTS_FROM(bool, bool)

}  // namespace tandem::math
