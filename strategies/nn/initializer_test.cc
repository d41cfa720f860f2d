#include "strategies/nn/initializer.h"

#include <cmath>

#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/testing.h"

namespace tandem::nn {
namespace {

absl::StatusOr<Tensor> Make(const Initializer& initializer, const Shape& shape, int64_t seed = 1) {
  const auto initial = initializer.For(shape, FansOf(shape), seed);
  if (!initial.ok()) return initial.status();
  const Scope scope = Scope::NewRoot();
  const Output value = (*initial)(scope);
  if (!scope.ok()) return scope.status();
  EXPECT_EQ(value.shape(), PartialShape(shape));
  auto session = Session::Create(*scope.graph());
  if (!session.ok()) return session.status();
  auto fetched = (*session)->Run({}, {value.name()});
  if (!fetched.ok()) return fetched.status();
  return (*fetched)[0];
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double least = 0;
  double greatest = 0;
};

Moments MomentsOf(const Initializer& initializer, const Shape& shape) {
  const auto value = Make(initializer, shape);
  EXPECT_TRUE(value.ok()) << value.status();
  Moments m{0, 0, INFINITY, -INFINITY};
  for (const double v : value->Elements<float>()) {
    m.mean += v;
    m.deviation += v * v;
    m.least = std::min(m.least, v);
    m.greatest = std::max(m.greatest, v);
  }
  const double n = static_cast<double>(value->num_elements());
  m.mean /= n;
  m.deviation = std::sqrt(m.deviation / n - m.mean * m.mean);
  return m;
}

TEST(Initializer, RandomOnesHaveTheSpreadThatTheirFansAskFor) {
  // A kernel of a convolution: 360 in, 720 out, 28800 values.
  const Shape shape({3, 3, 40, 80});
  const double in = 360;
  const double average = (360 + 720) / 2.0;
  const struct {
    const char* name;
    double variance;
    bool uniform;
  } cases[] = {
      {"glorot_uniform", 1 / average, true},
      {"glorot_normal", 1 / average, false},
      {"he_uniform", 2 / in, true},
      {"he_normal", 2 / in, false},
      {"lecun_uniform", 1 / in, true},
      {"lecun_normal", 1 / in, false},
      {"random_uniform", 0.05 * 0.05 / 3, true},
  };
  for (const auto& c : cases) {
    const Moments m = MomentsOf(c.name, shape);
    const double deviation = std::sqrt(c.variance);
    // Deviations of these estimates are below 0.7 % of the deviation.
    EXPECT_NEAR(m.mean, 0, 0.03 * deviation) << c.name;
    EXPECT_NEAR(m.deviation, deviation, 0.03 * deviation) << c.name;
    const double limit = c.uniform ? std::sqrt(3 * c.variance) : 2 * deviation / 0.8796;
    EXPECT_LE(m.greatest, limit * 1.0001) << c.name;
    EXPECT_GT(m.greatest, limit * 0.98) << c.name;
    EXPECT_GE(m.least, -limit * 1.0001) << c.name;
  }
  EXPECT_NEAR(MomentsOf("random_normal", shape).deviation, 0.05, 0.002);
  EXPECT_NEAR(MomentsOf("truncated_normal", shape).greatest, 0.1, 0.001);
}

TEST(Initializer, TakesArguments) {
  const Shape shape({100, 50});
  const Moments uniform = MomentsOf(initializer::RandomUniform(2, 3), shape);
  EXPECT_NEAR(uniform.mean, 2.5, 0.02);
  EXPECT_GE(uniform.least, 2);
  EXPECT_LE(uniform.greatest, 3);
  const Moments normal = MomentsOf(initializer::RandomNormal(1, 2), shape);
  EXPECT_NEAR(normal.mean, 1, 0.15);
  EXPECT_NEAR(normal.deviation, 2, 0.1);
  EXPECT_LE(MomentsOf(initializer::TruncatedNormal(0, 1), shape).greatest, 2);
  const Moments constant = MomentsOf(initializer::Constant(0.25f), shape);
  EXPECT_EQ(constant.least, 0.25);
  EXPECT_EQ(constant.greatest, 0.25);
  EXPECT_EQ(MomentsOf("ones", shape).least, 1);
  EXPECT_EQ(MomentsOf("zeros", shape).greatest, 0);
  const Tensor values = FloatInput(0, {2, 3});
  const auto same = Make(initializer::Values(values), Shape({2, 3}));
  ASSERT_TRUE(same.ok()) << same.status();
  ExpectNear(*same, values, "values", 0);
}

TEST(Initializer, OrthogonalRowsOrColumnsHaveLengthOneAndARightAngle) {
  for (const Shape& shape : {Shape({8, 32}), Shape({32, 8}), Shape({20, 20}), Shape({3, 4, 6}),
                             Shape({1, 1}), Shape({1, 7}), Shape({64, 64})}) {
    const auto value = Make("orthogonal", shape);
    ASSERT_TRUE(value.ok()) << value.status();
    const int64_t columns = shape.dim(shape.rank() - 1);
    const int64_t rows = shape.num_elements() / columns;
    const bool wide = rows < columns;
    const int64_t n = wide ? rows : columns;
    const auto at = [&](int64_t i, int64_t k) {
      const int64_t index = wide ? i * columns + k : k * columns + i;
      return static_cast<double>(value->Elements<float>()[static_cast<size_t>(index)]);
    };
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double product = 0;
        for (int64_t k = 0; k < (wide ? columns : rows); ++k) product += at(i, k) * at(j, k);
        ASSERT_NEAR(product, i == j ? 1 : 0, 2e-4) << shape.DebugString() << " " << i << " " << j;
      }
    }
  }
}

