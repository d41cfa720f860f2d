// Formulas of reductions, for the CPU's loops (math/reduce_loops.h) and for code for GPUs alike.
#ifndef TANDEM_KERNELS_MATH_REDUCTION_FORMULAS_H_
#define TANDEM_KERNELS_MATH_REDUCTION_FORMULAS_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/math/formulas.h"

namespace tandem::math {

// What does not change a result, how two are combined, and what is made of the last one.

// Integers wrap around.
struct Sum {
  template <typename T>
  TANDEM_FORMULA T Neutral() {
    return T(0);
  }
  template <typename T>
  TANDEM_FORMULA T Combine(T acc, T x) {
    return Add::Apply(acc, x);
  }
  template <typename T>
  TANDEM_FORMULA T Finish(T acc, int64_t) {
    return acc;
  }
};

struct Prod {
  template <typename T>
  TANDEM_FORMULA T Neutral() {
    return T(1);
  }
  template <typename T>
  TANDEM_FORMULA T Combine(T acc, T x) {
    return Mul::Apply(acc, x);
  }
  template <typename T>
  TANDEM_FORMULA T Finish(T acc, int64_t) {
    return acc;
  }
};

// A NaN wins.
struct Max {
  template <typename T>
  TANDEM_FORMULA T Neutral() {
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::lowest();
  }
  template <typename T>
  TANDEM_FORMULA T Combine(T acc, T x) {
    return Maximum::Apply(acc, x);
  }
  template <typename T>
  TANDEM_FORMULA T Finish(T acc, int64_t) {
    return acc;
  }
};

struct Min {
  template <typename T>
  TANDEM_FORMULA T Neutral() {
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
    return std::numeric_limits<T>::max();
  }
  template <typename T>
  TANDEM_FORMULA T Combine(T acc, T x) {
    return Minimum::Apply(acc, x);
  }
  template <typename T>
  TANDEM_FORMULA T Finish(T acc, int64_t) {
    return acc;
  }
};

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_REDUCTION_FORMULAS_H_
