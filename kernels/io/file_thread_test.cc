#include "kernels/io/file_thread.h"

#include <atomic>
#include <memory>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"

namespace tandem::io {
namespace {

absl::Time Deadline() { return absl::Now() + absl::Seconds(60); }

TEST(FileThread, WorkRunsOnAnotherThread) {
  std::thread::id id;
  Event done;
  RunOnFileThread([&] {
    id = std::this_thread::get_id();
    done.Set();
  });
  ASSERT_TRUE(done.Wait(Deadline()));
  EXPECT_NE(id, std::this_thread::get_id());
}

TEST(FileThread, WorkThatWaitsDoesNotHoldUpOtherWork) {
  Event first_may_end;
  Event first_ended;
  RunOnFileThread([&] {
    first_may_end.Wait(Deadline());
    first_ended.Set();
  });
  Event second_ended;
  RunOnFileThread([&] { second_ended.Set(); });
  EXPECT_TRUE(second_ended.Wait(Deadline()));
  EXPECT_FALSE(first_ended.IsSet());
  first_may_end.Set();
  EXPECT_TRUE(first_ended.Wait(Deadline()));
}

TEST(FileThread, ManyCallsAllRun) {
  constexpr int kCalls = 1000;
  std::atomic<int> ran{0};
  Event all;
  for (int i = 0; i < kCalls; ++i) {
    RunOnFileThread([&] {
      if (ran.fetch_add(1) + 1 == kCalls) all.Set();
    });
  }
  EXPECT_TRUE(all.Wait(Deadline()));
}

}  // namespace
}  // namespace tandem::io
