// Fifty kills at random moments.
#include "gtest/gtest.h"
#include "tests/resume/kill_training.h"

namespace tandem::testing {
namespace {

TEST(KilledDemo, EndsWithTheBitsOfAnUndisturbedTraining) {
  KillAndCompare({"--model=mlp", "--deterministic", "--epochs=2", "--batch_size=500",
                  "--checkpoint_every_steps=15"},
                 /*kills=*/50, /*seed=*/50);
}

}  // namespace
}  // namespace tandem::testing
