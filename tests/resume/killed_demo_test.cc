// A few kills; kill_50_times_test has more.
#include "gtest/gtest.h"
#include "tests/resume/kill_training.h"

namespace tandem::testing {
namespace {

TEST(KilledDemo, EndsWithTheBitsOfAnUndisturbedTraining) {
  KillAndCompare({"--model=mlp", "--deterministic", "--epochs=2", "--batch_size=500",
                  "--checkpoint_every_steps=15"},
                 /*kills=*/5, /*seed=*/5);
}

}  // namespace
}  // namespace tandem::testing
