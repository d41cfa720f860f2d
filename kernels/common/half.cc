#include "kernels/common/half.h"

namespace tandem {

void ToFloat(const Float16* from, float* to, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void FromFloat(const float* from, Float16* to, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; ++i) to[i] = Float16(from[i]);
}

void ToFloat(const Bfloat16* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void FromFloat(const float* from, Bfloat16* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = Bfloat16(from[i]);
}

}  // namespace tandem
