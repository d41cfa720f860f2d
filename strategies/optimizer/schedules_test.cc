// Schedules against closed forms and keras.optimizers.schedules (Keras 3.15, which computes in
// float32).
#include "strategies/optimizer/schedules.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::optimizer {
namespace {

void ExpectRates(const Schedule& schedule, const std::vector<int64_t>& steps,
                 const std::vector<double>& rates) {
  ASSERT_TRUE(schedule.status().ok()) << schedule.status();
  ASSERT_TRUE(static_cast<bool>(schedule));
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR(schedule(steps[i]), rates[i], 1e-7) << "step " << steps[i];
  }
}

TEST(Schedules, ConstantStays) { ExpectRates(Constant(0.5), {0, 1, 1000000}, {0.5, 0.5, 0.5}); }

TEST(Schedules, StepDecayChangesAfterEachBoundary) {
  ExpectRates(StepDecay({3, 6}, {1.0, 0.5, 0.25}), {0, 1, 2, 3, 4, 5, 6, 7, 8},
              {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25});
  ExpectRates(StepDecay({}, {0.5}), {0, 9}, {0.5, 0.5});
}

TEST(Schedules, ExponentialDecayIsThatOfKeras) {
  ExpectRates(ExponentialDecay(0.5, 4, 0.25), {0, 1, 4, 6, 9},
              {0.5, 0.3535533845424652, 0.125, 0.0625, 0.022097086533904076});
  ExpectRates(ExponentialDecay(0.5, 4, 0.25, /*staircase=*/true), {0, 3, 4, 9},
              {0.5, 0.5, 0.125, 0.03125});
}

TEST(Schedules, CosineDecayIsThatOfKeras) {
  ExpectRates(CosineDecay(0.5, 8, 0.125), {0, 1, 2, 4, 7, 8, 20},
              {0.5, 0.48334863781929016, 0.43592962622642517, 0.28125, 0.07915133237838745, 0.0625,
               0.0625});
  ExpectRates(CosineDecay(1, 2), {0, 1, 2, 3}, {1, 0.5, 0, 0});
}

TEST(Schedules, WarmUpRisesAndThenFollowsTheSchedule) {
  ExpectRates(WarmUp(CosineDecay(0.5, 8, 0.125), 4), {0, 1, 3, 4, 5, 8, 12, 30},
              {0, 0.125, 0.375, 0.5, 0.48334863781929016, 0.28125, 0.0625, 0.0625});
  ExpectRates(WarmUp(Constant(1), 2, 0.5), {0, 1, 2, 3}, {0.5, 0.75, 1, 1});
}

TEST(Schedules, AnyFunctionIsOne) {
  ExpectRates([](int64_t step) { return 1.0 / static_cast<double>(step + 1); }, {0, 1, 3},
              {1, 0.5, 0.25});
}

TEST(Schedules, NoneIsFalseAndGivesNoNumber) {
  EXPECT_FALSE(static_cast<bool>(Schedule()));
  EXPECT_TRUE(Schedule().status().ok());
  EXPECT_TRUE(std::isnan(Schedule()(0)));
}

TEST(Schedules, WrongArgumentsAreInvalidArgument) {
  const std::vector<Schedule> wrong = {
      Constant(-1),
      Constant(std::nan("")),
      Constant(INFINITY),
      StepDecay({1, 2}, {1, 2}),
      StepDecay({}, {}),
      StepDecay({2, 2}, {1, 2, 3}),
      StepDecay({3, 2}, {1, 2, 3}),
      StepDecay({-1}, {1, 2}),
      StepDecay({1}, {1, -2}),
      ExponentialDecay(-1, 1, 1),
      ExponentialDecay(1, 0, 1),
      ExponentialDecay(1, 1, -1),
      CosineDecay(-1, 1),
      CosineDecay(1, 0),
      CosineDecay(1, 1, 1.5),
      WarmUp(Constant(1), 0),
      WarmUp(Constant(1), 1, -1),
      WarmUp(Schedule(), 1),
      WarmUp(CosineDecay(1, -5), 1),
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(wrong[i].status().code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_TRUE(static_cast<bool>(wrong[i])) << i;
    EXPECT_TRUE(std::isnan(wrong[i](0))) << i;
  }
}

}  // namespace
}  // namespace tandem::optimizer
