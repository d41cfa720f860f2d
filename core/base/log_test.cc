#include "core/base/log.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Collects what is logged while it lives, at the level Info.
class Capture {
 public:
  Capture() {
    SetLogLevel(LogSeverity::kInfo);
    SetLogSink([this](LogSeverity, absl::string_view text) { lines_.emplace_back(text); });
  }
  ~Capture() { SetLogSink(nullptr); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

TEST(LogTest, AnEnabledLineHasAllItsParts) {
  Capture capture;
  TANDEM_LOG(Info) << "step " << 7 << " took " << 1.5 << " s";
  EXPECT_THAT(capture.lines(), ElementsAre("step 7 took 1.5 s"));
}

TEST(LogTest, ADisabledLineIsNotEvaluated) {
  Capture capture;
  int evaluated = 0;
  TANDEM_LOG(Debug) << ++evaluated;
  EXPECT_THAT(capture.lines(), IsEmpty());
  EXPECT_EQ(evaluated, 0);
  SetLogLevel(LogSeverity::kDebug);
  TANDEM_LOG(Debug) << ++evaluated;
  EXPECT_EQ(evaluated, 1);
}

TEST(LogTest, TheMacroIsOneStatement) {
  Capture capture;
  if (capture.lines().empty())
    TANDEM_LOG(Info) << "then";
  else
    TANDEM_LOG(Info) << "else";
  EXPECT_THAT(capture.lines(), ElementsAre("then"));
}

TEST(LogTest, ARateLimitedLineIsWrittenOnceInItsInterval) {
  Capture capture;
  for (int i = 0; i < 5; ++i) TANDEM_LOG_EVERY(Warning, absl::Hours(1)) << "line " << i;
  EXPECT_THAT(capture.lines(), ElementsAre("line 0"));
}

TEST(LogTest, ARateLimitSaysHowManyItLeftOut) {
  LogRateLimit limit;
  EXPECT_EQ(limit.Allow(absl::ZeroDuration()), 0);
  EXPECT_EQ(limit.Allow(absl::ZeroDuration()), 0);
  LogRateLimit slow;
  EXPECT_EQ(slow.Allow(absl::Hours(1)), 0);
  EXPECT_EQ(slow.Allow(absl::Hours(1)), -1);
  EXPECT_EQ(slow.Allow(absl::Hours(1)), -1);

  Capture capture;
  LogMessage(LogSeverity::kInfo, __FILE__, __LINE__, 3).stream() << "again";
  EXPECT_THAT(capture.lines(), ElementsAre("again (3 lines like this left out)"));
}

TEST(LogTest, LevelsAreParsedByName) {
  LogSeverity least = LogSeverity::kInfo;
  EXPECT_TRUE(ParseLogLevel("ERROR", &least));
  EXPECT_EQ(least, LogSeverity::kError);
  EXPECT_TRUE(ParseLogLevel("off", &least));
  EXPECT_EQ(least, LogSeverity::kFatal);
  EXPECT_FALSE(ParseLogLevel("loud", &least));
  EXPECT_FALSE(ParseLogLevel("", &least));
  EXPECT_EQ(least, LogSeverity::kFatal);
}

TEST(LogTest, LinesOfManyThreadsAllArrive) {
  Capture capture;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) TANDEM_LOG(Info) << "hello " << i;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(capture.lines().size(), 400u);
}

TEST(LogDeathTest, ALineOnStderrHasSeverityAndPlace) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(TANDEM_LOG(Fatal) << "broken", "C 20.*log_test.cc:[0-9]+\\] broken");
}

TEST(LogDeathTest, AWrongLevelInTheEnvironmentIsReported) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        setenv("TANDEM_LOG_LEVEL", "loud", 1);
        TANDEM_LOG(Info) << "first";
        std::abort();
      },
      "TANDEM_LOG_LEVEL is 'loud'.*expected debug, info");
}

}  // namespace
}  // namespace tandem
