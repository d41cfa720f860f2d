// The code of softmax_gpu.cc: a block for each row of logits.
#include <cmath>
#include <limits>

#include "core/kernel/gpu_code.h"
#include "core/kernel/gpu_number.h"

namespace tandem {
namespace {

// Of one block's threads; a power of two.
constexpr int kThreads = 128;

// Folds what the block's threads have left in `folded` into folded[0].
#define TANDEM_GPU_FOLD(folded, expression)                \
  for (int half = GpuThreads() / 2; half > 0; half /= 2) { \
    TANDEM_GPU_PHASE(t) {                                  \
      if (t < half) {                                      \
        const auto a = folded[t];                          \
        const auto b = folded[t + half];                   \
        folded[t] = expression;                            \
      }                                                    \
    }                                                      \
  }

// The largest logit of a row and the sum of exp(logit - largest), in shared[0] and sums[0].
template <typename T, typename C>
TANDEM_GPU_INLINE void FoldRow(const T* row, int64_t columns, C* largest, C* sums) {
  TANDEM_GPU_PHASE(t) {
    C most = -std::numeric_limits<C>::infinity();
    for (int64_t j = t; j < columns; j += GpuThreads()) {
      const C x = GpuNumber<T>::Load(row[j]);
      most = x > most || x != x ? x : most;
    }
    largest[t] = most;
  }
  TANDEM_GPU_FOLD(largest, a > b || a != a ? a : b)
  TANDEM_GPU_PHASE(t) {
    C sum = 0;
    for (int64_t j = t; j < columns; j += GpuThreads()) {
      sum += std::exp(GpuNumber<T>::Load(row[j]) - largest[0]);
    }
    sums[t] = sum;
  }
  TANDEM_GPU_FOLD(sums, a + b)
}

template <typename T>
TANDEM_GPU_INLINE void Softmax(const void* x, void* y, int64_t rows, int64_t columns, bool log) {
  using C = typename GpuNumber<T>::Compute;
  TANDEM_GPU_SHARED(C, largest, kThreads);
  TANDEM_GPU_SHARED(C, sums, kThreads);
  for (int64_t r = GpuBlock(); r < rows; r += GpuBlocks()) {
    const T* const row = static_cast<const T*>(x) + r * columns;
    T* const to = static_cast<T*>(y) + r * columns;
    FoldRow(row, columns, largest, sums);
    TANDEM_GPU_PHASE(t) {
      const C log_sum = std::log(sums[0]);
      const C scale = C(1) / sums[0];
      for (int64_t j = t; j < columns; j += GpuThreads()) {
        const C shifted = GpuNumber<T>::Load(row[j]) - largest[0];
        to[j] = GpuNumber<T>::Round(log ? shifted - log_sum : std::exp(shifted) * scale);
      }
    }
  }
}

// loss = log(sum of exps) - shifted[label], backprop = softmax - 1 at the label. Not numbers, both,
// where the label is no class.
template <typename T, typename L>
TANDEM_GPU_INLINE void SparseCrossEntropy(const void* x, const void* labels, void* loss,
                                          void* backprop, int64_t rows, int64_t columns) {
  using C = typename GpuNumber<T>::Compute;
  TANDEM_GPU_SHARED(C, largest, kThreads);
  TANDEM_GPU_SHARED(C, sums, kThreads);
  for (int64_t r = GpuBlock(); r < rows; r += GpuBlocks()) {
    const T* const row = static_cast<const T*>(x) + r * columns;
    T* const to = static_cast<T*>(backprop) + r * columns;
    const int64_t label = static_cast<const L*>(labels)[r];
    const bool is_class = label >= 0 && label < columns;
    FoldRow(row, columns, largest, sums);
    TANDEM_GPU_PHASE(t) {
      const C none = std::numeric_limits<C>::quiet_NaN();
      const C scale = C(1) / sums[0];
      for (int64_t j = t; j < columns; j += GpuThreads()) {
        const C softmax = std::exp(GpuNumber<T>::Load(row[j]) - largest[0]) * scale;
        to[j] = GpuNumber<T>::Round(is_class ? softmax - (j == label ? C(1) : C(0)) : none);
      }
      if (t == 0) {
        const C shifted = is_class ? GpuNumber<T>::Load(row[label]) - largest[0] : none;
        static_cast<T*>(loss)[r] = GpuNumber<T>::Round(std::log(sums[0]) - shifted);
      }
    }
  }
}

// loss = sum(label (log(sum of exps) - shifted)), backprop = softmax - label.
template <typename T>
TANDEM_GPU_INLINE void CrossEntropy(const void* x, const void* labels, void* loss, void* backprop,
                                    int64_t rows, int64_t columns, int64_t x_stride,
                                    int64_t labels_stride) {
  using C = typename GpuNumber<T>::Compute;
  TANDEM_GPU_SHARED(C, largest, kThreads);
  TANDEM_GPU_SHARED(C, sums, kThreads);
  TANDEM_GPU_SHARED(C, terms, kThreads);
  for (int64_t r = GpuBlock(); r < rows; r += GpuBlocks()) {
    const T* const row = static_cast<const T*>(x) + r * x_stride;
    const T* const wanted = static_cast<const T*>(labels) + r * labels_stride;
    T* const to = static_cast<T*>(backprop) + r * columns;
    FoldRow(row, columns, largest, sums);
    TANDEM_GPU_PHASE(t) {
      const C log_sum = std::log(sums[0]);
      const C scale = C(1) / sums[0];
      C term = 0;
      for (int64_t j = t; j < columns; j += GpuThreads()) {
        const C shifted = GpuNumber<T>::Load(row[j]) - largest[0];
        const C label = GpuNumber<T>::Load(wanted[j]);
        term += label * (log_sum - shifted);
        to[j] = GpuNumber<T>::Round(std::exp(shifted) * scale - label);
      }
      terms[t] = term;
    }
    TANDEM_GPU_FOLD(terms, a + b)
    TANDEM_GPU_PHASE(t) {
      if (t == 0) static_cast<T*>(loss)[r] = GpuNumber<T>::Round(terms[0]);
    }
  }
}

}  // namespace

#define TANDEM_GPU_SOFTMAX(type_name, Type)                                                        \
  TANDEM_GPU_BLOCKS(Softmax_##type_name, const void* x, void* y, int64_t rows, int64_t columns,    \
                    bool log) {                                                                    \
    Softmax<Type>(x, y, rows, columns, log);                                                       \
  }                                                                                                \
  TANDEM_GPU_BLOCKS(SparseCrossEntropy_##type_name##_int32, const void* x, const void* labels,     \
                    void* loss, void* backprop, int64_t rows, int64_t columns, int64_t, int64_t) { \
    SparseCrossEntropy<Type, int32_t>(x, labels, loss, backprop, rows, columns);                   \
  }                                                                                                \
  TANDEM_GPU_BLOCKS(SparseCrossEntropy_##type_name##_int64, const void* x, const void* labels,     \
                    void* loss, void* backprop, int64_t rows, int64_t columns, int64_t, int64_t) { \
    SparseCrossEntropy<Type, int64_t>(x, labels, loss, backprop, rows, columns);                   \
  }                                                                                                \
  TANDEM_GPU_BLOCKS(CrossEntropy_##type_name, const void* x, const void* labels, void* loss,       \
                    void* backprop, int64_t rows, int64_t columns, int64_t x_stride,               \
                    int64_t labels_stride) {                                                       \
    CrossEntropy<Type>(x, labels, loss, backprop, rows, columns, x_stride, labels_stride);         \
  }

TANDEM_GPU_SOFTMAX(float32, float)
TANDEM_GPU_SOFTMAX(float64, double)
TANDEM_GPU_SOFTMAX(float16, GpuFloat16)
TANDEM_GPU_SOFTMAX(bfloat16, GpuBfloat16)

}  // namespace tandem
