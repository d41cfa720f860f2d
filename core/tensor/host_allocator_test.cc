#include "core/tensor/host_allocator.h"

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "core/tensor/buffer.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(HostAllocator, AlignsBuffersOfEverySize) {
  for (size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 32640u, 32768u, 40000u, 1u << 20, 5000000u}) {
    RefPtr<Buffer> buffer = HostAllocator()->Allocate(bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kBufferAlignment, 0u) << bytes;
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(buffer->root(), buffer.get());
    std::memset(buffer->data(), 0xff, bytes);  // All of it can be written.
  }
}

TEST(HostAllocator, CountsWhatIsLiveAndThePeak) {
  Allocator* const allocator = HostAllocator();
  const AllocatorStats before = allocator->stats();
  {
    RefPtr<Buffer> first = allocator->Allocate(1000);
    RefPtr<Buffer> second = allocator->Allocate(100000);
    const AllocatorStats during = allocator->stats();
    EXPECT_EQ(during.live_bytes, before.live_bytes + 101000);
    EXPECT_GE(during.peak_bytes, during.live_bytes);
    EXPECT_EQ(during.allocations, before.allocations + 2);
    RefPtr<Buffer> shared = second;
    EXPECT_EQ(allocator->stats().live_bytes, during.live_bytes) << "a reference takes no memory";
  }
  const AllocatorStats after = allocator->stats();
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_GE(after.peak_bytes, before.live_bytes + 101000);
}

// A sanitizer is to see every block freed: nothing is kept then.
#if !defined(TANDEM_ASAN) && !defined(TANDEM_TSAN)
TEST(HostAllocator, AFreedBlockServesTheNextBufferOfItsSizeClass) {
  // 33 MiB, rounded up, is a class that no other test here uses.
  constexpr size_t kBytes = size_t{33} << 20;
  void* const first = HostAllocator()->Allocate(kBytes)->data();
  RefPtr<Buffer> again = HostAllocator()->Allocate(kBytes - 12345);
  EXPECT_EQ(again->data(), first);
  EXPECT_EQ(again->size(), kBytes - 12345);
  RefPtr<Buffer> other = HostAllocator()->Allocate(kBytes);
  EXPECT_NE(other->data(), first) << "the block is taken";
}

TEST(HostAllocator, GivesAKeptBlockBackOnRequest) {
  // A class that no other test here uses, of blocks that the system maps one by one.
  constexpr size_t kBytes = size_t{41} << 20;
  HostAllocator()->Allocate(kBytes).reset();
  const size_t before = mallinfo2().hblkhd;
  ReleaseKeptHostBlock(kBytes);
  EXPECT_LE(mallinfo2().hblkhd + kBytes, before);
  ReleaseKeptHostBlock(kBytes);  // There is none any more.
  ReleaseKeptHostBlock(1);       // Such are never kept.
}
#endif

TEST(HostAllocator, SaysSoWhenThereIsNotEnoughMemory) {
  const AllocatorStats before = HostAllocator()->stats();
  EXPECT_FALSE(HostAllocator()->Allocate(SIZE_MAX));
  EXPECT_FALSE(HostAllocator()->Allocate(SIZE_MAX / 2));
  EXPECT_FALSE(HostAllocator()->Allocate(size_t{1} << 60));
  EXPECT_EQ(HostAllocator()->stats().live_bytes, before.live_bytes);
}

TEST(HostAllocator, ServesThreadsAtOnce) {
  const int64_t before = HostAllocator()->stats().live_bytes;
  std::vector<std::thread> threads;
  for (unsigned char id = 1; id <= 4; ++id) {
    threads.emplace_back([id] {
      for (size_t round = 0; round < 200; ++round) {
        const size_t bytes = 20000 + round * 331;
        RefPtr<Buffer> buffer = HostAllocator()->Allocate(bytes);
        auto* const data = static_cast<unsigned char*>(buffer->data());
        std::memset(data, id, bytes);
        EXPECT_EQ(std::count(data, data + bytes, id), static_cast<std::ptrdiff_t>(bytes));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(HostAllocator()->stats().live_bytes, before);
}

}  // namespace
}  // namespace tandem
