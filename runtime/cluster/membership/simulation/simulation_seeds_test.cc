// The long run: 10,000 seeds that the plain test does not have.
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "runtime/cluster/membership/simulation/simulation.h"

namespace tandem::membership {
namespace {

class ManySeeds : public ::testing::TestWithParam<int> {};

TEST_P(ManySeeds, InvariantsHoldAndTheJobGoesOn) {
  constexpr uint64_t kBlock = 500;
  const uint64_t first = 1000 + kBlock * static_cast<uint64_t>(GetParam());
  for (uint64_t seed = first; seed < first + kBlock; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    const SimulationResult result = Simulate(options);
    if (result.failure.empty()) continue;
    const SimulationResult shortest = Shrink(options);
    FAIL() << result.failure << "\n"
           << shortest.failure << "\n"
           << absl::StrJoin(shortest.log, "\n");
  }
}

INSTANTIATE_TEST_SUITE_P(MembershipSimulation, ManySeeds, ::testing::Range(0, 20));

}  // namespace
}  // namespace tandem::membership
