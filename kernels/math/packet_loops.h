// Loops out of Eigen's vector code for exp, log, tanh and their kin: for .cc files only.
//
// Eigen's own assignment would send elements before the first aligned one and after the last full
// vector through scalar code, whose last bits differ. Here all go through the vector code.
#ifndef TANDEM_KERNELS_MATH_PACKET_LOOPS_H_
#define TANDEM_KERNELS_MATH_PACKET_LOOPS_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "kernels/math/loops.h"

namespace tandem::math {

// F is a functor of Eigen's for T (scalar_exp_op<float>). Where it has no vector code the scalar
// code is used for all elements.
template <typename F, typename T>
void PacketUnary(const void* x, void* y, int64_t n) {
  const T* const from = static_cast<const T*>(x);
  T* const to = static_cast<T*>(y);
  const F f;
  if constexpr (Eigen::internal::functor_traits<F>::PacketAccess) {
    using Packet = typename Eigen::internal::packet_traits<T>::type;
    constexpr int kSize = Eigen::internal::packet_traits<T>::size;
    int64_t i = 0;
    for (; i + kSize <= n; i += kSize) {
      Eigen::internal::pstoreu(to + i, f.packetOp(Eigen::internal::ploadu<Packet>(from + i)));
    }
    if (i == n) return;
    T rest[kSize];
    for (int64_t j = 0; j < kSize; ++j) rest[j] = i + j < n ? from[i + j] : from[n - 1];
    Eigen::internal::pstoreu(rest, f.packetOp(Eigen::internal::ploadu<Packet>(rest)));
    for (int64_t j = 0; i + j < n; ++j) to[i + j] = rest[j];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = f(from[i]);
  }
}

template <typename F, typename T>
bool PacketBinary(const void* x, const void* y, void* z, int64_t n) {
  using Packet = typename Eigen::internal::packet_traits<T>::type;
  constexpr int kSize = Eigen::internal::packet_traits<T>::size;
  const T* const a = static_cast<const T*>(x);
  const T* const b = static_cast<const T*>(y);
  T* const to = static_cast<T*>(z);
  const F f;
  int64_t i = 0;
  for (; i + kSize <= n; i += kSize) {
    Eigen::internal::pstoreu(to + i, f.packetOp(Eigen::internal::ploadu<Packet>(a + i),
                                                Eigen::internal::ploadu<Packet>(b + i)));
  }
  if (i == n) return true;
  T in[2][kSize];
  for (int64_t j = 0; j < kSize; ++j) {
    in[0][j] = a[i + j < n ? i + j : n - 1];
    in[1][j] = b[i + j < n ? i + j : n - 1];
  }
  Eigen::internal::pstoreu(in[0], f.packetOp(Eigen::internal::ploadu<Packet>(in[0]),
                                             Eigen::internal::ploadu<Packet>(in[1])));
  for (int64_t j = 0; i + j < n; ++j) to[i + j] = in[0][j];
  return true;
}

// F<float> for float16, bfloat16 and float, F<double> for double.
template <template <typename> class F>
std::vector<TypedUnaryLoop> RealPacketLoops() {
  return {{kFloat32, PacketUnary<F<float>, float>},
          {kFloat64, PacketUnary<F<double>, double>},
          {kFloat16, HalfUnary<Float16, PacketUnary<F<float>, float>, float>},
          {kBfloat16, HalfUnary<Bfloat16, PacketUnary<F<float>, float>, float>}};
}

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_PACKET_LOOPS_H_
