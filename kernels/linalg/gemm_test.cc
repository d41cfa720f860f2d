#include "kernels/linalg/gemm.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "core/tensor/float16.h"
#include "gtest/gtest.h"
#include "kernels/linalg/panel_gemm.h"

namespace tandem {
namespace {

// Runs a loop in pieces of one unit, last one first: what is computed may not depend on it.
class Chopped : public ParallelRunner {
 public:
  int parallelism() const override { return 3; }
  void For(int64_t total, double, Body body) override {
    for (int64_t i = total - 1; i >= 0; --i) body(i, i + 1);
  }
};

template <typename T>
std::vector<T> Values(int64_t n, unsigned seed) {
  std::vector<T> values(static_cast<size_t>(n));
  for (T& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = T(static_cast<float>(static_cast<int>(seed >> 24) - 128) / 16.0f);
  }
  return values;
}

template <typename T>
Gemm<T> Dense(int64_t m, int64_t n, int64_t k, bool ta, bool tb, const T* a, const T* b, T* c) {
  Gemm<T> g;
  g.m = m, g.n = n, g.k = k;
  g.a = a, g.lda = ta ? m : k, g.transpose_a = ta;
  g.b = b, g.ldb = tb ? k : n, g.transpose_b = tb;
  g.c = c, g.ldc = n;
  return g;
}

// The definition, in double.
template <typename T>
double Element(const Gemm<T>& g, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < g.k; ++k) {
    sum += static_cast<double>(g.transpose_a ? g.a[k * g.lda + i] : g.a[i * g.lda + k]) *
           static_cast<double>(g.transpose_b ? g.b[j * g.ldb + k] : g.b[k * g.ldb + j]);
  }
  return sum;
}

template <typename T>
void CompareWithDefinition(double tolerance) {
  InlineRunner parallel;
  for (const auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                               {1, 7, 5},
                               {5, 1, 9},
                               {4, 16, 8},
                               {6, 19, 33},
                               {65, 40, 17}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const std::vector<T> a = Values<T>(m * k, 1);
        const std::vector<T> b = Values<T>(k * n, 2);
        std::vector<T> c(static_cast<size_t>(m * n));
        Gemm<T> g = Dense<T>(m, n, k, ta, tb, a.data(), b.data(), c.data());
        ASSERT_TRUE(RunGemm(g, parallel).ok());
        const std::vector<T> once = c;
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            ASSERT_NEAR(static_cast<double>(c[static_cast<size_t>(i * n + j)]), Element(g, i, j),
                        tolerance)
                << m << "x" << n << "x" << k << " at " << i << "," << j;
          }
        }
        g.accumulate = true;
        ASSERT_TRUE(RunGemm(g, parallel).ok());
        for (size_t i = 0; i < c.size(); ++i) {
          ASSERT_NEAR(static_cast<double>(c[i]), 2 * static_cast<double>(once[i]), tolerance);
        }
      }
    }
  }
}

TEST(Gemm, IsTheProductForFloat) { CompareWithDefinition<float>(1e-2); }
TEST(Gemm, IsTheProductForDouble) { CompareWithDefinition<double>(1e-9); }
TEST(Gemm, IsTheProductForBfloat16) { CompareWithDefinition<Bfloat16>(16); }

TEST(Gemm, OverflowOfIntegersWrapsAround) {
  const int32_t big = std::numeric_limits<int32_t>::max();
  const std::vector<int32_t> a = {big, 2};
  const std::vector<int32_t> b = {2, 3};
  int32_t c = 0;
  InlineRunner parallel;
  ASSERT_TRUE(
      RunGemm(Dense<int32_t>(1, 1, 2, false, false, a.data(), b.data(), &c), parallel).ok());
  EXPECT_EQ(c, 4);  // (2^31 - 1) * 2 + 6 is 4 modulo 2^32.
  const std::vector<int16_t> s = {-32768, 300};
  int16_t d = 0;
  ASSERT_TRUE(
      RunGemm(Dense<int16_t>(1, 1, 2, false, false, s.data(), s.data(), &d), parallel).ok());
  EXPECT_EQ(d, static_cast<int16_t>(90000));
}

