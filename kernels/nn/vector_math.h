// Functions of whole arrays, for kernels that compute in float: exponentials and the like, and
// sums.
//
// Elementwise functions give an element the same bits wherever it lies: in the middle of an array
// or at its end, at whatever address. Sums add in an order that depends on the length alone. So
// results depend neither on how a loop was cut for several threads nor on how memory was aligned.
//
// `x` and `y` may be the same array, but not overlap otherwise. The forms for double call the C
// library, element by element.
#ifndef TANDEM_KERNELS_NN_VECTOR_MATH_H_
#define TANDEM_KERNELS_NN_VECTOR_MATH_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/tensor/float16.h"

namespace tandem {

void Exp(const float* x, float* y, int64_t n);
void Exp(const double* x, double* y, int64_t n);
// exp(x) - 1 without loss of digits near 0.
void Expm1(const float* x, float* y, int64_t n);
void Expm1(const double* x, double* y, int64_t n);
// log(1 + x), likewise.
void Log1p(const float* x, float* y, int64_t n);
void Log1p(const double* x, double* y, int64_t n);
void Tanh(const float* x, float* y, int64_t n);
void Tanh(const double* x, double* y, int64_t n);
// 1 / (1 + exp(-x)).
void Logistic(const float* x, float* y, int64_t n);
void Logistic(const double* x, double* y, int64_t n);
void Erf(const float* x, float* y, int64_t n);
void Erf(const double* x, double* y, int64_t n);

float Sum(const float* x, int64_t n);
double Sum(const double* x, int64_t n);
// The sums of x[i] y[i], and of x[i] y[i] z[i].
float Dot(const float* x, const float* y, int64_t n);
double Dot(const double* x, const double* y, int64_t n);
float Dot3(const float* x, const float* y, const float* z, int64_t n);
double Dot3(const double* x, const double* y, const double* z, int64_t n);
// The largest element that is a number; minus infinity when there is none.
float Max(const float* x, int64_t n);
double Max(const double* x, int64_t n);

// The type in which numbers of type T are computed with: float for halves, else T.
template <typename T>
using ComputeType =
    std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>, float, T>;

template <typename T>
inline void ToCompute(const T* from, ComputeType<T>* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<ComputeType<T>>(from[i]);
}
template <typename T>
inline void FromCompute(const ComputeType<T>* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = T(from[i]);
}

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_VECTOR_MATH_H_
