// The code of optimizer_gpu.cc: the rules of gradient_descent.cc, momentum.cc and adam.cc, a launch
// for each variable. Scalars lie on the device.
#include <cmath>

#include "core/kernel/gpu_code.h"
#include "core/kernel/gpu_number.h"

namespace tandem::state {
namespace {

// Up to three variables before and after, which may be the same memory, and up to six scalars.
template <typename T>
struct Update {
  const T* before[3];
  T* after[3];
  const T* gradient;
  const T* scalars[6];

  using C = typename GpuNumber<T>::Compute;
  TANDEM_GPU_INLINE C Before(int variable, int64_t i) const {
    return GpuNumber<T>::Load(before[variable][i]);
  }
  TANDEM_GPU_INLINE C Gradient(int64_t i) const { return GpuNumber<T>::Load(gradient[i]); }
  TANDEM_GPU_INLINE C Scalar(int i) const { return GpuNumber<T>::Load(*scalars[i]); }
  TANDEM_GPU_INLINE void Set(int variable, int64_t i, C value) const {
    after[variable][i] = GpuNumber<T>::Round(value);
  }
};

template <typename T>
TANDEM_GPU_INLINE void GradientDescent(const Update<T>& u, int64_t n, bool) {
  const auto rate = u.Scalar(0);
  TANDEM_GPU_FOR(i, n) u.Set(0, i, u.Before(0, i) - rate * u.Gradient(i));
}

template <typename T>
TANDEM_GPU_INLINE void Momentum(const Update<T>& u, int64_t n, bool nesterov) {
  const auto rate = u.Scalar(0);
  const auto momentum = u.Scalar(1);
  TANDEM_GPU_FOR(i, n) {
    const auto g = u.Gradient(i);
    const auto a = u.Before(1, i) * momentum + g;
    u.Set(0, i, u.Before(0, i) - (nesterov ? g * rate + a * momentum * rate : a * rate));
    u.Set(1, i, a);
  }
}

template <typename T>
TANDEM_GPU_INLINE void KerasMomentum(const Update<T>& u, int64_t n, bool nesterov) {
  const auto rate = u.Scalar(0);
  const auto momentum = u.Scalar(1);
  TANDEM_GPU_FOR(i, n) {
    const auto step = u.Gradient(i) * rate;
    const auto a = u.Before(1, i) * momentum - step;
    u.Set(0, i, u.Before(0, i) + (nesterov ? a * momentum - step : a));
    u.Set(1, i, a);
  }
}

// Scalars: beta1_power, beta2_power, lr, beta1, beta2, epsilon.
template <typename T>
TANDEM_GPU_INLINE void Adam(const Update<T>& u, int64_t n, bool nesterov) {
  using C = typename GpuNumber<T>::Compute;
  const C alpha = u.Scalar(2) * std::sqrt(C(1) - u.Scalar(1)) / (C(1) - u.Scalar(0));
  const C rest1 = C(1) - u.Scalar(3);
  const C rest2 = C(1) - u.Scalar(4);
  const C beta1 = u.Scalar(3);
  const C epsilon = u.Scalar(5);
  TANDEM_GPU_FOR(i, n) {
    const C g = u.Gradient(i);
    const C m = u.Before(1, i);
    const C v = u.Before(2, i);
    const C first = m + (g - m) * rest1;
    const C second = v + (g * g - v) * rest2;
    const C step = nesterov ? (g * rest1 + first * beta1) * alpha : first * alpha;
    u.Set(0, i, u.Before(0, i) - step / (std::sqrt(second) + epsilon));
    u.Set(1, i, first);
    u.Set(2, i, second);
  }
}

}  // namespace

#define TANDEM_GPU_UPDATE(Rule, type_name, T)                                                    \
  TANDEM_GPU_THREADS(Apply##Rule##_##type_name, const void* before0, const void* before1,        \
                     const void* before2, void* after0, void* after1, void* after2,              \
                     const void* gradient, const void* s0, const void* s1, const void* s2,       \
                     const void* s3, const void* s4, const void* s5, int64_t n, bool nesterov) { \
    Rule<T>({{static_cast<const T*>(before0), static_cast<const T*>(before1),                    \
              static_cast<const T*>(before2)},                                                   \
             {static_cast<T*>(after0), static_cast<T*>(after1), static_cast<T*>(after2)},        \
             static_cast<const T*>(gradient),                                                    \
             {static_cast<const T*>(s0), static_cast<const T*>(s1), static_cast<const T*>(s2),   \
              static_cast<const T*>(s3), static_cast<const T*>(s4), static_cast<const T*>(s5)}}, \
            n, nesterov);                                                                        \
  }
#define TANDEM_GPU_UPDATES(Rule)               \
  TANDEM_GPU_UPDATE(Rule, float32, float)      \
  TANDEM_GPU_UPDATE(Rule, float64, double)     \
  TANDEM_GPU_UPDATE(Rule, float16, GpuFloat16) \
  TANDEM_GPU_UPDATE(Rule, bfloat16, GpuBfloat16)

TANDEM_GPU_UPDATES(GradientDescent)
TANDEM_GPU_UPDATES(Momentum)
TANDEM_GPU_UPDATES(KerasMomentum)
TANDEM_GPU_UPDATES(Adam)

}  // namespace tandem::state
