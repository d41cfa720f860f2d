#include "runtime/device/cuda/gpu_memory.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/device/conformance/conformance_gpu_code.h"
#include "runtime/device/cuda/emulated/emulated_gpu.h"

namespace tandem {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(SizeClasses, AreAnEighthApartAndNeverTooSmall) {
  for (size_t bytes : {0, 1, 255, 256, 257, 1000, 4095, 4096, 4097, 100000, 12345678}) {
    const size_t rounded = RoundUpToSizeClass(bytes);
    EXPECT_GE(rounded, bytes);
    EXPECT_EQ(rounded % kBufferAlignment, 0u);
    EXPECT_LE(rounded, bytes + std::max<size_t>(bytes / 8, 256)) << bytes;
    EXPECT_EQ(RoundUpToSizeClass(rounded), rounded);
  }
}

class GpuMemoryTest : public ::testing::Test {
 protected:
  RefPtr<GpuMemory> MakeMemory(int64_t limit) {
    std::shared_ptr<GpuContext> context = *platform_.Open(0);
    queue_ = *GpuStreamQueue::Create("GPU:0", context, /*blocking=*/false);
    return MakeRef<GpuMemory>("GPU:0", queue_, limit);
  }

  EmulatedGpuPlatform platform_;
  std::shared_ptr<GpuStreamQueue> queue_;
};

TEST_F(GpuMemoryTest, AsksTheDriverSeldom) {
  const RefPtr<GpuMemory> memory = MakeMemory(256 * kMiB);
  for (int step = 0; step < 100; ++step) {
    std::vector<RefPtr<Buffer>> buffers;
    for (int i = 1; i <= 50; ++i) {
      buffers.push_back(memory->Allocate(static_cast<size_t>(i) * 10000));
      ASSERT_NE(buffers.back(), nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back()->data()) % 256, 0u);
      buffers.push_back(*memory->AllocateArrival(static_cast<size_t>(i) * 100));
    }
  }
  EXPECT_LE(platform_.counts().allocations, 10);
  EXPECT_EQ(platform_.counts().waits_of_host, 0);
  EXPECT_EQ(memory->stats().live_bytes, 0);
}

TEST_F(GpuMemoryTest, MemoryThatIsFreedServesTheNextAtOnce) {
  const RefPtr<GpuMemory> memory = MakeMemory(4 * kMiB);
  const void* const first = memory->Allocate(3 * kMiB)->data();
  EXPECT_EQ(memory->Allocate(3 * kMiB)->data(), first) << "in the order of the stream";
}

TEST_F(GpuMemoryTest, GivesWhatArrivalsKeepToKernelsThatNeedIt) {
  const RefPtr<GpuMemory> memory = MakeMemory(4 * kMiB);
  ASSERT_TRUE(memory->AllocateArrival(3 * kMiB).ok());
  const RefPtr<Buffer> buffer = memory->Allocate(3 * kMiB);
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(memory->AllocateArrival(3 * kMiB).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(memory->Allocate(2 * kMiB), nullptr);
  EXPECT_NE(memory->Allocate(kMiB), nullptr);
}

TEST_F(GpuMemoryTest, CopiesInWaitForTheLastUseOfTheirMemoryAndForNothingElse) {
  const GpuFunction<int32_t*, int32_t, int64_t> append{{&kConformanceGpuCode, "ConformanceAppend"}};
  const RefPtr<GpuMemory> memory = MakeMemory(4 * kMiB);
  const auto finish_copies = [&] {
    const GpuEvent end = *queue_->Mark(queue_->copy_in());
    ASSERT_TRUE(queue_->context().Synchronize(end).ok());
    queue_->GiveBack(end);
  };
  RefPtr<Buffer> first = *memory->AllocateArrival(1000);
  auto* const values = static_cast<int32_t*>(first->data());
  ASSERT_TRUE(queue_->Fill(values, 0, 1000).ok());
  ASSERT_TRUE(queue_->Run(append, {1, 32}, values, 5, int64_t{250}).ok());

  const RefPtr<Buffer> second = *memory->AllocateArrival(1000);
  finish_copies();
  EXPECT_EQ(platform_.counts().runs, 0) << "the second block has nothing to do with the first";

  first.reset();
  const RefPtr<Buffer> again = *memory->AllocateArrival(1000);
  ASSERT_EQ(again->data(), values);
  finish_copies();
  EXPECT_EQ(platform_.counts().runs, 1) << "what reads the block comes before it is overwritten";
}

TEST_F(GpuMemoryTest, BuffersMayOutliveTheirAllocatorsOwner) {
  RefPtr<Buffer> pooled;
  RefPtr<Buffer> arrived;
  RefPtr<Buffer> pinned;
  {
    const RefPtr<GpuMemory> memory = MakeMemory(4 * kMiB);
    const std::shared_ptr<GpuContext> context = *platform_.Open(0);
    pooled = memory->Allocate(100);
    arrived = *memory->AllocateArrival(100);
    pinned = MakeRef<PinnedMemory>("pinned", context)->Allocate(100);
    queue_.reset();
  }
  static_cast<char*>(pinned->data())[99] = 1;  // Still there.
}

}  // namespace
}  // namespace tandem
