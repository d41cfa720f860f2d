// What TensorFlow's answers (tests/golden) do not show: other numbers of threads, many samples,
// edges.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/random/distributions.h"
#include "kernels/testing/op_runner.h"

namespace tandem::random {
namespace {

using testing::RunOp;

// Cuts loops into many uneven pieces, and runs them last first.
class BackwardsRunner final : public ParallelRunner {
 public:
  int parallelism() const override { return 4; }
  void For(int64_t total, double, Body body) override {
    for (int64_t end = total; end > 0;) {
      const int64_t begin = std::max<int64_t>(0, end - (end % 3 + 1));
      body(begin, end);
      end = begin;
    }
  }
};

using FillFunction = void (*)(ParallelRunner&, const Philox&, DataType, void*, int64_t);

std::vector<float> Sample(FillFunction fill, ParallelRunner& runner, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count) + 1, -99);
  fill(runner, Philox::FromSeeds(7, 8), kFloat32, values.data(), count);
  EXPECT_EQ(values.back(), -99) << "wrote beyond the end";
  values.pop_back();
  return values;
}

TEST(Distributions, DoNotDependOnHowTheLoopIsCut) {
  InlineRunner whole;
  BackwardsRunner pieces;
  for (const FillFunction fill : {FillUniform, FillNormal, FillTruncatedNormal}) {
    for (const int64_t count : {1, 3, 1023, 1024, 5001}) {
      EXPECT_EQ(Sample(fill, whole, count), Sample(fill, pieces, count)) << count;
    }
  }
}

TEST(Distributions, AShorterSampleIsTheBeginningOfALongerOne) {
  InlineRunner runner;
  for (const FillFunction fill : {FillUniform, FillNormal, FillTruncatedNormal}) {
    const std::vector<float> longer = Sample(fill, runner, 3000);
    const std::vector<float> shorter = Sample(fill, runner, 1234);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  }
}

struct Moments {
  double mean = 0;
  double variance = 0;
  double low = 0;
  double high = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const float v : values) m.mean += static_cast<double>(v) / n;
  for (const float v : values) m.variance += std::pow(static_cast<double>(v) - m.mean, 2) / n;
  m.low = *std::min_element(values.begin(), values.end());
  m.high = *std::max_element(values.begin(), values.end());
  return m;
}

// Tolerances: five times the standard error of each figure for 100000 samples.
TEST(Distributions, HaveTheirMeanVarianceAndRange) {
  InlineRunner runner;
  constexpr int64_t kCount = 100'000;
  const Moments uniform = MomentsOf(Sample(FillUniform, runner, kCount));
  EXPECT_NEAR(uniform.mean, 0.5, 0.005);
  EXPECT_NEAR(uniform.variance, 1.0 / 12, 0.0015);
  EXPECT_GE(uniform.low, 0);
  EXPECT_LT(uniform.high, 1);
  const Moments normal = MomentsOf(Sample(FillNormal, runner, kCount));
  EXPECT_NEAR(normal.mean, 0, 0.016);
  EXPECT_NEAR(normal.variance, 1, 0.023);
  EXPECT_GT(normal.high, 3);
  const Moments truncated = MomentsOf(Sample(FillTruncatedNormal, runner, kCount));
  EXPECT_NEAR(truncated.mean, 0, 0.014);
  EXPECT_NEAR(truncated.variance, 0.7737, 0.013);  // 1 - 2·2φ(2) / (2Φ(2) - 1)
  EXPECT_GT(truncated.low, -2);
  EXPECT_LT(truncated.high, 2);
}

TEST(UniformInt, TakesTheWholeRangeOfItsType) {
  InlineRunner runner;
  std::vector<int64_t> wide(1000);
  FillUniformInt(runner, Philox::FromSeeds(1, 1), kInt64, std::numeric_limits<int64_t>::min(),
                 std::numeric_limits<int64_t>::max(), wide.data(), 1000);
  EXPECT_LT(*std::min_element(wide.begin(), wide.end()), -(int64_t{1} << 61));
  EXPECT_GT(*std::max_element(wide.begin(), wide.end()), int64_t{1} << 61);
  std::vector<int32_t> narrow(1000);
  FillUniformInt(runner, Philox::FromSeeds(1, 1), kInt32, -2, 2, narrow.data(), 1000);
  EXPECT_EQ(std::set<int32_t>(narrow.begin(), narrow.end()), (std::set<int32_t>{-2, -1, 0, 1}));
}

TEST(RandomUniform, WithoutSeedsEveryKernelHasItsOwn) {
  const Tensor shape = Tensor::Vector<int32_t>({4});
  const AttrMap attrs = {{"dtype", kFloat32}};
  const auto a = RunOp("RandomUniform", {shape}, attrs);
  const auto b = RunOp("RandomUniform", {shape}, attrs);
  ASSERT_TRUE(a.ok()) << a.status();
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_NE((*a)[0].Elements<float>(), (*b)[0].Elements<float>());
}

TEST(RandomUniform, RefusesShapesThatAreNone) {
  for (const Tensor& shape : {Tensor::Vector<int64_t>({int64_t{1} << 40, int64_t{1} << 40}),
                              Tensor::Vector<int64_t>({-1}), Tensor::Scalar<int64_t>(3)}) {
    const auto result = RunOp("RandomUniform", {shape}, {{"dtype", kFloat32}});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
  }
}

TEST(RandomShuffle, KeepsEveryRow) {
  std::vector<int32_t> rows(200);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i / 2);
  const Tensor value = Tensor::FromValues<int32_t>({100, 2}, absl::MakeConstSpan(rows));
  const auto result = RunOp("RandomShuffle", {value}, {{"seed", int64_t{5}}});
  ASSERT_TRUE(result.ok()) << result.status();
  const auto shuffled = (*result)[0].Elements<int32_t>();
  std::set<int32_t> seen;
  for (size_t i = 0; i < shuffled.size(); i += 2) {
    EXPECT_EQ(shuffled[i], shuffled[i + 1]) << "a row was torn";
    seen.insert(shuffled[i]);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_NE(shuffled, value.Elements<int32_t>());
}

TEST(Multinomial, DrawsInProportion) {
  const float low = std::log(1.0f);
  const float high = std::log(3.0f);
  const auto result =
      RunOp("Multinomial", {Tensor::FromValues<float>({1, 2}, {low, high}), Tensor::Scalar(20000)},
            {{"seed", int64_t{1}}});
  ASSERT_TRUE(result.ok()) << result.status();
  const auto drawn = (*result)[0].Elements<int64_t>();
  const auto ones = static_cast<double>(std::count(drawn.begin(), drawn.end(), 1));
  EXPECT_NEAR(ones / 20000, 0.75, 0.016);  // Five standard errors.
}

TEST(StatelessRandomUniformV2, RefusesAnAlgorithmThatACpuHasNot) {
  const auto result = RunOp("StatelessRandomUniformV2",
                            {Tensor::Vector<int32_t>({3}), Tensor::Vector<uint64_t>({1}),
                             Tensor::Vector<uint64_t>({1, 2}), Tensor::Scalar<int32_t>(2)});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
}

}  // namespace
}  // namespace tandem::random
