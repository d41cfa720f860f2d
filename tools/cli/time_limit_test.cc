#include "tools/cli/time_limit.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace tandem::cli {
namespace {

// What a limit tells, as somebody who waits for it hears it.
class Listener {
 public:
  void Expired(const std::string& doing) {
    MutexLock lock(mu_);
    doing_ = doing;
    changed_.NotifyAll();
  }
  std::string Wait() {
    MutexLock lock(mu_);
    while (doing_.empty()) changed_.Wait(mu_);
    return doing_;
  }
  bool has_heard() {
    MutexLock lock(mu_);
    return !doing_.empty();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::string doing_ ABSL_GUARDED_BY(mu_);
};

TEST(TimeLimit, TellsWhatWasBeingDoneWhenItPasses) {
  Listener listener;
  TimeLimit limit(absl::Milliseconds(1),
                  [&](const std::string& doing) { listener.Expired(doing); });
  EXPECT_EQ(listener.Wait(), "starting");
  EXPECT_EQ(limit.DoingWhatEndsItself("running"), absl::ZeroDuration());
}

TEST(TimeLimit, SaysNothingWhenTheCommandEndsInTime) {
  Listener listener;
  const auto expired = [&](const std::string& doing) { listener.Expired(doing); };
  {
    TimeLimit limit(absl::Hours(1), expired);
    limit.Doing("reading");
    const absl::Duration left = limit.DoingWhatEndsItself("running");
    EXPECT_GT(left, absl::Minutes(59));
    EXPECT_LE(left, absl::Hours(1));
  }
  {
    TimeLimit none(absl::InfiniteDuration(), expired);
    EXPECT_EQ(none.DoingWhatEndsItself("running"), absl::InfiniteDuration());
  }
  EXPECT_FALSE(listener.has_heard());
}

}  // namespace
}  // namespace tandem::cli
