// Loops over elements in code for GPUs, made from the formulas of math/formulas.h; the twin of
// loops.h. For _gpu.cu.cc files only.
//
//   TANDEM_GPU_UNARY(Neg, Neg, float32, float)             the function Neg_float32
//   TANDEM_GPU_NUMBERS(TANDEM_GPU_UNARY, Neg, Neg)         that for all numbers GPUs compute with
#ifndef TANDEM_KERNELS_MATH_LOOPS_GPU_H_
#define TANDEM_KERNELS_MATH_LOOPS_GPU_H_

#include <cstdint>

#include "core/kernel/gpu_code.h"
#include "core/kernel/gpu_number.h"
#include "kernels/math/formulas.h"

namespace tandem::math {

// What a formula gives, as it lies in memory: bool, or the type of the inputs.
template <typename T, typename C>
struct GpuStored {
  using Type = T;
  static TANDEM_GPU_INLINE T Of(C value) { return GpuNumber<T>::Round(value); }
};
template <typename T>
struct GpuStored<T, bool> {
  using Type = bool;
  static TANDEM_GPU_INLINE bool Of(bool value) { return value; }
};

template <typename F, typename T>
TANDEM_GPU_INLINE void GpuUnaryLoop(const void* x, void* y, int64_t n) {
  using Stored = GpuStored<T, decltype(F::Apply(GpuNumber<T>::Load(T())))>;
  const T* const from = static_cast<const T*>(x);
  auto* const to = static_cast<typename Stored::Type*>(y);
  TANDEM_GPU_FOR(i, n) to[i] = Stored::Of(F::Apply(GpuNumber<T>::Load(from[i])));
}

// Sizes and strides of up to four dimensions, as GpuBinaryFunction has them.
struct GpuStrides {
  int64_t d1, d2, d3;
  int64_t x0, x1, x2, x3;
  int64_t y0, y1, y2, y3;
};

template <typename F, typename T>
TANDEM_GPU_INLINE void GpuBinaryLoop(const void* x, const void* y, void* z, int64_t n,
                                     const GpuStrides& s) {
  using Stored = GpuStored<T, decltype(F::Apply(GpuNumber<T>::Load(T()), GpuNumber<T>::Load(T())))>;
  const T* const a = static_cast<const T*>(x);
  const T* const b = static_cast<const T*>(y);
  auto* const to = static_cast<typename Stored::Type*>(z);
  if (s.d3 == n) {
    // One dimension: no division.
    TANDEM_GPU_FOR(i, n) {
      to[i] =
          Stored::Of(F::Apply(GpuNumber<T>::Load(a[i * s.x3]), GpuNumber<T>::Load(b[i * s.y3])));
    }
    return;
  }
  TANDEM_GPU_FOR(i, n) {
    int64_t rest = i;
    const int64_t i3 = rest % s.d3;
    rest /= s.d3;
    const int64_t i2 = rest % s.d2;
    rest /= s.d2;
    const int64_t i1 = rest % s.d1;
    const int64_t i0 = rest / s.d1;
    const T from_a = a[i0 * s.x0 + i1 * s.x1 + i2 * s.x2 + i3 * s.x3];
    const T from_b = b[i0 * s.y0 + i1 * s.y1 + i2 * s.y2 + i3 * s.y3];
    to[i] = Stored::Of(F::Apply(GpuNumber<T>::Load(from_a), GpuNumber<T>::Load(from_b)));
  }
}

}  // namespace tandem::math

#define TANDEM_GPU_UNARY(name, Formula, type_name, Type)                      \
  TANDEM_GPU_THREADS(name##_##type_name, const void* x, void* y, int64_t n) { \
    ::tandem::math::GpuUnaryLoop<Formula, Type>(x, y, n);                     \
  }

#define TANDEM_GPU_BINARY(name, Formula, type_name, Type)                                       \
  TANDEM_GPU_THREADS(name##_##type_name, const void* x, const void* y, void* z, int64_t n,      \
                     int64_t d1, int64_t d2, int64_t d3, int64_t x0, int64_t x1, int64_t x2,    \
                     int64_t x3, int64_t y0, int64_t y1, int64_t y2, int64_t y3) {              \
    ::tandem::math::GpuBinaryLoop<Formula, Type>(x, y, z, n,                                    \
                                                 {d1, d2, d3, x0, x1, x2, x3, y0, y1, y2, y3}); \
  }

// For the types of kGpuFloats and of kGpuNumbers (elementwise_gpu.h).
#define TANDEM_GPU_FLOATS(INSTANTIATE, name, Formula)       \
  INSTANTIATE(name, Formula, float32, float)                \
  INSTANTIATE(name, Formula, float64, double)               \
  INSTANTIATE(name, Formula, float16, ::tandem::GpuFloat16) \
  INSTANTIATE(name, Formula, bfloat16, ::tandem::GpuBfloat16)
#define TANDEM_GPU_NUMBERS(INSTANTIATE, name, Formula) \
  TANDEM_GPU_FLOATS(INSTANTIATE, name, Formula)        \
  INSTANTIATE(name, Formula, int32, int32_t)           \
  INSTANTIATE(name, Formula, int64, int64_t)

#endif  // TANDEM_KERNELS_MATH_LOOPS_GPU_H_