TEST(Gemm, ConjugatesComplexArguments) {
  using Complex = std::complex<float>;
  const std::vector<Complex> a = {{1, 2}, {3, -1}};
  const std::vector<Complex> b = {{0, 1}, {2, 2}};
  InlineRunner parallel;
  Complex c;
  Gemm<Complex> g = Dense<Complex>(1, 1, 2, false, true, a.data(), b.data(), &c);
  ASSERT_TRUE(RunGemm(g, parallel).ok());
  EXPECT_EQ(c, a[0] * b[0] + a[1] * b[1]);
  g.conjugate_b = true;
  ASSERT_TRUE(RunGemm(g, parallel).ok());
  EXPECT_EQ(c, a[0] * std::conj(b[0]) + a[1] * std::conj(b[1]));
  g.conjugate_b = false;
  g.conjugate_a = true;
  ASSERT_TRUE(RunGemm(g, parallel).ok());
  EXPECT_EQ(c, std::conj(a[0]) * b[0] + std::conj(a[1]) * b[1]);
}

TEST(Gemm, SumOfNothingIsZero) {
  float c[2] = {7, 7};
  InlineRunner parallel;
  ASSERT_TRUE(RunGemm(Dense<float>(1, 2, 0, false, false, nullptr, nullptr, c), parallel).ok());
  EXPECT_EQ(c[0], 0);
  EXPECT_EQ(c[1], 0);
}

TEST(Gemm, LeavesWhatLiesBetweenRowsAlone) {
  const std::vector<float> a = Values<float>(64, 3);
  std::vector<float> c(64, -1);
  InlineRunner parallel;
  Gemm<float> g = Dense<float>(4, 4, 4, false, false, a.data(), a.data(), c.data());
  g.lda = g.ldb = 5;
  g.ldc = 6;
  ASSERT_TRUE(RunGemm(g, parallel).ok());
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(c[static_cast<size_t>(i * 6 + 4)], -1);
    EXPECT_NEAR(c[static_cast<size_t>(i * 6 + 3)], Element(g, i, 3), 1e-3);
  }
}

// Bit for bit, for sizes that take the plain loop and such that take sgemm.
TEST(Gemm, ResultDoesNotDependOnAddresses) {
  InlineRunner parallel;
  for (const auto [m, n, k] :
       {std::array<int64_t, 3>{3, 5, 7}, {1, 70, 300}, {64, 1, 333}, {31, 33, 65}}) {
    for (const bool tb : {false, true}) {
      std::vector<float> a = Values<float>(m * k, 4);
      std::vector<float> b = Values<float>(k * n, 5);
      for (float& x : a) x *= 1.1f;
      std::vector<float> first;
      for (size_t offset = 0; offset < 8; ++offset) {
        std::vector<float> pa(a.size() + 8), pb(b.size() + 8);
        std::vector<float> pc(static_cast<size_t>(m * n) + 8);
        std::copy(a.begin(), a.end(), pa.begin() + static_cast<long>(offset));
        std::copy(b.begin(), b.end(), pb.begin() + static_cast<long>(7 - offset));
        ASSERT_TRUE(RunGemm(Dense<float>(m, n, k, false, tb, pa.data() + offset,
                                         pb.data() + 7 - offset, pc.data() + offset),
                            parallel)
                        .ok());
        std::vector<float> c(pc.begin() + static_cast<long>(offset),
                             pc.begin() + static_cast<long>(offset) + m * n);
        if (first.empty()) first = c;
        EXPECT_EQ(std::memcmp(c.data(), first.data(), c.size() * sizeof(float)), 0) << offset;
      }
    }
  }
}

