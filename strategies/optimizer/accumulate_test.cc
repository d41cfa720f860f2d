// Accumulation against keras.optimizers' gradient_accumulation_steps, and against one large batch.
#include "strategies/optimizer/accumulate.h"

#include <cmath>

#include "gtest/gtest.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/optimizer/testing.h"

namespace tandem::optimizer {
namespace {

using Doubles = std::vector<double>;

TestVariable Matrix(bool is_sparse = false) {
  TestVariable x = {"x", Shape({4, 2}), {}, is_sparse};
  for (int i = 0; i < 8; ++i) x.initial.push_back(0.5 * std::cos(1 + 2 * i));
  return x;
}

TestGradient Dense(int step) {
  TestGradient x;
  for (int i = 0; i < 8; ++i) x.values.push_back(std::sin(1 + 3 * i + 7 * step));
  return x;
}

TestGradient Vector(int step) {
  TestGradient y;
  for (int j = 0; j < 3; ++j) y.values.push_back(std::cos(1 + step + j));
  return y;
}

void ExpectNear(const Doubles& found, const Doubles& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], tolerance) << i;
}

OptimizerPtr SomeAdam() {
  return Adam({.learning_rate = 0.125, .beta1 = 0.875, .beta2 = 0.984375, .epsilon = 0x1p-20});
}

TEST(Accumulate, GivesTheNumbersOfKerasHoweverItIsNestedWithClipping) {
  for (const OptimizerPtr& optimizer : {Accumulate(ClipByGlobalNorm(SomeAdam(), 0.75), 3),
                                        ClipByGlobalNorm(Accumulate(SomeAdam(), 3), 0.75)}) {
    for (const std::string type : {"CPU", "SIM"}) {
      TestTrainingOptions options;
      options.devices = {"/device:" + type + ":0", "/device:" + type + ":1"};
      const auto training =
          TestTraining::Create(optimizer, {Matrix(), {"y", Shape({3}), {0.5, -0.25, 1}}}, options);
      ASSERT_TRUE(training.ok()) << training.status();
      for (int step = 0; step < 6; ++step) {
        const absl::Status status = (*training)->Step({Dense(step), Vector(step)});
        ASSERT_TRUE(status.ok()) << status;
      }
      for (const int copy : {0, 1}) {
        ExpectNear(*(*training)->Read("x", copy),
                   {0.166753016450199, -0.379546420634147, 0.0112501945333835, 0.526979006662153,
                    -0.630423790488367, 0.206307286747441, 0.222295108208227, -0.13246856157207},
                   1e-12);
        ExpectNear(*(*training)->Read("y", copy),
                   {0.602427774491823, -0.167083939563454, 1.07478123382471}, 1e-12);
      }
    }
  }
}

// Gradients that add up without rounding, so that nothing but the bits will do.
TEST(Accumulate, SmallBatchesGiveTheBitsOfALargeOne) {
  const auto small = TestTraining::Create(Accumulate(Adam({}), 4), {{"x", Shape({2}), {1, -1}}});
  const auto large = TestTraining::Create(Adam({}), {{"x", Shape({2}), {1, -1}}});
  ASSERT_TRUE(small.ok() && large.ok());
  for (int update = 0; update < 5; ++update) {
    Doubles sum = {0, 0};
    for (int i = 0; i < 4; ++i) {
      const Doubles gradient = {0.25 * i + update, 1.5 - i};
      for (size_t j = 0; j < 2; ++j) sum[j] += gradient[j];
      const Doubles before = *(*small)->Read("x");
      ASSERT_TRUE((*small)->Step({{gradient}}).ok());
      if (i < 3) {
        EXPECT_EQ(*(*small)->Read("x"), before) << "an accumulating step changes nothing";
        EXPECT_EQ(*(*small)->Read("x/accumulate/gradient"), sum);
      }
    }
    ASSERT_TRUE((*large)->Step({{{sum[0] / 4, sum[1] / 4}}}).ok());
    EXPECT_EQ(*(*small)->Read("x"), *(*large)->Read("x")) << update;
    EXPECT_EQ(*(*small)->Read("x/accumulate/gradient"), (Doubles{0, 0}));
  }
}

TEST(Accumulate, TakesSparseGradients) {
  const auto sparse =
      TestTraining::Create(Accumulate(Adagrad({}), 2), {Matrix(/*is_sparse=*/true)});
  const auto dense = TestTraining::Create(Accumulate(Adagrad({}), 2), {Matrix()});
  ASSERT_TRUE(sparse.ok() && dense.ok());
  for (int update = 0; update < 3; ++update) {
    ASSERT_TRUE((*sparse)->Step({{{1, 2, 3, 4, 5, 6}, {3, 0, 3}}}).ok());
    ASSERT_TRUE((*sparse)->Step({{{7, 8, 9, 10}, {1, 3}}}).ok());
    ASSERT_TRUE((*dense)->Step({{{3, 4, 0, 0, 0, 0, 6, 8}}}).ok());
    ASSERT_TRUE((*dense)->Step({{{0, 0, 7, 8, 0, 0, 9, 10}}}).ok());
    EXPECT_EQ(*(*sparse)->Read("x"), *(*dense)->Read("x"));
  }
}

TEST(Accumulate, SmallFloatsAreAddedUpInFloat32) {
  // 2048 + 1 is 2048 in float16.
  const auto training = TestTraining::Create(Accumulate(Sgd({.learning_rate = 1}), 4),
                                             {{"x", Shape({1}), {0}}}, {.dtype = kFloat16});
  ASSERT_TRUE(training.ok()) << training.status();
  for (const double gradient : {2048.0, 1.0, 1.0, 2.0}) {
    ASSERT_TRUE((*training)->Step({{{gradient}}}).ok());
  }
  EXPECT_EQ(*(*training)->Read("x"), Doubles{-513});
}

TEST(Accumulate, TheScheduleFollowsUpdates) {
  const OptimizerPtr optimizer = Accumulate(Sgd({.schedule = StepDecay({0}, {1.0, 0.5})}), 3);
  EXPECT_EQ(optimizer->accumulation_steps(), 3);
  const Doubles rates = {1, 1, 1, 0.5, 0.5, 0.5};
  for (int step = 0; step < 6; ++step) {
    EXPECT_EQ(optimizer->LearningRate(step), rates[static_cast<size_t>(step)]) << step;
    EXPECT_EQ(IsUpdateStep(*optimizer, step), step % 3 == 2) << step;
  }
  EXPECT_TRUE(IsUpdateStep(*Sgd({}), 0));
}

TEST(Accumulate, OneStepIsTheOptimizerItself) {
  const auto training =
      TestTraining::Create(Accumulate(Sgd({.learning_rate = 1}), 1), {{"x", Shape({1}), {0}}});
  ASSERT_TRUE(training.ok()) << training.status();
  ASSERT_TRUE((*training)->Step({{{1}}}).ok());
  EXPECT_EQ(*(*training)->Read("x"), Doubles{-1});
  EXPECT_FALSE((*training)->Read("x/accumulate/gradient").ok());
}

TEST(Accumulate, WrongStepsAreInvalidArgument) {
  for (const OptimizerPtr& optimizer :
       {Accumulate(Sgd({}), 0), Accumulate(Sgd({}), -3), Accumulate(nullptr, 2),
        Accumulate(ClipByNorm(Accumulate(Sgd({}), 2), 1), 2)}) {
    EXPECT_EQ(optimizer->Check().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_GE(optimizer->accumulation_steps(), 1);
    EXPECT_EQ(TestTraining::Create(optimizer, {{"x", Shape({1}), {1}}}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem::optimizer
