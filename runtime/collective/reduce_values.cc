#include "runtime/collective/reduce_values.h"

#include "runtime/collective/elementwise.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tandem::collective {
namespace {

using elementwise::Apply;

// The three cases of what may be the same memory, so that the compiler knows and makes vector code.
template <typename T, typename Op>
void Loop(Op op, const T* a, const T* b, T* to, int64_t count) {
  if (to == a) {
    T* const __restrict own = to;
    const T* const __restrict other = b;
    for (int64_t i = 0; i < count; ++i) own[i] = Apply(op, own[i], other[i]);
  } else if (to == b) {
    T* const __restrict own = to;
    const T* const __restrict other = a;
    for (int64_t i = 0; i < count; ++i) own[i] = Apply(op, other[i], own[i]);
  } else {
    const T* const __restrict first = a;
    const T* const __restrict second = b;
    T* const __restrict result = to;
    for (int64_t i = 0; i < count; ++i) result[i] = Apply(op, first[i], second[i]);
  }
}

#if defined(__F16C__) && defined(__AVX2__)
// g++ makes no vector code of the conversions. The same rounding, eight at a time; the rest is the
// caller's. Gives how many were done.
int64_t AddHalves(const Float16* a, const Float16* b, Float16* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 x = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i)));
    const __m256 y = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_add_ps(x, y), _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}
#else
int64_t AddHalves(const Float16*, const Float16*, Float16*, int64_t) { return 0; }
#endif

template <typename T>
void Typed(Reduction reduction, const void* a, const void* b, void* to, int64_t count) {
  const T* first = static_cast<const T*>(a);
  const T* second = static_cast<const T*>(b);
  T* result = static_cast<T*>(to);
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      if constexpr (std::is_same_v<T, Float16>) {
        const int64_t done = AddHalves(first, second, result, count);
        first += done;
        second += done;
        result += done;
        count -= done;
      }
      return Loop(elementwise::Sum(), first, second, result, count);
    case Reduction::kMin:
      return Loop(elementwise::Min(), first, second, result, count);
    case Reduction::kMax:
      return Loop(elementwise::Max(), first, second, result, count);
    case Reduction::kProduct:
      return Loop(elementwise::Product(), first, second, result, count);
  }
}

template <typename T>
void Divide(void* values, int64_t divisor, int64_t count) {
  T* const data = static_cast<T*>(values);
  for (int64_t i = 0; i < count; ++i) data[i] = elementwise::DividedBy(data[i], divisor);
}

}  // namespace

bool IsReducible(DataType dtype) {
  switch (dtype) {
    case kFloat32:
    case kFloat64:
    case kFloat16:
    case kBfloat16:
    case kInt32:
    case kInt64:
      return true;
    default:
      return false;
  }
}

void ReduceValues(DataType dtype, Reduction reduction, const void* a, const void* b, void* to,
                  int64_t count) {
  switch (dtype) {
    case kFloat32:
      return Typed<float>(reduction, a, b, to, count);
    case kFloat64:
      return Typed<double>(reduction, a, b, to, count);
    case kFloat16:
      return Typed<Float16>(reduction, a, b, to, count);
    case kBfloat16:
      return Typed<Bfloat16>(reduction, a, b, to, count);
    case kInt32:
      return Typed<int32_t>(reduction, a, b, to, count);
    case kInt64:
      return Typed<int64_t>(reduction, a, b, to, count);
    default:
      return;
  }
}

void DivideValues(DataType dtype, void* values, int64_t divisor, int64_t count) {
  switch (dtype) {
    case kFloat32:
      return Divide<float>(values, divisor, count);
    case kFloat64:
      return Divide<double>(values, divisor, count);
    case kFloat16:
      return Divide<Float16>(values, divisor, count);
    case kBfloat16:
      return Divide<Bfloat16>(values, divisor, count);
    case kInt32:
      return Divide<int32_t>(values, divisor, count);
    case kInt64:
      return Divide<int64_t>(values, divisor, count);
    default:
      return;
  }
}

}  // namespace tandem::collective
