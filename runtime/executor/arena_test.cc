#include "runtime/executor/arena.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

using Numbers = std::vector<size_t>;

RefPtr<Arena> Opened(std::vector<Arena::Piece> pieces, size_t bytes) {
  auto arena = RefPtr<Arena>(new Arena(std::move(pieces), bytes));
  arena->Open(HostAllocator());
  return arena;
}

TEST(Arena, GivesEachPieceItsPlace) {
  const auto arena = Opened({{0, 128}, {128, 64}, {0, 64}}, 192);
  const RefPtr<Buffer> a = arena->Take(0, 100);
  const RefPtr<Buffer> b = arena->Take(1, 64);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->size(), 100);
  EXPECT_EQ(static_cast<char*>(b->data()) - static_cast<char*>(a->data()), 128);
  EXPECT_EQ(a->root(), a.get());
  EXPECT_TRUE(a->RefCountIsOne());
  std::memset(a->data(), 1, a->size());
  std::memset(b->data(), 2, b->size());
}

TEST(Arena, RefusesWhatIsLargerThanPlanned) {
  const auto arena = Opened({{0, 128}}, 128);
  EXPECT_FALSE(arena->Take(0, 129));
  EXPECT_TRUE(arena->Take(0, 128));
  EXPECT_TRUE(arena->TakeClashes().empty());
}

TEST(Arena, RefusesAPlaceThatOverlapsOneThatIsTaken) {
  // 2 overlaps the end of 0 and the begin of 1.
  const auto arena = Opened({{0, 128}, {128, 128}, {64, 128}}, 256);
  RefPtr<Buffer> a = arena->Take(0, 128);
  EXPECT_FALSE(arena->Take(2, 128));
  EXPECT_FALSE(arena->Take(0, 128)) << "its own place, too";
  RefPtr<Buffer> b = arena->Take(1, 128);
  a.reset();
  EXPECT_FALSE(arena->Take(2, 128));
  b.reset();
  EXPECT_TRUE(arena->Take(2, 128));
  using Pairs = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(arena->TakeClashes(), Pairs({{2, 0}, {0, 0}, {2, 1}}));
  EXPECT_EQ(arena->TakeClashes(), Pairs());
}

TEST(Arena, ClosedGivesItsBlockBack) {
  const int64_t before = HostAllocator()->stats().live_bytes;
  const auto arena = Opened({{0, 4096}}, 4096);
  EXPECT_EQ(HostAllocator()->stats().live_bytes, before + 4096);
  arena->Take(0, 4096).reset();
  EXPECT_EQ(arena->Close(), Numbers());
  EXPECT_EQ(HostAllocator()->stats().live_bytes, before);
  EXPECT_FALSE(arena->Take(0, 64));
  arena->Open(HostAllocator());
  EXPECT_TRUE(arena->Take(0, 64));
}

TEST(Arena, WhatIsHeldWhenItClosesKeepsTheBlock) {
  const int64_t before = HostAllocator()->stats().live_bytes;
  auto arena = Opened({{0, 4096}, {4096, 4096}}, 8192);
  RefPtr<Buffer> held = arena->Take(1, 4096);
  std::memset(held->data(), 7, 4096);
  EXPECT_EQ(arena->Close(), Numbers({1}));
  arena.reset();
  EXPECT_EQ(HostAllocator()->stats().live_bytes, before + 8192);
  EXPECT_EQ(static_cast<char*>(held->data())[4095], 7);
  held.reset();
  EXPECT_EQ(HostAllocator()->stats().live_bytes, before);
}

TEST(Arena, GivesNothingWithoutMemory) {
  class Empty : public Allocator {
   public:
    std::string name() const override { return "empty"; }
    RefPtr<Buffer> Allocate(size_t) override { return nullptr; }
    AllocatorStats stats() const override { return {}; }
  } allocator;
  const auto arena = RefPtr<Arena>(new Arena({{0, 64}}, 64));
  arena->Open(&allocator);
  EXPECT_FALSE(arena->Take(0, 64));
  EXPECT_EQ(arena->Close(), Numbers());
}

TEST(Arena, ThreadsThatWantOnePlaceGetItInTurns) {
  const auto arena = Opened({{0, 256}, {128, 256}}, 384);
  std::atomic<int> torn{0};
  const auto use = [&](size_t number, int mark) {
    for (int i = 0; i < 2000; ++i) {
      const RefPtr<Buffer> buffer = arena->Take(number, 256);
      if (!buffer) continue;
      char* const bytes = static_cast<char*>(buffer->data());
      std::memset(bytes, mark, 256);
      for (int j = 0; j < 256; ++j) torn += bytes[j] != mark;
    }
  };
  std::thread other(use, 0, 1);
  use(1, 2);
  other.join();
  EXPECT_EQ(torn, 0);
}

}  // namespace
}  // namespace tandem
