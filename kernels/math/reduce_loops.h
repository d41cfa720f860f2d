// The loops of a Reducer, made from a formula: for .cc files only.
//
//   struct Sum {
//     template <typename T> static T Neutral() { return T(0); }
//     template <typename T> static T Combine(T acc, T x) { return acc + x; }
//     template <typename T> static T Finish(T acc, int64_t count) { return acc; }
//   };
//
// Optionally Map says what goes in for an element (L2Loss: its square).
#ifndef TANDEM_KERNELS_MATH_REDUCE_LOOPS_H_
#define TANDEM_KERNELS_MATH_REDUCE_LOOPS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/common/half.h"
#include "kernels/math/loops.h"
#include "kernels/math/reduce.h"

namespace tandem::math {

template <typename Op, typename T>
struct ReduceLoops {
  static T Mapped(T x) {
    if constexpr (requires { Op::Map(x); }) {
      return Op::Map(x);
    } else {
      return x;
    }
  }

  static void Clear(void* acc, int64_t n) {
    std::fill_n(static_cast<T*>(acc), n, Op::template Neutral<T>());
  }

  static void Accumulate(void* acc, const void* x, int64_t n) {
    T* const to = static_cast<T*>(acc);
    const T* const from = static_cast<const T*>(x);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = Op::Combine(to[i], Mapped(from[i]));
  }

  // Not worth inlining where a run ends.
  [[gnu::noinline]] static void Combine(void* acc, const void* other, int64_t n) {
    T* const to = static_cast<T*>(acc);
    const T* const from = static_cast<const T*>(other);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = Op::Combine(to[i], from[i]);
  }

  static void Run(void* acc, const void* x, int64_t n) {
    T& to = *static_cast<T*>(acc);
    to = Op::Combine(to, Total(static_cast<const T*>(x), n));
  }

  static void Finish(const void* acc, void* y, int64_t n, int64_t count) {
    const T* const from = static_cast<const T*>(acc);
    T* const to = static_cast<T*>(y);
    for (int64_t i = 0; i < n; ++i) to[i] = Op::Finish(from[i], count);
  }

 private:
  // Independent chains that vector instructions and the pipeline can work on at the same time.
  static constexpr int64_t kLanes = 256 / sizeof(T) < 64 ? 256 / sizeof(T) : 64;
  // Longer runs are halved, so that chains stay short.
  static constexpr int64_t kRun = 8192;

  static T Total(const T* x, int64_t n) {
    if (n <= kRun) return Block(x, n);
    const int64_t half = (n / 2 + kRun - 1) / kRun * kRun;
    return Op::Combine(Total(x, half), Total(x + half, n - half));
  }

  // Not inlined, so that the compiler does not unfold Total's recursion around it.
  [[gnu::noinline]] static T Block(const T* x, int64_t n) {
    T total = Op::template Neutral<T>();
    int64_t i = 0;
    if (n >= 2 * kLanes) {
      T lanes[kLanes];
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] = Mapped(x[j]);
      for (i = kLanes; i + kLanes <= n; i += kLanes) {
        for (int64_t j = 0; j < kLanes; ++j) lanes[j] = Op::Combine(lanes[j], Mapped(x[i + j]));
      }
      for (int64_t half = kLanes / 2; half > 0; half /= 2) Combine(lanes, lanes + half, half);
      total = lanes[0];
    }
    for (; i < n; ++i) total = Op::Combine(total, Mapped(x[i]));
    return total;
  }
};

// A half type through float.
template <typename Op, typename H>
struct HalfReduceLoops {
  using Loops = ReduceLoops<Op, float>;
  static void Accumulate(void* acc, const void* x, int64_t n) {
    float block[kHalfBlock];
    for (int64_t i = 0; i < n; i += kHalfBlock) {
      const int64_t size = std::min(kHalfBlock, n - i);
      ToFloat(static_cast<const H*>(x) + i, block, size);
      Loops::Accumulate(static_cast<float*>(acc) + i, block, size);
    }
  }
  static void Run(void* acc, const void* x, int64_t n) {
    float block[kHalfBlock];
    for (int64_t i = 0; i < n; i += kHalfBlock) {
      const int64_t size = std::min(kHalfBlock, n - i);
      ToFloat(static_cast<const H*>(x) + i, block, size);
      Loops::Run(acc, block, size);
    }
  }
  static void Finish(const void* acc, void* y, int64_t n, int64_t count) {
    float block[kHalfBlock];
    for (int64_t i = 0; i < n; i += kHalfBlock) {
      const int64_t size = std::min(kHalfBlock, n - i);
      Loops::Finish(static_cast<const float*>(acc) + i, block, size, count);
      FromFloat(block, static_cast<H*>(y) + i, size);
    }
  }
};

// `As` is the type whose loops serve T: itself, or an unsigned type of its width.
template <typename Op, typename T, typename As>
Reducer OneReducer() {
  if constexpr (kIsHalf<T>) {
    using Loops = ReduceLoops<Op, float>;
    using Half = HalfReduceLoops<Op, T>;
    return {DataTypeOf<T>(), kFloat32,       Loops::Clear, Half::Accumulate,
            Half::Run,       Loops::Combine, Half::Finish};
  } else {
    using Loops = ReduceLoops<Op, As>;
    return {DataTypeOf<T>(), DataTypeOf<T>(), Loops::Clear, Loops::Accumulate,
            Loops::Run,      Loops::Combine,  Loops::Finish};
  }
}

template <typename Op, typename... Ts>
std::vector<Reducer> Reducers() {
  return {OneReducer<Op, Ts, Ts>()...};
}
// For formulas to which a sign does not matter.
template <typename Op, typename... Ts>
std::vector<Reducer> SignlessReducers() {
  return {OneReducer<Op, Ts, Unsigned<Ts>>()...};
}

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_REDUCE_LOOPS_H_
