#include "kernels/nn/vector_math.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "Eigen/Core"
#include "unsupported/Eigen/SpecialFunctions"

namespace tandem {
namespace {

namespace ei = Eigen::internal;
using Packet = ei::packet_traits<float>::type;
constexpr int kPacket = ei::packet_traits<float>::size;

// The end of an array goes through a packet too, filled up with ones. (Eigen's own loops would take
// scalar functions there and before the first aligned address, whose last bits differ.)
template <typename F>
void ForEachPacket(const float* x, float* y, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kPacket <= n; i += kPacket) ei::pstoreu(y + i, f(ei::ploadu<Packet>(x + i)));
  if (i == n) return;
  float rest[kPacket];
  std::fill(rest, rest + kPacket, 1.0f);
  std::memcpy(rest, x + i, static_cast<size_t>(n - i) * sizeof(float));
  ei::pstoreu(rest, f(ei::ploadu<Packet>(rest)));
  std::memcpy(y + i, rest, static_cast<size_t>(n - i) * sizeof(float));
}

template <typename F>
void ForEach(const double* x, double* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

constexpr int kLanes = 16;

// The sum of term(i).
template <typename T, typename Term>
T SumOf(int64_t n, Term term) {
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += term(i + l);
  }
  for (int l = 0; i < n; ++i, ++l) lanes[l] += term(i);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

template <typename T>
T MaxOf(const T* x, int64_t n) {
  T lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
  }
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

}  // namespace

void Exp(const float* x, float* y, int64_t n) {
  ForEachPacket(x, y, n, [](Packet p) { return ei::pexp(p); });
}
void Exp(const double* x, double* y, int64_t n) {
  ForEach(x, y, n, [](double v) { return std::exp(v); });
}

void Expm1(const float* x, float* y, int64_t n) {
  ForEachPacket(x, y, n, [](Packet p) { return ei::generic_expm1(p); });
}
void Expm1(const double* x, double* y, int64_t n) {
  ForEach(x, y, n, [](double v) { return std::expm1(v); });
}

void Log1p(const float* x, float* y, int64_t n) {
  ForEachPacket(x, y, n, [](Packet p) { return ei::generic_plog1p(p); });
}
void Log1p(const double* x, double* y, int64_t n) {
  ForEach(x, y, n, [](double v) { return std::log1p(v); });
}

void Tanh(const float* x, float* y, int64_t n) {
  ForEachPacket(x, y, n, [](Packet p) { return ei::ptanh(p); });
}
void Tanh(const double* x, double* y, int64_t n) {
  ForEach(x, y, n, [](double v) { return std::tanh(v); });
}

void Logistic(const float* x, float* y, int64_t n) {
  const ei::scalar_logistic_op<float> logistic;
  ForEachPacket(x, y, n, [&](Packet p) { return logistic.packetOp(p); });
}
void Logistic(const double* x, double* y, int64_t n) {
  ForEach(x, y, n, [](double v) { return 1.0 / (1.0 + std::exp(-v)); });
}

void Erf(const float* x, float* y, int64_t n) {
  const ei::scalar_erf_op<float> erf;
  ForEachPacket(x, y, n, [&](Packet p) { return erf.packetOp(p); });
}
void Erf(const double* x, double* y, int64_t n) {
  ForEach(x, y, n, [](double v) { return std::erf(v); });
}

float Sum(const float* x, int64_t n) {
  return SumOf<float>(n, [=](int64_t i) { return x[i]; });
}
double Sum(const double* x, int64_t n) {
  return SumOf<double>(n, [=](int64_t i) { return x[i]; });
}
float Dot(const float* x, const float* y, int64_t n) {
  return SumOf<float>(n, [=](int64_t i) { return x[i] * y[i]; });
}
double Dot(const double* x, const double* y, int64_t n) {
  return SumOf<double>(n, [=](int64_t i) { return x[i] * y[i]; });
}
float Dot3(const float* x, const float* y, const float* z, int64_t n) {
  return SumOf<float>(n, [=](int64_t i) { return x[i] * y[i] * z[i]; });
}
double Dot3(const double* x, const double* y, const double* z, int64_t n) {
  return SumOf<double>(n, [=](int64_t i) { return x[i] * y[i] * z[i]; });
}
float Max(const float* x, int64_t n) { return MaxOf(x, n); }
double Max(const double* x, int64_t n) { return MaxOf(x, n); }

}  // namespace tandem
