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

// Writes a small file and gives it its name behind the fence.
absl::Status WriteBehind(FileSystem& files, const std::string& path, const std::string& text) {
  return WriteFileAtomically(&files, path, text);
}

TEST(Fence, AnOldChiefMayNotWriteOnceANewOneHasRaisedIt) {
  const std::string folder = NewFolder("fence");
  const std::string path = folder + "/checkpoint";
  const auto old_chief = Fence::Open(folder);
  const auto new_chief = Fence::Open(folder);
  ASSERT_TRUE(old_chief.ok() && new_chief.ok());
  EXPECT_EQ((*old_chief)->Raise(3)->generation, 3u);
  const auto old_files = (*old_chief)->Files(3);
  EXPECT_TRUE(WriteBehind(*old_files, path, "old").ok());
  EXPECT_TRUE((*old_chief)->NoteStep(3, 70).ok());
  EXPECT_EQ((*new_chief)->Raise(4)->generation, 4u);
  EXPECT_EQ((*new_chief)->Raise(4)->step, 70);  // Again is the same.
  const absl::Status refused = WriteBehind(*old_files, path, "too late");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "generation 4")) << refused;
  EXPECT_TRUE(absl::IsFailedPrecondition(old_files->Remove(path)));
  EXPECT_TRUE(absl::IsFailedPrecondition((*old_chief)->NoteStep(3, 71)));
  EXPECT_EQ(*ReadFile(PosixFileSystem(), path), "old");
  const auto new_files = (*new_chief)->Files(4);
  EXPECT_TRUE(WriteBehind(*new_files, path, "new").ok());
  EXPECT_EQ(*ReadFile(PosixFileSystem(), path), "new");
  EXPECT_TRUE((*new_chief)->NoteStep(4, 80).ok());
  // It cannot come back either.
  EXPECT_EQ((*old_chief)->Raise(3)->generation, 4u);
  EXPECT_EQ((*new_chief)->Raise(9)->step, 80);
  EXPECT_TRUE(new_files->Stat(path).ok());
}

// A save goes on in the background while its chief begins to lead the next generation.
TEST(Fence, AChiefThatLeadsOnEndsWhatItBegan) {
  const std::string folder = NewFolder("leads_on");
  const std::string path = folder + "/checkpoint";
  const auto fence = Fence::Open(folder);
  const auto other = Fence::Open(folder);
  ASSERT_TRUE(fence.ok() && other.ok());
  ASSERT_TRUE((*fence)->Raise(2).ok());
  const auto files = (*fence)->Files(2);
  ASSERT_TRUE((*fence)->Raise(3).ok());
  ASSERT_TRUE((*fence)->Raise(5).ok());
  EXPECT_TRUE(WriteBehind(*files, path, "of generation 2").ok());
  EXPECT_EQ(*ReadFile(PosixFileSystem(), path), "of generation 2");
  EXPECT_TRUE((*fence)->NoteStep(2, 11).ok());
  EXPECT_TRUE((*fence)->NoteStep(3, 10).ok());  // No news: steps do not go back.
  EXPECT_EQ((*fence)->Raise(6)->step, 11);
  // Once another one led in between, what was begun before is over.
  ASSERT_TRUE((*other)->Raise(7).ok());
  ASSERT_TRUE((*fence)->Raise(8).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteBehind(*files, path, "late")));
  EXPECT_TRUE(absl::IsFailedPrecondition((*fence)->NoteStep(6, 12)));
  EXPECT_TRUE(WriteBehind(*(*fence)->Files(8), path, "of generation 8").ok());
  EXPECT_EQ(*ReadFile(PosixFileSystem(), path), "of generation 8");
}

TEST(Fence, WhoStopsBetweenTheTwoRenamesWritesNothing) {
  const std::string folder = NewFolder("between");
  const auto fence = Fence::Open(folder);
  ASSERT_TRUE(fence.ok());
  ASSERT_TRUE((*fence)->Raise(1).ok());
  // The first one is done, the second one is not, when another chief comes.
  const std::string passage = folder + "/.membership/chief-1/0.checkpoint";
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), passage, "late").ok());
  ASSERT_TRUE((*fence)->Raise(2).ok());
  EXPECT_TRUE(absl::IsNotFound(PosixFileSystem()->Rename(passage, folder + "/checkpoint")));
  // What was under way is swept up.
  const auto names = PosixFileSystem()->ListDirectory(folder + "/.membership");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, std::vector<std::string>{"chief-2"});
}

TEST(Fence, ErrorsOfFilesStayWhatTheyAre) {
  const std::string folder = NewFolder("errors");
  const auto fence = Fence::Open(folder);
  ASSERT_TRUE(fence.ok());
  ASSERT_TRUE((*fence)->Raise(1).ok());
  const auto files = (*fence)->Files(1);
  EXPECT_TRUE(absl::IsNotFound(files->Remove(folder + "/nothing")));
  EXPECT_TRUE(absl::IsNotFound(files->Rename(folder + "/nothing", folder + "/something")));
}

TEST(Fence, OfManyThatRaiseItAtOnceTheLastOneIsLeft) {
  const std::string folder = NewFolder("many");
  constexpr int kChiefs = 8;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (uint64_t generation = 1; generation <= kChiefs; ++generation) {
    threads.emplace_back([&, generation] {
      const auto fence = Fence::Open(folder);
      const auto state = (*fence)->Raise(generation);
      // Who was shut out meanwhile may be told so by an error.
      if (state.ok() && state->generation < generation) ++wrong;
      WriteBehind(*(*fence)->Files(generation), folder + "/checkpoint", "x").IgnoreError();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const auto fence = Fence::Open(folder);
  for (uint64_t generation = 1; generation < kChiefs; ++generation) {
    EXPECT_EQ((*fence)->Raise(generation)->generation, static_cast<uint64_t>(kChiefs));
    EXPECT_FALSE(WriteBehind(*(*fence)->Files(generation), folder + "/checkpoint", "x").ok());
  }
  EXPECT_TRUE(WriteBehind(*(*fence)->Files(kChiefs), folder + "/checkpoint", "x").ok());
}

}  // namespace
}  // namespace tandem::membership
