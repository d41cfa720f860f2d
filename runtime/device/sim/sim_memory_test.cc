#include "runtime/device/sim/sim_memory.h"

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

RefPtr<SimMemory> Make(int64_t limit = 64 * kMiB) {
  absl::StatusOr<RefPtr<SimMemory>> memory = SimMemory::Create("SIM:0", limit);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

void* Inside(const SimMemory& memory, const Buffer& buffer) {
  const SimMemory::Access access(memory);
  return buffer.Localize(buffer.data());
}

TEST(SimMemory, AlignsBuffersOfEverySizeAndAllOfThemCanBeUsedInside) {
  const RefPtr<SimMemory> memory = Make();
  for (const size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 5000000u}) {
    const RefPtr<Buffer> buffer = memory->Allocate(bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->size(), bytes);
    void* const inside = Inside(*memory, *buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(inside) % kBufferAlignment, 0u) << bytes;
    std::memset(inside, 0xff, bytes);
  }
}

TEST(SimMemory, AnAddressCanBeTakenAcrossAndBackFromEitherSide) {
  const RefPtr<SimMemory> memory = Make(64);  // One block, so that its end is the end of all.
  const RefPtr<Buffer> buffer = memory->Allocate(64);
  for (const int offset : {0, 1, 63, 64}) {
    char* const outside = static_cast<char*>(buffer->data()) + offset;
    char* inside = nullptr;
    {
      const SimMemory::Access access(*memory);
      inside = static_cast<char*>(buffer->Localize(outside));
      EXPECT_NE(inside, outside);
      EXPECT_EQ(buffer->Localize(inside), inside) << "it is inside already";
    }
    EXPECT_EQ(buffer->Localize(inside), outside);
    EXPECT_EQ(buffer->Localize(outside), outside);
  }
}

TEST(SimMemory, AccessToOneDeviceIsNoAccessToAnother) {
  const RefPtr<SimMemory> mine = Make();
  const RefPtr<SimMemory> other = Make();
  const RefPtr<Buffer> buffer = mine->Allocate(8);
  const SimMemory::Access access(*mine);
  EXPECT_NE(buffer->Localize(buffer->data()), buffer->data());
  {
    const SimMemory::Access inner(*other);
    EXPECT_EQ(buffer->Localize(buffer->data()), buffer->data());
  }
  EXPECT_NE(buffer->Localize(buffer->data()), buffer->data());
  std::thread([&] { EXPECT_EQ(buffer->Localize(buffer->data()), buffer->data()); }).join();
}

TEST(SimMemory, HasExactlyItsLimit) {
  const RefPtr<SimMemory> memory = Make(kMiB);
  EXPECT_FALSE(memory->Allocate(kMiB + 1));
  EXPECT_FALSE(memory->Allocate(SIZE_MAX));
  std::vector<RefPtr<Buffer>> buffers;
  while (RefPtr<Buffer> buffer = memory->Allocate(kMiB / 16)) buffers.push_back(buffer);
  EXPECT_EQ(buffers.size(), 16u);
  EXPECT_FALSE(memory->Allocate(1));
  EXPECT_EQ(memory->stats().live_bytes, kMiB);
  buffers.clear();
  EXPECT_EQ(memory->stats().live_bytes, 0);
  EXPECT_EQ(memory->stats().peak_bytes, kMiB);
  EXPECT_TRUE(memory->Allocate(kMiB)) << "freed neighbours are one block again";
}

TEST(SimMemory, FreedBlocksMergeInWhicheverOrderTheyGo) {
  for (const std::vector<size_t>& order :
       std::vector<std::vector<size_t>>{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    const RefPtr<SimMemory> memory = Make(3 * 64);
    std::vector<RefPtr<Buffer>> buffers;
    for (int i = 0; i < 3; ++i) buffers.push_back(memory->Allocate(64));
    for (const size_t i : order) buffers[i].reset();
    EXPECT_TRUE(memory->Allocate(3 * 64));
  }
}

TEST(SimMemory, TakesTheBlockThatFitsBest) {
  const RefPtr<SimMemory> memory = Make();
  RefPtr<Buffer> large = memory->Allocate(4096);
  const RefPtr<Buffer> between = memory->Allocate(64);
  RefPtr<Buffer> small = memory->Allocate(128);
  const RefPtr<Buffer> last = memory->Allocate(64);
  void* const small_place = small->data();
  void* const large_place = large->data();
  large.reset();
  small.reset();
  const RefPtr<Buffer> again = memory->Allocate(100);
  EXPECT_EQ(again->data(), small_place);
  EXPECT_EQ(memory->Allocate(1000)->data(), large_place);
}

TEST(SimMemory, ABufferKeepsItsMemoryAlive) {
  RefPtr<SimMemory> memory = Make();
  const RefPtr<Buffer> buffer = memory->Allocate(1000);
  char* const inside = static_cast<char*>(Inside(*memory, *buffer));
  memory.reset();
  std::memset(inside, 1, 1000);
  EXPECT_EQ(inside[999], 1);
}

TEST(SimMemory, KnowsItsTensorsAndTheirViews) {
  const RefPtr<SimMemory> memory = Make();
  const Tensor on_host = Tensor::Scalar<float>(1);
  EXPECT_FALSE(memory->Holds(on_host));
  EXPECT_FALSE(memory->Holds(Tensor()));
  const absl::StatusOr<Tensor> here = Tensor::Create(kFloat32, {4, 2}, memory.get());
  ASSERT_TRUE(here.ok());
  EXPECT_TRUE(memory->Holds(*here));
  EXPECT_TRUE(memory->Holds(here->Slice(4, 4)));
  const SimMemory::Access access(*memory);
  EXPECT_TRUE(memory->Holds(*Tensor::Create(kFloat32, {}, memory.get())));
}

TEST(SimMemory, RefusesALimitThatIsNone) {
  EXPECT_EQ(SimMemory::Create("SIM:0", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SimMemory::Create("SIM:0", -1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SimMemory::Create("SIM:0", INT64_MAX).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SimMemory, ThreadsShareIt) {
  const RefPtr<SimMemory> memory = Make();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      const SimMemory::Access access(*memory);
      for (size_t i = 0; i < 2000; ++i) {
        const RefPtr<Buffer> buffer = memory->Allocate(1 + (i * 37) % 5000);
        ASSERT_TRUE(buffer);
        char* const data = static_cast<char*>(buffer->Localize(buffer->data()));
        std::memset(data, t, buffer->size());
        ASSERT_EQ(data[buffer->size() - 1], t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory->stats().live_bytes, 0);
}

TEST(SimMemoryDeathTest, TheHostFaultsWhereItTouchesATensor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const RefPtr<SimMemory> memory = Make();
  absl::StatusOr<Tensor> tensor = Tensor::Create(kInt32, {4}, memory.get());
  ASSERT_TRUE(tensor.ok());
  // A sanitizer reports the signal itself and exits, so only the end is the same everywhere.
  EXPECT_DEATH(tensor->MutableElements<int32_t>()[0] = 1, "");
  EXPECT_DEATH({ [[maybe_unused]] volatile int32_t seen = tensor->Elements<int32_t>()[3]; }, "");
}

}  // namespace
}  // namespace tandem
