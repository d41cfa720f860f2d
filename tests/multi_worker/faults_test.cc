// Trainings of several processes, which are killed, stopped and told to end; all_faults_test has
// more of them.
#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/multi_worker/training_job.h"

namespace tandem::testing {
namespace {

using Line = TrainingJob::Line;

TrainingJob::Matches Says(const std::string& words) {
  return [words](const Line& line) { return absl::StrContains(line.text, words); };
}

// The promise is about programs without a sanitizer.
#if defined(TANDEM_ASAN) || defined(TANDEM_TSAN)
constexpr absl::Duration kNextStep = absl::Minutes(1);
#else
constexpr absl::Duration kNextStep = absl::Seconds(10);
#endif

// Trainings that last until the test hurries them.
constexpr int kEpochs = 100;

// Two of three are enough, and the third one comes back each time.
TEST(MultiWorkerFaults, WhoIsKilledComesBackAndNoStepIsLostOrDoubled) {
  const Undisturbed& expected = UndisturbedTraining(kEpochs);
  const ScratchFolder scratch;
  const std::vector<std::string> faults = {"2:start", "1:step:1", "chief:step:80", "2:after:140",
                                           "chief:save:200"};
  TrainingJob job(
      {.min_workers = 2, .max_workers = 3, .epochs = kEpochs, .die = absl::StrJoin(faults, ",")},
      scratch);
  int last = -1;
  for (size_t i = 0; i < faults.size(); ++i) {
    last = job.Find("another kill", Says("was ended by SIGKILL"), last + 1);
    ASSERT_GE(last, 0);
  }
  ASSERT_TRUE(job.WaitForGroup(3, last));
  job.Hurry();
  ASSERT_EQ(job.WaitForEnd(), 0) << job.All();
  for (const std::string& fault : faults) EXPECT_TRUE(job.Happened(fault).has_value()) << fault;
  job.CheckSteps(expected);
  job.CheckResults(expected, {0, 1, 2});
}

// All are needed: the others wait for the one that is started again.
TEST(MultiWorkerFaults, TwoOfTwoWaitForEachOther) {
  const Undisturbed& expected = UndisturbedTraining(/*epochs=*/3, /*validates=*/true);
  const ScratchFolder scratch;
  const std::vector<std::string> faults = {"0:start", "1:validate:20", "chief:after:60"};
  TrainingJob job({.epochs = 3, .die = absl::StrJoin(faults, ","), .validates = true}, scratch);
  ASSERT_EQ(job.WaitForEnd(), 0) << job.All();
  for (const std::string& fault : faults) EXPECT_TRUE(job.Happened(fault).has_value()) << fault;
  job.CheckSteps(expected);
  job.CheckResults(expected, {0, 1});
}

TEST(MultiWorkerFaults, WhoStandsStillIsLeftBehindAndComesBack) {
  const Undisturbed& expected = UndisturbedTraining(kEpochs);
  const ScratchFolder scratch;
  TrainingJob job({.min_workers = 2, .max_workers = 3, .epochs = kEpochs, .has_checkpoints = false},
                  scratch);
  ASSERT_TRUE(job.WaitForGroup(3, 0));
  ASSERT_TRUE(job.WaitForStep(10));

  // Too short for anybody to mind.
  int from = job.num_lines();
  const int first_chief = job.chief();
  job.Signal(first_chief, SIGSTOP);
  absl::SleepFor(absl::Milliseconds(500));
  job.Signal(first_chief, SIGCONT);
  ASSERT_TRUE(job.WaitForStep(job.step() + 10));
  for (int i = from; i < job.num_lines(); ++i) {
    EXPECT_FALSE(absl::StrContains(job.line(i).text, "has ended")) << job.All();
  }

  from = job.num_lines();
  const pid_t process = job.pid(first_chief);
  job.Signal(first_chief, SIGSTOP);
  const absl::Time begin = absl::Now();
  ASSERT_TRUE(job.WaitForGroup(2, from));
  ASSERT_TRUE(job.WaitForStep(job.step() + 10));
  EXPECT_LT(absl::Now() - begin, kNextStep);
  absl::SleepFor(begin + absl::Seconds(5) - absl::Now());
  from = job.num_lines();
  job.Signal(first_chief, SIGCONT);
  ASSERT_TRUE(job.WaitForGroup(3, from));
  EXPECT_EQ(job.pid(first_chief), process) << "it was started again";

  // One that is told to go leaves, and the others go on.
  const int worker = (job.chief() + 1) % 3;
  from = job.num_lines();
  const pid_t leaver = job.pid(worker);
  job.Signal(worker, SIGTERM);
  ASSERT_GE(
      job.Find("the end of the leaver",
               Says(absl::StrCat("worker:", worker, " (pid ", leaver, ") ended with code 143")),
               from),
      0);
  ASSERT_TRUE(job.WaitForStep(job.step() + 10));
  ASSERT_TRUE(job.WaitForGroup(3, from));
  job.Hurry();
  ASSERT_EQ(job.WaitForEnd(), 0) << job.All();
  job.CheckSteps(expected);
  job.CheckResults(expected, {0, 1, 2});
}

TEST(MultiWorkerFaults, AllThatAreToldToEndSaveOneStepAndOthersGoOn) {
  const Undisturbed& expected = UndisturbedTraining(kEpochs);
  const ScratchFolder scratch;
  int64_t saved = 0;
  {
    TrainingJob job({.epochs = kEpochs, .save_every_steps = 1000}, scratch);
    ASSERT_TRUE(job.WaitForStep(50));
    ASSERT_EQ(kill(job.launcher(), SIGTERM), 0);
    ASSERT_EQ(job.WaitForEnd(), 143) << job.All();
    const std::vector<int64_t> steps = job.CheckpointedSteps();
    ASSERT_EQ(steps.size(), 1u) << job.All();
    saved = steps[0];
    EXPECT_GE(saved, 50);
    int stopped = 0;
    for (int i = 0; i < job.num_lines(); ++i) {
      const Line& line = job.line(i);
      if (!absl::StrContains(line.text, "training was stopped after step")) continue;
      ++stopped;
      EXPECT_TRUE(absl::StrContains(line.text, absl::StrCat("after step ", saved, ",")))
          << line.text;
    }
    EXPECT_EQ(stopped, 2) << job.All();
    // Nobody has gone further than what was saved.
    EXPECT_EQ(job.step(), saved);
  }
  // Others, and more of them.
  TrainingJob job(
      {.max_workers = 3, .epochs = kEpochs, .step_time = absl::ZeroDuration(), .resumes = true},
      scratch);
  ASSERT_EQ(job.WaitForEnd(), 0) << job.All();
  EXPECT_GE(
      job.Find("the first step", [](const Line& line) { return StepOf(line.text).has_value(); }),
      0);
  for (int i = 0; i < job.num_lines(); ++i) {
    const absl::optional<int64_t> step = StepOf(job.line(i).text);
    if (step.has_value()) {
      EXPECT_GT(*step, saved) << job.All();
    }
  }
  job.CheckResults(expected, {0, 1, 2});
}

}  // namespace
}  // namespace tandem::testing
