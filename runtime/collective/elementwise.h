// The arithmetic of reductions, element by element: what every collective, between devices or
// between processes, adds with, so that all give the same bits for the same order.
#ifndef TANDEM_RUNTIME_COLLECTIVE_ELEMENTWISE_H_
#define TANDEM_RUNTIME_COLLECTIVE_ELEMENTWISE_H_

#include <type_traits>

#include "core/tensor/float16.h"

namespace tandem::elementwise {

struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Product {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};
// What is not a number stays so, whichever member brings it.
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};

// Half types are reduced as they are stored, rounding after each step, as members on different
// hosts do.
template <typename T, typename Op>
T Apply(Op op, T a, T b) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return T(op(static_cast<float>(a), static_cast<float>(b)));
  } else {
    return op(a, b);
  }
}

template <typename T, typename N>
T DividedBy(T value, N divisor) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return T(static_cast<float>(value) / static_cast<float>(divisor));
  } else {
    return static_cast<T>(value / static_cast<T>(divisor));
  }
}

}  // namespace tandem::elementwise

#endif  // TANDEM_RUNTIME_COLLECTIVE_ELEMENTWISE_H_
