#include <csignal>

#include "gtest/gtest.h"
#include "strategies/trainer/signals.h"

namespace tandem {
namespace {

TEST(StopOnSignals, ASecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopOnSignals signals(/*active=*/true);
        std::raise(SIGTERM);
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace tandem