// As by definition, and the same bits for a row however many there are.
TEST(PanelGemm, MultipliesAsDefined) {
  for (const auto [n, k] :
       {std::array<int64_t, 2>{1, 1}, {16, 5}, {19, 33}, {40, 256}, {33, 600}}) {
    for (const bool transposed : {false, true}) {
      const std::vector<float> a = Values<float>(23 * k, 6);
      const std::vector<float> b = Values<float>(k * n, 7);
      const Panels panels(b.data(), transposed ? k : n, transposed, k, n);
      EXPECT_EQ(panels.k(), k);
      EXPECT_EQ(panels.n(), n);
      std::vector<float> whole(static_cast<size_t>(23 * n));
      MultiplyPanels(a.data(), k, 23, panels, whole.data(), n, false);
      const Gemm<float> g =
          Dense<float>(23, n, k, false, transposed, a.data(), b.data(), whole.data());
      for (int64_t i = 0; i < 23 * n; ++i) {
        ASSERT_NEAR(whole[static_cast<size_t>(i)], Element(g, i / n, i % n), 2e-2) << n << " " << k;
      }
      for (int64_t m = 0; m < 23; ++m) {
        std::vector<float> part(whole.size() + 3, 0.5f);
        MultiplyPanels(a.data() + (23 - m) * k, k, m, panels, part.data(), n, false);
        EXPECT_EQ(std::memcmp(part.data(), whole.data() + (23 - m) * n,
                              static_cast<size_t>(m * n) * sizeof(float)),
                  0)
            << m;
        EXPECT_EQ(part[static_cast<size_t>(m * n)], 0.5f);
      }
      std::vector<float> twice = whole;
      MultiplyPanels(a.data(), k, 23, panels, twice.data(), n, true);
      for (size_t i = 0; i < whole.size(); ++i) {
        ASSERT_NEAR(twice[i], 2 * whole[i], 1e-3f * (1 + std::abs(whole[i])));
      }
    }
  }
}

// Where the stack pointer was when a signal came: handlers run there.
std::atomic<int> signals{0};
std::atomic<int> elsewhere{0};
std::atomic<const char*> stack_low{nullptr};
std::atomic<const char*> stack_high{nullptr};

void OnAlarm(int) {
  const char* const here = static_cast<const char*>(__builtin_frame_address(0));
  ++signals;
  if (here < stack_low || here > stack_high) ++elsewhere;
}

// oneDNN's kernel of this product uses the stack pointer for a buffer on the heap.
TEST(Gemm, ASignalDoesNotWriteIntoTheHeap) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void* stack = nullptr;
  size_t bytes = 0;
  pthread_attr_getstack(&attributes, &stack, &bytes);
  pthread_attr_destroy(&attributes);
  stack_low = static_cast<const char*>(stack);
  stack_high = static_cast<const char*>(stack) + bytes;

  struct sigaction action = {};
  struct sigaction former;
  action.sa_handler = OnAlarm;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGALRM, &action, &former), 0);
  const itimerval often = {{0, 200}, {0, 200}};
  const itimerval never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  InlineRunner parallel;
  const int64_t m = 64, n = 128, k = 784;
  const std::vector<float> a(m * k, 1), b(k * n, 1);
  std::vector<float> c(m * n);
  while (signals < 200) {
    ASSERT_TRUE(
        RunGemm(Dense<float>(m, n, k, false, false, a.data(), b.data(), c.data()), parallel).ok());
  }
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(sigaction(SIGALRM, &former, nullptr), 0);
  EXPECT_EQ(elsewhere, 0);
}

TEST(PlainGemm, ResultDoesNotDependOnHowTheLoopIsCut) {
  const std::vector<double> a = Values<double>(23 * 19, 6);
  const std::vector<double> b = Values<double>(19 * 29, 7);
  std::vector<double> c(23 * 29), d(23 * 29);
  InlineRunner whole;
  Chopped chopped;
  ASSERT_TRUE(
      RunGemm(Dense<double>(23, 29, 19, false, false, a.data(), b.data(), c.data()), whole).ok());
  ASSERT_TRUE(
      RunGemm(Dense<double>(23, 29, 19, false, false, a.data(), b.data(), d.data()), chopped).ok());
  EXPECT_EQ(c, d);
}

}  // namespace
}  // namespace tandem
