// log(1 + x) of complex numbers without loss of digits near 0: for .cc files only.
#ifndef TANDEM_KERNELS_MATH_COMPLEX_LOG1P_H_
#define TANDEM_KERNELS_MATH_COMPLEX_LOG1P_H_

#include <cmath>
#include <complex>
#include <limits>

namespace tandem::math {

// The modulus through log1p(|1 + x|² - 1).
template <typename T>
std::complex<T> Log1pOf(std::complex<T> x) {
  const T a = x.real();
  const T b = x.imag();
  const std::complex<T> one_more(1 + a, b);
  // Zero has no direction.
  if (one_more == T(0)) return {std::log(T(0)), std::numeric_limits<T>::quiet_NaN()};
  // Far from zero the squares lose nothing, and may overflow.
  if (std::abs(a) > T(0.5) || std::abs(b) > T(0.5)) return std::log(one_more);
  return {std::log1p(a * (a + 2) + b * b) / 2, std::arg(one_more)};
}

}  // namespace tandem::math

#endif  // TANDEM_KERNELS_MATH_COMPLEX_LOG1P_H_
