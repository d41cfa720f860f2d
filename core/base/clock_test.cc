#include "core/base/clock.h"

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(FakeClock, StandsStillUntilItIsMoved) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  FakeClock clock(start);
  EXPECT_EQ(clock.Now(), start);
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now(), start + absl::Milliseconds(1500));
}

TEST(RealClock, IsOneObjectThatTellsTheTimeOfTheMachine) {
  EXPECT_EQ(Clock::Real(), Clock::Real());
  const absl::Time before = absl::FromTimeT(time(nullptr));
  EXPECT_GE(Clock::Real()->Now(), before);
}

}  // namespace
}  // namespace tandem