TEST(Initializer, FollowsFromTheSeed) {
  const Shape shape({4, 4});
  const auto values = [&](int64_t seed) {
    const auto value = Make("he_normal", shape, seed);
    EXPECT_TRUE(value.ok()) << value.status();
    return std::vector<float>(value->Elements<float>().begin(), value->Elements<float>().end());
  };
  EXPECT_EQ(values(1), values(1));
  EXPECT_NE(values(1), values(2));
  EXPECT_NE(SeedFor(1, "a/kernel"), SeedFor(1, "b/kernel"));
  EXPECT_NE(SeedFor(1, "a/kernel"), SeedFor(2, "a/kernel"));
}

TEST(Initializer, WrongArgumentsAreErrorsWhenItIsUsed) {
  const Shape shape({2, 3});
  for (const Initializer& wrong :
       {Initializer("no_such"), Initializer(""), initializer::RandomUniform(1, 0),
        initializer::RandomUniform(0, INFINITY), initializer::RandomNormal(0, -1),
        initializer::RandomNormal(NAN, 1), initializer::TruncatedNormal(0, NAN),
        initializer::Values(Tensor()), initializer::Values(FloatInput(0, {3, 2})),
        initializer::Values(IntInput(0, {2, 3}, 4))}) {
    const auto value = Make(wrong, shape);
    EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument) << value.status();
  }
}

TEST(Initializer, FansAreCountedAsKerasDoes) {
  EXPECT_EQ(FansOf(Shape()).in, 1);
  EXPECT_EQ(FansOf(Shape({7})).out, 7);
  EXPECT_EQ(FansOf(Shape({3, 5})).in, 3);
  EXPECT_EQ(FansOf(Shape({3, 5})).out, 5);
  EXPECT_EQ(FansOf(Shape({2, 3, 4, 5})).in, 24);
  EXPECT_EQ(FansOf(Shape({2, 3, 4, 5})).out, 30);
}

TEST(Initializer, ALayersVariablesBeginAsItsOptionsSay) {
  const LayerPtr layer = Lstm({.units = 2, .bias_initializer = initializer::Constant(0.5f)});
  const auto model = TestModel::Create(layer, {FloatInput(0, {1, 2, 3})});
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectNear(*(*model)->Read("bias"),
             Tensor::Vector<float>({0.5f, 0.5f, 1, 1, 0.5f, 0.5f, 0.5f, 0.5f}), "bias", 0);
  const auto plain =
      TestModel::Create(Lstm({.units = 2, .unit_forget_bias = false}), {FloatInput(0, {1, 2, 3})});
  ASSERT_TRUE(plain.ok()) << plain.status();
  ExpectNear(*(*plain)->Read("bias"), Tensor::Zeros(kFloat32, Shape({8})), "bias", 0);
}

TEST(Initializer, LayersOfOneModelBeginWithDifferentNumbers) {
  const LayerPtr model = Sequential({Dense({.units = 4}), Dense({.units = 4})});
  const auto begun = TestModel::Create(model, {FloatInput(0, {1, 4})}, {.replicas = 2});
  ASSERT_TRUE(begun.ok()) << begun.status();
  const auto first = (*begun)->Read("dense/kernel");
  const auto second = (*begun)->Read("dense_1/kernel");
  EXPECT_NE(first->Elements<float>()[0], second->Elements<float>()[0]);
  // Copies are equal.
  ExpectNear(*(*begun)->Read("dense/kernel", 1), *first, "copy", 0);
}

}  // namespace
}  // namespace tandem::nn
