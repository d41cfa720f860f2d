// What members share in a folder: the arbiter and the fence.
#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/io/file.h"
#include "gtest/gtest.h"
#include "runtime/cluster/membership/fence.h"
#include "runtime/cluster/membership/folder_arbiter.h"

namespace tandem::membership {
namespace {

std::string NewFolder(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/membership_", name, "_", getpid());
}

Generation MakeGeneration(uint64_t number, const std::string& chief) {
  Generation generation;
  generation.set_run(1);
  generation.set_number(number);
  generation.add_members()->set_name(chief);
  return generation;
}

TEST(FolderArbiter, ANewFolderHasNoGeneration) {
  const auto arbiter = FolderArbiter::Open(NewFolder("empty"));
  ASSERT_TRUE(arbiter.ok()) << arbiter.status();
  const auto state = (*arbiter)->Read();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->generation().number(), 0u);
}

TEST(FolderArbiter, ANumberIsClaimedOnceHoweverManyTry) {
  const std::string folder = NewFolder("race");
  constexpr int kThreads = 8;
  constexpr uint64_t kNumbers = 12;
  std::vector<std::atomic<int>> winners(kNumbers + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto arbiter = FolderArbiter::Open(folder);
      ASSERT_TRUE(arbiter.ok()) << arbiter.status();
      for (uint64_t number = 1; number <= kNumbers; ++number) {
        const auto claim =
            (*arbiter)->Claim(MakeGeneration(number, absl::StrCat("worker:", t)), number - 1);
        ASSERT_TRUE(claim.ok()) << claim.status();
        if (claim->won()) {
          ++winners[number];
          EXPECT_EQ(claim->state().generation().members(0).name(), absl::StrCat("worker:", t));
        } else {
          EXPECT_GE(claim->state().generation().number(), number);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t number = 1; number <= kNumbers; ++number) EXPECT_LE(winners[number], 1) << number;
  EXPECT_EQ(winners[kNumbers], 1);
}

TEST(FolderArbiter, AClaimThatComesTooLateLosesAlthoughItsFileIsGone) {
  const auto arbiter = FolderArbiter::Open(NewFolder("late"));
  ASSERT_TRUE(arbiter.ok()) << arbiter.status();
  for (uint64_t number = 1; number <= 20; ++number) {
    const auto claim = (*arbiter)->Claim(MakeGeneration(number, "a"), number - 1);
    ASSERT_TRUE(claim.ok() && claim->won()) << claim.status();
  }
  // Old files go, so that its name is free.
  const auto late = (*arbiter)->Claim(MakeGeneration(5, "b"), 4);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_FALSE(late->won());
  EXPECT_EQ(late->state().generation().number(), 20u);
  // Nor may who has missed generations go beyond them.
  const auto beyond = (*arbiter)->Claim(MakeGeneration(21, "b"), 4);
  ASSERT_TRUE(beyond.ok()) << beyond.status();
  EXPECT_FALSE(beyond->won());
}

TEST(FolderArbiter, TheBeatIsThatOfTheNewestGeneration) {
  const auto arbiter = FolderArbiter::Open(NewFolder("beat"));
  ASSERT_TRUE(arbiter.ok()) << arbiter.status();
  ASSERT_TRUE((*arbiter)->Claim(MakeGeneration(1, "a"), 0).ok());
  ASSERT_EQ((*arbiter)->Renew(1, 7)->beat(), 7u);
  EXPECT_EQ((*arbiter)->Read()->beat(), 7u);
  ASSERT_TRUE((*arbiter)->Claim(MakeGeneration(2, "b"), 1).ok());
  EXPECT_EQ((*arbiter)->Read()->beat(), 0u);
  // An old chief's beat changes nothing.
  EXPECT_EQ((*arbiter)->Renew(1, 8)->generation().number(), 2u);
  EXPECT_EQ((*arbiter)->Read()->beat(), 0u);
}

TEST(FolderArbiter, ADamagedFileIsNamed) {
  const std::string folder = NewFolder("damaged");
  const auto arbiter = FolderArbiter::Open(folder);
  ASSERT_TRUE(arbiter.ok()) << arbiter.status();
  ASSERT_TRUE(
      WriteFileAtomically(PosixFileSystem(), folder + "/.membership/generation-3", "no").ok());
  const auto state = (*arbiter)->Read();
  EXPECT_TRUE(absl::IsDataLoss(state.status())) << state.status();
  EXPECT_TRUE(absl::StrContains(state.status().message(), "generation-3")) << state.status();
}

TEST(Fence, AnOldChiefMayNotWriteOnceANewOneHasRaisedIt) {
  const std::string folder = NewFolder("fence");
  const auto old_chief = Fence::Open(folder);
  const auto new_chief = Fence::Open(folder);
  ASSERT_TRUE(old_chief.ok() && new_chief.ok());
  int writes = 0;
  const auto write = [&] {
    ++writes;
    return absl::OkStatus();
  };
  EXPECT_EQ((*old_chief)->Raise(3)->generation, 3u);
  EXPECT_TRUE((*old_chief)->Write(3, 70, write).ok());
  EXPECT_EQ((*new_chief)->Raise(4)->generation, 4u);
  EXPECT_EQ((*new_chief)->Raise(4)->step, 70);
  const absl::Status refused = (*old_chief)->Write(3, 70, write);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "generation 4")) << refused;
  EXPECT_EQ(writes, 1);
  EXPECT_TRUE((*new_chief)->Write(4, 80, write).ok());
  EXPECT_EQ(writes, 2);
  EXPECT_EQ((*old_chief)->Raise(3)->generation, 4u);
  EXPECT_EQ((*old_chief)->Raise(3)->step, 80);
}

TEST(Fence, NobodyRaisesItInTheMiddleOfAWrite) {
  const std::string folder = NewFolder("held");
  const auto writer = Fence::Open(folder);
  const auto other = Fence::Open(folder, /*patience=*/absl::Milliseconds(20));
  ASSERT_TRUE(writer.ok() && other.ok());
  EXPECT_TRUE((*writer)
                  ->Write(1, 5,
                          [&] {
                            EXPECT_TRUE(absl::IsDeadlineExceeded((*other)->Raise(2).status()));
                            return absl::OkStatus();
                          })
                  .ok());
  EXPECT_EQ((*other)->Raise(2)->generation, 2u);
}

}  // namespace
}  // namespace tandem::membership
