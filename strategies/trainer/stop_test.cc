// How a training ends before its time.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "runtime/input/functions.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/trainer/signals.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

using testing::ClassificationEpochs;

class Stopping : public ::testing::Test {
 protected:
  Stopping()
      : strategy_(*Strategy::OneDevice({})),
        trainer_(*strategy_, nn::Sequential({nn::Dense({.units = testing::kClasses})}),
                 loss::SparseSoftmaxCrossEntropy(), optimizer::Sgd({})) {}

  // Trains 20 steps; calls `act` after step 3. Gives the steps that were done.
  int64_t Fit(const std::function<void()>& act, FitOptions fit = {}) {
    int64_t steps = 0;
    fit.on_step = [&](const TrainingProgress& progress) {
      steps = progress.step;
      if (steps == 3) act();
      return true;
    };
    status_ = trainer_.Fit(ClassificationEpochs(20), fit).status();
    return steps;
  }

  const std::unique_ptr<Strategy> strategy_;
  Trainer trainer_;
  absl::Status status_;
};

TEST_F(Stopping, StopEndsAfterTheRunningStep) {
  EXPECT_EQ(Fit([&] { trainer_.Stop(); }), 3);
  EXPECT_EQ(status_.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ExitCodeOf(status_), 130);
}

TEST_F(Stopping, AStopBeforeFitCountsAndIsFulfilledOnce) {
  trainer_.Stop(StopReason::kPreempted);
  EXPECT_EQ(Fit([] {}), 0);
  EXPECT_EQ(status_.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ExitCodeOf(status_), 143);
  EXPECT_EQ(Fit([] {}), 20);
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(Stopping, SigtermEndsWithTheCodeThatAsksForARestart) {
  EXPECT_EQ(Fit([] { std::raise(SIGTERM); }), 3);
  EXPECT_EQ(ExitCodeOf(status_), 143);
  EXPECT_TRUE(absl::StrContains(status_.message(), "SIGTERM")) << status_;
}

TEST_F(Stopping, SigintEndsWithTheCodeOfAnInterrupt) {
  EXPECT_EQ(Fit([] { std::raise(SIGINT); }), 3);
  EXPECT_EQ(ExitCodeOf(status_), 130);
  EXPECT_TRUE(absl::StrContains(status_.message(), "SIGINT")) << status_;
  EXPECT_TRUE(absl::StrContains(status_.message(), "there are no checkpoints")) << status_;
}

TEST_F(Stopping, SighupEndsATrainingToo) {
  std::signal(SIGHUP, SIG_DFL);  // Whoever started the test may ignore it.
  EXPECT_EQ(Fit([] { std::raise(SIGHUP); }), 3);
  EXPECT_EQ(ExitCodeOf(status_), 129);
  EXPECT_TRUE(absl::StrContains(status_.message(), "SIGHUP")) << status_;
}

TEST_F(Stopping, ASighupThatIsIgnoredStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(Fit([] { std::raise(SIGHUP); }), 20);
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

std::function<void()> stop;  // What the fifth example of a validation does.
int64_t last_example = 0;

const bool stop_registered = data::RegisterMapFunction(
    "stop_test_stop",
    [](const data::MapContext& context, data::Element element) -> absl::StatusOr<data::Element> {
      last_example = context.index;
      if (context.index == 4) stop();
      return element;
    });

TEST_F(Stopping, AValidationEndsToo) {
  ASSERT_TRUE(stop_registered);
  FitOptions fit;
  fit.validation = data::Dataset::FromTensors(testing::ClassificationBatch(9, 30))
                       .Map("stop_test_stop")
                       .Batch(5);
  stop = [] { std::raise(SIGTERM); };
  EXPECT_EQ(Fit([] {}, fit), 20);
  EXPECT_EQ(ExitCodeOf(status_), 143) << status_;
  EXPECT_EQ(last_example, 4);
  stop = [this] { trainer_.Stop(); };
  EXPECT_EQ(Fit([] {}, fit), 20);
  EXPECT_EQ(ExitCodeOf(status_), 130) << status_;
  EXPECT_EQ(last_example, 4);
  stop = nullptr;
}

TEST(StopOnSignals, SeesWhatCameSinceItWasMade) {
  const StopOnSignals first(/*active=*/true);
  std::raise(SIGTERM);
  const StopOnSignals second(/*active=*/true);
  EXPECT_EQ(first.received(), SIGTERM);
  EXPECT_EQ(second.received(), 0);
}

TEST(StopOnSignals, OneThatHasSeenNoneIsNotEndedByWhatOthersSaw) {
  auto first = std::make_unique<StopOnSignals>(/*active=*/true);
  std::raise(SIGTERM);
  const StopOnSignals second(/*active=*/true);
  EXPECT_EQ(first->received(), SIGTERM);
  first.reset();
  // The first one for those that live: the process goes on.
  std::raise(SIGINT);
  EXPECT_EQ(second.received(), SIGINT);
}

TEST(StopOnSignals, ATerminalIsToldThatTheSignalWasHeard) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(other_end, 0);
  const int former = dup(STDERR_FILENO);
  dup2(other_end, STDERR_FILENO);
  {
    const StopOnSignals signals(/*active=*/true);
    std::raise(SIGINT);
    EXPECT_EQ(signals.received(), SIGINT);
  }
  dup2(former, STDERR_FILENO);
  char text[256] = {};
  ASSERT_GT(read(terminal, text, sizeof(text) - 1), 0);
  EXPECT_TRUE(absl::StrContains(text, "it ends after the running step")) << text;
  for (const int descriptor : {terminal, other_end, former}) close(descriptor);
}

int handled = 0;

TEST_F(Stopping, TheFormerHandlersAreBackAfterFit) {
  std::signal(SIGTERM, [](int) { ++handled; });
  Fit([] { std::raise(SIGTERM); });
  EXPECT_EQ(handled, 0);
  std::raise(SIGTERM);
  EXPECT_EQ(handled, 1);
  // A program that handles its signals itself.
  FitOptions fit;
  fit.handle_signals = false;
  EXPECT_EQ(Fit([] { std::raise(SIGTERM); }, fit), 20);
  EXPECT_EQ(handled, 2);
  std::signal(SIGTERM, SIG_DFL);
}

TEST_F(Stopping, OnStepMayEndTheTrainingWithSuccess) {
  FitOptions fit;
  fit.epochs = 4;
  fit.on_step = [&](const TrainingProgress& progress) { return progress.step < 5; };
  const auto history = trainer_.Fit(ClassificationEpochs(20), fit);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->size(), 1u);
  EXPECT_EQ(history->back().examples, 100);
}

}  // namespace
}  // namespace tandem
