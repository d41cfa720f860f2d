#include "runtime/checkpoint/retention.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time At(int minutes) { return absl::UnixEpoch() + absl::Minutes(minutes); }

// One a minute, with these metrics, named by their minutes.
std::vector<KeptCheckpoint> Checkpoints(const std::vector<absl::optional<double>>& metrics) {
  std::vector<KeptCheckpoint> checkpoints;
  for (size_t i = 0; i < metrics.size(); ++i) {
    const int minute = static_cast<int>(i);
    checkpoints.push_back({std::to_string(minute), At(minute), metrics[i]});
  }
  return checkpoints;
}
std::vector<KeptCheckpoint> Checkpoints(size_t count) {
  return Checkpoints(std::vector<absl::optional<double>>(count));
}

std::vector<std::string> Prefixes(const std::vector<KeptCheckpoint>& checkpoints) {
  std::vector<std::string> prefixes;
  for (const auto& checkpoint : checkpoints) prefixes.push_back(checkpoint.prefix);
  return prefixes;
}

TEST(Retention, KeepsTheNewest) {
  Retention retention;
  retention.max_to_keep = 2;
  const auto result = ApplyRetention(retention, Checkpoints(4), At(0));
  EXPECT_THAT(Prefixes(result.kept), ElementsAre("2", "3"));
  EXPECT_THAT(result.dropped, ElementsAre("0", "1"));
}

TEST(Retention, ZeroKeepsAll) {
  Retention retention;
  retention.max_to_keep = 0;
  EXPECT_THAT(ApplyRetention(retention, Checkpoints(9), At(0)).dropped, IsEmpty());
}

TEST(Retention, OneOfEverySpanIsKeptForGood) {
  Retention retention;
  retention.max_to_keep = 1;
  retention.preserve_every = absl::Minutes(3);
  const auto result = ApplyRetention(retention, Checkpoints(8), At(0));
  EXPECT_THAT(Prefixes(result.kept), ElementsAre("7"));
  EXPECT_THAT(result.dropped, ElementsAre("0", "1", "2", "4", "5"));
  EXPECT_EQ(result.last_preserved, At(6));
}

TEST(Retention, TheBestAreKeptBesideTheNewest) {
  Retention retention;
  retention.max_to_keep = 1;
  retention.keep_best = 2;
  const auto checkpoints = Checkpoints({0.5, 0.1, 0.3, absl::nullopt, 0.2, 0.9});
  EXPECT_THAT(Prefixes(ApplyRetention(retention, checkpoints, At(0)).kept),
              ElementsAre("1", "4", "5"));
  EXPECT_EQ(BestCheckpoint(retention, checkpoints), 1);
  retention.smaller_is_better = false;
  EXPECT_THAT(Prefixes(ApplyRetention(retention, checkpoints, At(0)).kept), ElementsAre("0", "5"));
  EXPECT_EQ(BestCheckpoint(retention, checkpoints), 5);
}

TEST(Retention, OfEqualsTheNewestIsTheBestAndNaNIsNone) {
  const Retention retention;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(BestCheckpoint(retention, Checkpoints({0.1, 0.1, nan})), 1);
  EXPECT_EQ(BestCheckpoint(retention, Checkpoints({nan, absl::nullopt})), -1);
  EXPECT_EQ(BestCheckpoint(retention, {}), -1);
}

}  // namespace
}  // namespace tandem
