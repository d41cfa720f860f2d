#include "core/passes/memory_plan.h"

#include <numeric>
#include <random>
#include <vector>

#include "core/tensor/buffer.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

std::vector<size_t> FirstNumbers(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

MemoryPlan PlanOf(const std::vector<size_t>& bytes, const MemoryConflicts& conflicts) {
  return PlanMemory(FirstNumbers(bytes.size()), bytes, conflicts);
}

TEST(MemoryPlan, OfNothingIsEmpty) {
  const MemoryPlan plan = PlanOf({}, MemoryConflicts());
  EXPECT_TRUE(plan.offsets.empty());
  EXPECT_EQ(plan.bytes, 0);
}

TEST(MemoryPlan, PiecesThatNeverMeetShareTheirPlace) {
  MemoryConflicts conflicts;
  conflicts.Grow(3);
  const MemoryPlan plan = PlanOf({640, 128, 6400}, conflicts);
  EXPECT_EQ(plan.offsets, std::vector<size_t>({0, 0, 0}));
  EXPECT_EQ(plan.bytes, 6400);
}

TEST(MemoryPlan, AChainNeedsItsTwoLargestNeighbours) {
  // Each piece lives until the next one has been made from it.
  const std::vector<size_t> bytes = {64, 640, 1280, 128, 640};
  MemoryConflicts conflicts;
  conflicts.Grow(bytes.size());
  for (size_t i = 1; i < bytes.size(); ++i) conflicts.Add(i - 1, i);
  EXPECT_EQ(PlanOf(bytes, conflicts).bytes, 640 + 1280);
}

TEST(MemoryPlan, TakesTheTightestGap) {
  // 0 lies before 1, 1 before 2 and 2 before 3, so that 4, which meets 1 and 3 only, finds the gaps
  // of 0 (640 bytes) and 2 (256 bytes).
  const std::vector<size_t> bytes = {640, 512, 256, 192, 128};
  MemoryConflicts conflicts;
  conflicts.Grow(bytes.size());
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < i; ++j) conflicts.Add(i, j);
  }
  conflicts.Add(4, 1);
  conflicts.Add(4, 3);
  const MemoryPlan plan = PlanOf(bytes, conflicts);
  EXPECT_EQ(plan.offsets, std::vector<size_t>({0, 640, 1152, 1408, 1152}));
  EXPECT_EQ(plan.bytes, 1600);
}

TEST(MemoryPlan, PlacesOnlyTheChosenPieces) {
  MemoryConflicts conflicts;
  conflicts.Grow(4);
  conflicts.Add(1, 3);
  const MemoryPlan plan = PlanMemory({3, 1}, {64, 64}, conflicts);
  EXPECT_EQ(plan.offsets, std::vector<size_t>({0, 64}));
}

TEST(MemoryPlan, PiecesInConflictNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const size_t count = 1 + random() % 60;
    std::vector<size_t> bytes(count);
    MemoryConflicts conflicts;
    conflicts.Grow(count);
    size_t sum = 0;
    for (size_t i = 0; i < count; ++i) {
      bytes[i] = 1 + random() % 10000;
      sum += bytes[i] + kBufferAlignment;
      for (size_t j = 0; j < i; ++j) {
        if (random() % 4 == 0) conflicts.Add(i, j);
      }
    }
    const MemoryPlan plan = PlanOf(bytes, conflicts);
    EXPECT_LE(plan.bytes, sum);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(plan.offsets[i] % kBufferAlignment, 0);
      EXPECT_LE(plan.offsets[i] + bytes[i], plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        if (!conflicts.Has(i, j)) continue;
        EXPECT_TRUE(plan.offsets[i] + bytes[i] <= plan.offsets[j] ||
                    plan.offsets[j] + bytes[j] <= plan.offsets[i])
            << "pieces " << i << " and " << j << " of round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace tandem
