#include "runtime/cluster/membership/preemption_notice.h"

#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/io/file.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

std::string Path(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/notice_", name, "_", getpid());
}

TEST(PreemptionNotice, TellsOnceThatTheFileIsThere) {
  const std::string path = Path("comes");
  Event told;
  std::atomic<int> times = 0;
  {
    const auto notice = PreemptionNotice::Watch(path, absl::Milliseconds(5), [&] {
      ++times;
      told.Set();
    });
    ASSERT_TRUE(notice.ok()) << notice.status();
    EXPECT_FALSE(told.Wait(absl::Now() + absl::Milliseconds(20)));
    ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, "").ok());
    EXPECT_TRUE(told.Wait(absl::Now() + absl::Seconds(60)));
  }
  EXPECT_EQ(times, 1);
}

TEST(PreemptionNotice, EndsAtOnceWhenNobodyWantsToKnowAnyMore) {
  const auto notice = PreemptionNotice::Watch(Path("never"), absl::Hours(10),
                                              [] { ADD_FAILURE() << "there is no notice"; });
  ASSERT_TRUE(notice.ok()) << notice.status();
}

TEST(PreemptionNotice, WhatIsNoFileIsRefused) {
  const auto nothing = [] {};
  EXPECT_TRUE(
      absl::IsInvalidArgument(PreemptionNotice::Watch("", absl::Seconds(1), nothing).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      PreemptionNotice::Watch("x", absl::ZeroDuration(), nothing).status()));
  EXPECT_TRUE(absl::IsUnimplemented(
      PreemptionNotice::Watch("http://169.254.169.254/notice", absl::Seconds(1), nothing)
          .status()));
}

}  // namespace
}  // namespace tandem
