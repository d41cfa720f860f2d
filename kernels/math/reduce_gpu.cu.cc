// The code of reduce_gpu.cc: partial results, each of a piece of what is reduced, and then the
// results out of these. Pieces depend on shapes alone, so the same input gives the same bits.
#include "core/kernel/gpu_code.h"
#include "core/kernel/gpu_number.h"
#include "kernels/math/reduction_formulas.h"

namespace tandem::math {
namespace {

// Of one block's threads; a power of two.
constexpr int kThreads = 256;

// A grid of up to three dimensions, the outermost first: the sizes of the inner two, and strides.
struct Grid {
  int64_t d1, d2;
  int64_t s0, s1, s2;
  TANDEM_GPU_INLINE int64_t Offset(int64_t index) const {
    if (d1 == 1 && d2 == 1) return index * s0;
    const int64_t i2 = index % d2;
    const int64_t rest = index / d2;
    return rest / d1 * s0 + rest % d1 * s1 + i2 * s2;
  }
};

// partial[piece * kept + k] of the elements [piece * length, (piece + 1) * length) of what is
// reduced for output k; a block each.
template <typename Op, typename T>
TANDEM_GPU_INLINE void Rows(const void* x, void* partial, int64_t kept, int64_t reduced,
                            int64_t pieces, int64_t length, const Grid& kept_grid,
                            const Grid& reduced_grid) {
  using C = typename GpuNumber<T>::Compute;
  TANDEM_GPU_SHARED(C, folded, kThreads);
  const T* const from = static_cast<const T*>(x);
  C* const to = static_cast<C*>(partial);
  for (int64_t at = GpuBlock(); at < kept * pieces; at += GpuBlocks()) {
    const T* const row = from + kept_grid.Offset(at % kept);
    const int64_t begin = at / kept * length;
    const int64_t end = begin + length < reduced ? begin + length : reduced;
    TANDEM_GPU_PHASE(t) {
      C sum = Op::template Neutral<C>();
      for (int64_t i = begin + t; i < end; i += GpuThreads()) {
        sum = Op::Combine(sum, GpuNumber<T>::Load(row[reduced_grid.Offset(i)]));
      }
      folded[t] = sum;
    }
    for (int half = GpuThreads() / 2; half > 0; half /= 2) {
      TANDEM_GPU_PHASE(t) {
        if (t < half) folded[t] = Op::Combine(folded[t], folded[t + half]);
      }
    }
    TANDEM_GPU_PHASE(t) {
      if (t == 0) to[at] = folded[0];
    }
  }
}

// The same, a thread each: for outputs whose elements lie side by side.
template <typename Op, typename T>
TANDEM_GPU_INLINE void Columns(const void* x, void* partial, int64_t kept, int64_t reduced,
                               int64_t pieces, int64_t length, const Grid& kept_grid,
                               const Grid& reduced_grid) {
  using C = typename GpuNumber<T>::Compute;
  const T* const from = static_cast<const T*>(x);
  C* const to = static_cast<C*>(partial);
  TANDEM_GPU_FOR(at, kept * pieces) {
    const T* const column = from + kept_grid.Offset(at % kept);
    const int64_t begin = at / kept * length;
    const int64_t end = begin + length < reduced ? begin + length : reduced;
    C sum = Op::template Neutral<C>();
    for (int64_t i = begin; i < end; ++i) {
      sum = Op::Combine(sum, GpuNumber<T>::Load(column[reduced_grid.Offset(i)]));
    }
    to[at] = sum;
  }
}

// y[k] of its pieces, divided by `divisor`; integers are not divided.
template <typename Op, typename T>
TANDEM_GPU_INLINE void Finish(const void* partial, void* y, int64_t kept, int64_t pieces,
                              double divisor) {
  using C = typename GpuNumber<T>::Compute;
  const C* const from = static_cast<const C*>(partial);
  T* const to = static_cast<T*>(y);
  TANDEM_GPU_FOR(k, kept) {
    C sum = Op::template Neutral<C>();
    for (int64_t piece = 0; piece < pieces; ++piece) {
      sum = Op::Combine(sum, from[piece * kept + k]);
    }
    if constexpr (std::is_floating_point_v<C>) sum /= static_cast<C>(divisor);
    to[k] = GpuNumber<T>::Round(sum);
  }
}

}  // namespace

#define TANDEM_GPU_REDUCTION_ARGUMENTS                                                           \
  const void *x, void *partial, int64_t kept, int64_t reduced, int64_t pieces, int64_t length,   \
      int64_t kd1, int64_t kd2, int64_t ks0, int64_t ks1, int64_t ks2, int64_t rd1, int64_t rd2, \
      int64_t rs0, int64_t rs1, int64_t rs2

#define TANDEM_GPU_REDUCTION(name, type_name, Type)                                           \
  TANDEM_GPU_BLOCKS(name##Rows_##type_name, TANDEM_GPU_REDUCTION_ARGUMENTS) {                 \
    Rows<name, Type>(x, partial, kept, reduced, pieces, length, {kd1, kd2, ks0, ks1, ks2},    \
                     {rd1, rd2, rs0, rs1, rs2});                                              \
  }                                                                                           \
  TANDEM_GPU_THREADS(name##Columns_##type_name, TANDEM_GPU_REDUCTION_ARGUMENTS) {             \
    Columns<name, Type>(x, partial, kept, reduced, pieces, length, {kd1, kd2, ks0, ks1, ks2}, \
                        {rd1, rd2, rs0, rs1, rs2});                                           \
  }                                                                                           \
  TANDEM_GPU_THREADS(name##Finish_##type_name, const void* partial, void* y, int64_t kept,    \
                     int64_t pieces, double divisor) {                                        \
    Finish<name, Type>(partial, y, kept, pieces, divisor);                                    \
  }

#define TANDEM_GPU_REDUCTIONS(name)                 \
  TANDEM_GPU_REDUCTION(name, float32, float)        \
  TANDEM_GPU_REDUCTION(name, float64, double)       \
  TANDEM_GPU_REDUCTION(name, float16, GpuFloat16)   \
  TANDEM_GPU_REDUCTION(name, bfloat16, GpuBfloat16) \
  TANDEM_GPU_REDUCTION(name, int32, int32_t)        \
  TANDEM_GPU_REDUCTION(name, int64, int64_t)

TANDEM_GPU_REDUCTIONS(Sum)
TANDEM_GPU_REDUCTIONS(Prod)
TANDEM_GPU_REDUCTIONS(Max)
TANDEM_GPU_REDUCTIONS(Min)

}  // namespace tandem::math
