#include "runtime/device/free_blocks.h"

#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(FreeBlocks, TakesTheSmallestThatIsLargeEnough) {
  FreeBlocks blocks;
  blocks.AddRange(1000, 100);
  blocks.AddRange(5000, 50);
  EXPECT_THAT(blocks.Take(50), Optional(5000u));
  EXPECT_THAT(blocks.Take(50), Optional(1000u));
  EXPECT_THAT(blocks.Take(51), std::nullopt);
  EXPECT_THAT(blocks.Take(50), Optional(1050u));
  EXPECT_THAT(blocks.Take(1), std::nullopt);
}

TEST(FreeBlocks, MergesWithBothNeighboursButNotAcrossRanges) {
  FreeBlocks blocks;
  blocks.AddRange(0, 30);
  blocks.AddRange(30, 30);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(blocks.Take(10).has_value());
  blocks.Put(10, 10);
  blocks.Put(30, 10);
  EXPECT_THAT(blocks.RemoveFreeRanges(), IsEmpty());
  blocks.Put(20, 10);
  EXPECT_THAT(blocks.Take(30), std::nullopt);
  blocks.Put(0, 10);
  EXPECT_THAT(blocks.Take(40), std::nullopt) << "the next range's first block is free, too";
  EXPECT_THAT(blocks.RemoveFreeRanges(), ElementsAre(Field(&FreeBlocks::Block::begin, 0u)));
  EXPECT_THAT(blocks.Take(20), std::nullopt) << "the removed range is gone";
  blocks.Put(50, 10);
  blocks.Put(40, 10);
  EXPECT_THAT(blocks.Take(30), Optional(30u));
}

TEST(FreeBlocks, HandsNoByteOutTwice) {
  constexpr size_t kSize = 4096;
  FreeBlocks blocks;
  blocks.AddRange(0, kSize);
  std::mt19937 random(1);
  std::map<size_t, size_t> taken;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 && !taken.empty()) {
      auto some = taken.lower_bound(random() % kSize);
      if (some == taken.end()) some = taken.begin();
      blocks.Put(some->first, some->second);
      taken.erase(some);
      continue;
    }
    const size_t size = 1 + random() % 300;
    const std::optional<size_t> begin = blocks.Take(size);
    if (!begin.has_value()) continue;
    const auto next = taken.lower_bound(*begin);
    if (next != taken.end()) ASSERT_LE(*begin + size, next->first);
    if (next != taken.begin()) ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *begin);
    ASSERT_LE(*begin + size, kSize);
    taken[*begin] = size;
  }
  for (const auto& [begin, size] : taken) blocks.Put(begin, size);
  EXPECT_THAT(blocks.Take(kSize), Optional(0u)) << "all of it is one block again";
}

}  // namespace
}  // namespace tandem
