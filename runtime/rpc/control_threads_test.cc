#include "runtime/rpc/control_threads.h"

#include <atomic>

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(ControlThreads, WorkGoesOnBesideWorkThatTakesLong) {
  std::atomic<int> done{0};
  {
    ControlThreads threads(/*most_threads=*/2);
    Event go_on;
    Event other;
    threads.Run([&] {
      go_on.Wait();
      ++done;
    });
    threads.Run([&] {
      ++done;
      other.Set();
    });
    EXPECT_TRUE(other.Wait(absl::Now() + absl::Seconds(60)));
    EXPECT_EQ(done, 1);
    for (int i = 0; i < 100; ++i) threads.Run([&] { ++done; });
    go_on.Set();
  }
  // What was asked for is done before it ends.
  EXPECT_EQ(done, 102);
}

}  // namespace
}  // namespace tandem
