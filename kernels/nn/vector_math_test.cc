#include "kernels/nn/vector_math.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

using Function = void (*)(const float*, float*, int64_t);
using Reference = double (*)(double);

struct Case {
  const char* name;
  Function function;
  Reference reference;
};

double LogisticOf(double x) { return 1 / (1 + std::exp(-x)); }

const Case kCases[] = {
    {"Exp", Exp, std::exp},    {"Expm1", Expm1, std::expm1},       {"Log1p", Log1p, std::log1p},
    {"Tanh", Tanh, std::tanh}, {"Logistic", Logistic, LogisticOf},
};

class VectorMath : public ::testing::TestWithParam<Case> {};

TEST_P(VectorMath, IsCloseToTheExactValue) {
  for (float x = -0.9f; x < 20; x += 0.037f) {
    float y;
    GetParam().function(&x, &y, 1);
    const double exact = GetParam().reference(static_cast<double>(x));
    EXPECT_NEAR(static_cast<double>(y), exact, 4e-7 * std::abs(exact) + 1e-12) << x;
  }
}

// An element's bits may not depend on its neighbours, its place, its address.
TEST_P(VectorMath, GivesAnElementTheSameBitsWhereverItLies) {
  std::vector<float> x(70);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.13f * static_cast<float>(i) - 0.7f;
  std::vector<float> all(x.size());
  GetParam().function(x.data(), all.data(), static_cast<int64_t>(x.size()));
  for (size_t begin = 0; begin < 17; ++begin) {
    for (size_t n = 1; n < 19; ++n) {
      std::vector<float> part(n);
      GetParam().function(x.data() + begin, part.data(), static_cast<int64_t>(n));
      ASSERT_EQ(std::memcmp(part.data(), all.data() + begin, n * sizeof(float)), 0)
          << begin << " " << n;
    }
  }
}

TEST_P(VectorMath, MayWriteOverItsInputAndNoFurther) {
  std::vector<float> x(23, 0.5f);
  x[20] = 123;
  float one = 0.5f;
  GetParam().function(&one, &one, 1);
  GetParam().function(x.data(), x.data(), 20);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(x[i], one);
  EXPECT_EQ(x[20], 123);
}

INSTANTIATE_TEST_SUITE_P(All, VectorMath, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VectorSum, DoesNotDependOnTheAddress) {
  std::vector<float> buffer(1000);
  std::vector<float> x(777);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(i + 1);
  const float sum = Sum(x.data(), 777);
  EXPECT_NEAR(sum, std::log(777.0) + 0.5772157 + 1.0 / 1554, 1e-5);
  for (size_t offset = 0; offset < 9; ++offset) {
    std::copy(x.begin(), x.end(), buffer.begin() + static_cast<long>(offset));
    EXPECT_EQ(Sum(buffer.data() + offset, 777), sum);
  }
  EXPECT_EQ(Sum(x.data(), 0), 0);
}

TEST(VectorMax, PassesOverWhatIsNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(40, -3);
  x[7] = nan;
  x[39] = -2;
  EXPECT_EQ(Max(x.data(), 40), -2);
  EXPECT_EQ(Max(x.data(), 38), -3);
  EXPECT_EQ(Max(&nan, 1), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace tandem
