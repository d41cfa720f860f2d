// Clipping against keras.optimizers' clipvalue, clipnorm and global_clipnorm (Keras 3.15 on
// TensorFlow 2.21): two variables after three steps of gradient descent.
#include "strategies/optimizer/clipping.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "strategies/optimizer/testing.h"

namespace tandem::optimizer {
namespace {

using Doubles = std::vector<double>;

std::vector<TestVariable> Variables(bool is_sparse) {
  TestVariable x = {"x", Shape({4, 2}), {}, is_sparse};
  for (int i = 0; i < 8; ++i) x.initial.push_back(0.5 * std::cos(1 + 2 * i));
  return {x, {"y", Shape({3}), {0.5, -0.25, 1}}};
}

std::vector<TestGradient> Gradients(bool is_sparse, int step) {
  static const std::vector<int64_t> rows[] = {{1, 3, 1}, {3, 3, 3}, {2, 1, 3}};
  TestGradient x;
  if (is_sparse) {
    x.rows = rows[step % 3];
    for (int j = 0; j < 6; ++j) x.values.push_back(std::cos(2 + 5 * j + 11 * step));
  } else {
    for (int i = 0; i < 8; ++i) x.values.push_back(std::sin(1 + 3 * i + 7 * step));
  }
  TestGradient y;
  for (int j = 0; j < 3; ++j) y.values.push_back(std::cos(1 + step + j));
  return {x, y};
}

struct Values {
  Doubles x;
  Doubles y;
};

Values Train(const OptimizerPtr& optimizer, bool is_sparse, const TestTrainingOptions& options) {
  const auto training = TestTraining::Create(optimizer, Variables(is_sparse), options);
  EXPECT_TRUE(training.ok()) << training.status();
  if (!training.ok()) return {};
  for (int step = 0; step < 3; ++step) {
    const absl::Status status = (*training)->Step(Gradients(is_sparse, step));
    EXPECT_TRUE(status.ok()) << status;
  }
  const int last = static_cast<int>(options.devices.size()) - 1;
  const auto x = (*training)->Read("x");
  const auto y = (*training)->Read("y");
  EXPECT_TRUE(x.ok() && y.ok());
  if (!x.ok() || !y.ok()) return {};
  // The same bits at every copy.
  EXPECT_EQ(*(*training)->Read("x", last), *x);
  EXPECT_EQ(*(*training)->Read("y", last), *y);
  return {*x, *y};
}

void ExpectNear(const Doubles& found, const Doubles& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << i;
}

void ExpectClips(const OptimizerPtr& optimizer, bool is_sparse, const Values& wanted) {
  for (const std::string type : {"CPU", "SIM"}) {
    TestTrainingOptions options;
    options.devices = {"/device:" + type + ":0", "/device:" + type + ":1"};
    const Values found = Train(optimizer, is_sparse, options);
    ExpectNear(found.x, wanted.x, 1e-12);
    ExpectNear(found.y, wanted.y, 1e-12);
    options.dtype = kFloat32;
    const Values single = Train(optimizer, is_sparse, options);
    ExpectNear(single.x, wanted.x, 1e-6);
    ExpectNear(single.y, wanted.y, 1e-6);
    options.dtype = kFloat16;
    const Values half = Train(optimizer, is_sparse, options);
    ExpectNear(half.x, wanted.x, 2e-3);
    ExpectNear(half.y, wanted.y, 2e-3);
  }
}

OptimizerPtr Descent() { return Sgd({.learning_rate = 0.125}); }

TEST(Clipping, ByValueGivesTheNumbersOfKeras) {
  ExpectClips(ClipByValue(Descent(), 0.5), false,
              {{0.0826511529340699, -0.307496248300223, -0.0456689072683869, 0.564451127171652,
                -0.633086010545669, 0.163200763577159, 0.309988739517229, -0.25373754276811},
               {0.552018354568393, -0.0729816454316072, 1.0895422268171}});
  ExpectClips(ClipByValue(Descent(), 0.5), true,
              {{0.27015115293407, -0.494996248300223, 0.266831092731613, 0.285900329925477,
                -0.508587506859463, 0.0647128489940254, 0.283556263988381, -0.445522607140916},
               {0.552018354568393, -0.0729816454316072, 1.0895422268171}});
}

TEST(Clipping, ByNormGivesTheNumbersOfKeras) {
  ExpectClips(ClipByNorm(Descent(), 1.25), false,
              {{0.0822101863860086, -0.308914338504963, -0.0386673296211019, 0.548253384931204,
                -0.614242608254967, 0.145089615072454, 0.329507015325365, -0.276774163306559},
               {0.607932348970546, 0.00676565634350788, 1.16952980340974}});
  ExpectClips(ClipByNorm(Descent(), 1.25), true,
              {{0.27015115293407, -0.494996248300223, 0.351346108566068, 0.309603418149047,
                -0.496506091297436, 0.0744139554528328, 0.236009328589139, -0.465658287342928},
               {0.607932348970546, 0.00676565634350788, 1.16952980340974}});
}

TEST(Clipping, ByGlobalNormGivesTheNumbersOfKeras) {
  ExpectClips(ClipByGlobalNorm(Descent(), 1.25), false,
              {{0.11137189036255, -0.336866804760517, -0.0124835698886924, 0.52436239985101,
                -0.593122576055805, 0.127163253342387, 0.343880910334425, -0.287307897988277},
               {0.534400559555645, -0.125383256433767, 1.10026086824158}});
  ExpectClips(ClipByGlobalNorm(Descent(), 1.25), true,
              {{0.27015115293407, -0.494996248300223, 0.312116085660996, 0.322200066191307,
                -0.488263491602459, 0.0598777840266462, 0.275536668319082, -0.452407561002575},
               {0.58077973835426, -0.0629842099701328, 1.12131038681952}});
}

TEST(Clipping, GradientsBelowTheLimitStay) {
  ExpectClips(ClipByGlobalNorm(Descent(), 100), false,
              {{-0.0399884810144795, -0.181523754721434, -0.168700106387101, 0.678325747768596,
                -0.741751157937185, 0.267482267110663, 0.21467995069387, -0.1718109505611},
               {0.608229628409931, 0.00747286925139996, 1.1699967415001}});
  ExpectClips(ClipByGlobalNorm(Descent(), 100), true,
              {{0.27015115293407, -0.494996248300223, 0.424915834947411, 0.285900329925477,
                -0.508587506859463, 0.0957200402051504, 0.178094105565858, -0.464620667888142},
               {0.608229628409931, 0.00747286925139996, 1.1699967415001}});
}

TEST(Clipping, AGlobalNormThatIsNotFiniteMakesAllGradientsNaN) {
  const auto training = TestTraining::Create(ClipByGlobalNorm(Descent(), 1),
                                             {{"x", Shape({2}), {1, 1}}, {"y", Shape({1}), {1}}});
  ASSERT_TRUE(training.ok()) << training.status();
  const double infinity = std::numeric_limits<double>::infinity();
  ASSERT_TRUE((*training)->Step({{{infinity, 0}}, {{1}}}).ok());
  for (const char* name : {"x", "y"}) {
    const Doubles values = *(*training)->Read(name);
    for (const double value : values) EXPECT_TRUE(std::isnan(value)) << name;
  }
}

TEST(Clipping, AGradientOfZerosStays) {
  for (const OptimizerPtr& optimizer : {ClipByNorm(Descent(), 1), ClipByGlobalNorm(Descent(), 1)}) {
    const auto training = TestTraining::Create(optimizer, {{"x", Shape({2}), {1, 2}}});
    ASSERT_TRUE(training.ok()) << training.status();
    ASSERT_TRUE((*training)->Step({{{0, 0}}}).ok());
    EXPECT_EQ(*(*training)->Read("x"), (Doubles{1, 2}));
  }
}

TEST(Clipping, TheOutermostWrapperClipsFirst) {
  // By value: (0.5, 0.5); then by norm: 1/√2 · 0.5 each … the other way round nothing is left to
  // clip by value.
  const auto training = TestTraining::Create(
      ClipByValue(ClipByNorm(Sgd({.learning_rate = 1}), 0.5), 0.5), {{"x", Shape({2}), {0, 0}}});
  ASSERT_TRUE(training.ok()) << training.status();
  ASSERT_TRUE((*training)->Step({{{-1, -100}}}).ok());
  ExpectNear(*(*training)->Read("x"), {0.5 / std::sqrt(2.0), 0.5 / std::sqrt(2.0)}, 1e-12);
}

TEST(Clipping, TheWrappedOptimizerKeepsItsNameRateAndSlots) {
  const OptimizerPtr optimizer = ClipByNorm(Adam({.learning_rate = 0.25}), 1);
  EXPECT_EQ(optimizer->name(), "adam");
  EXPECT_EQ(optimizer->LearningRate(7), 0.25);
  EXPECT_EQ(optimizer->accumulation_steps(), 1);
  const auto training = TestTraining::Create(optimizer, {{"x", Shape({1}), {1}}});
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_TRUE((*training)->Read("x/adam/velocity").ok());
}

TEST(Clipping, WrongLimitsAreInvalidArgument) {
  for (const double limit : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    for (const OptimizerPtr& optimizer :
         {ClipByValue(Descent(), limit), ClipByNorm(Descent(), limit),
          ClipByGlobalNorm(Descent(), limit)}) {
      EXPECT_EQ(optimizer->Check().code(), absl::StatusCode::kInvalidArgument) << limit;
      EXPECT_EQ(TestTraining::Create(optimizer, {{"x", Shape({1}), {1}}}).status().code(),
                absl::StatusCode::kInvalidArgument)
          << limit;
    }
  }
}

TEST(Clipping, NoOptimizerAndAWrongOneAreInvalidArgument) {
  for (const OptimizerPtr& inner : {OptimizerPtr(), Sgd({.learning_rate = -1})}) {
    const OptimizerPtr optimizer = ClipByNorm(inner, 1);
    EXPECT_EQ(optimizer->Check().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(std::isnan(optimizer->LearningRate(0)));
    EXPECT_EQ(TestTraining::Create(optimizer, {{"x", Shape({1}), {1}}}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem::optimizer
