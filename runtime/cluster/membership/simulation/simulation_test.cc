#include "runtime/cluster/membership/simulation/simulation.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tandem::membership {
namespace {

constexpr uint64_t kSeeds = 300;

std::string Story(uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  const SimulationResult shortest = Shrink(options);
  std::string text = absl::StrCat(shortest.failure, "\n");
  // The end is what matters.
  const size_t first = shortest.log.size() > 400 ? shortest.log.size() - 400 : 0;
  for (size_t i = first; i < shortest.log.size(); ++i) {
    absl::StrAppend(&text, shortest.log[i], "\n");
  }
  return text;
}

TEST(MembershipSimulation, InvariantsHoldAndTheJobGoesOn) {
  SimulationResult total;
  double slowest = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    const SimulationResult result = Simulate(options);
    if (!result.failure.empty()) FAIL() << result.failure << "\n" << Story(seed);
    total.num_generations += result.num_generations;
    total.num_elections += result.num_elections;
    total.num_barriers += result.num_barriers;
    total.num_saves += result.num_saves;
    total.num_refused_writes += result.num_refused_writes;
    total.num_stops += result.num_stops;
    total.steps += result.steps;
    slowest = std::max(slowest, result.recovery_seconds);
  }
  // Nothing of what is checked came by only by chance.
  EXPECT_GT(total.num_generations, 10 * static_cast<int>(kSeeds));
  EXPECT_GT(total.num_elections, static_cast<int>(kSeeds));
  EXPECT_GT(total.num_barriers, 10 * static_cast<int>(kSeeds));
  EXPECT_GT(total.num_saves, static_cast<int>(kSeeds) / 10);
  EXPECT_GT(total.num_refused_writes, 0);
  EXPECT_GT(total.num_stops, 0);
  std::printf(
      "%d generations, %d elections, %d barriers passed, %d aligned saves, %d writes "
      "refused, %d stops, %lld steps; slowest recovery %.1f s\n",
      total.num_generations, total.num_elections, total.num_barriers, total.num_saves,
      total.num_refused_writes, total.num_stops, static_cast<long long>(total.steps), slowest);
}

TEST(MembershipSimulation, ASeedGivesTheSameRunAgain) {
  SimulationOptions options;
  options.seed = 3;
  options.logs = true;
  const SimulationResult first = Simulate(options);
  const SimulationResult again = Simulate(options);
  EXPECT_GT(first.log.size(), 1000u);
  EXPECT_EQ(first.log, again.log);
}

// Each invariant notices when the rule behind it is broken.
struct Rule {
  Mutation mutation;
  const char* words;
  uint64_t first_seed = 1;  // Some take a rare chance.
};
class BrokenRule : public ::testing::TestWithParam<Rule> {};

TEST_P(BrokenRule, IsNoticed) {
  const auto [mutation, words, first_seed] = GetParam();
  for (uint64_t seed = first_seed; seed < first_seed + 2000; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.mutation = mutation;
    const SimulationResult result = Simulate(options);
    if (!absl::StrContains(result.failure, words)) continue;
    std::printf("%s\n", result.failure.c_str());
    return;
  }
  ADD_FAILURE() << "no seed fails with '" << words << "'";
}

INSTANTIATE_TEST_SUITE_P(
    MembershipSimulation, BrokenRule,
    ::testing::Values(Rule{Mutation::kHalfIsMajority, "there are two of them"},
                      Rule{Mutation::kPromisesAreForgotten, "there are two of them", 1000},
                      Rule{Mutation::kBarrierForgetsOne, "opens before"},
                      Rule{Mutation::kLowestStepWins, "has completed"},
                      Rule{Mutation::kFenceIsIgnored, "writes a checkpoint, but"},
                      Rule{Mutation::kGroupIsNotLeft, "has not left"},
                      Rule{Mutation::kNobodyIsElected, "does not train"}));

}  // namespace
}  // namespace tandem::membership
