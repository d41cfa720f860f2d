// Fifty faults of random kinds, at random moments of one training of three workers, of whom two are
// enough. Prints how long it takes until the others know, and until they do the next step.
//
// TANDEM_SEED chooses the faults; TANDEM_ROUNDS says how many.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/multi_worker/training_job.h"

namespace tandem::testing {
namespace {

using Line = TrainingJob::Line;

constexpr int kEpochs = 1500;
constexpr int kWorkers = 3;

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

void Print(const std::string& what, std::vector<absl::Duration> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  std::printf("%s: median %s, worst %s, %zu times\n", what.c_str(),
              absl::FormatDuration(times[times.size() / 2]).c_str(),
              absl::FormatDuration(times.back()).c_str(), times.size());
}

TEST(MultiWorkerRandomFaults, TheTrainingGoesOnAndEndsWithTheSameBits) {
  const int rounds = FromEnvironment("TANDEM_ROUNDS", 50);
  std::mt19937 random(static_cast<uint32_t>(FromEnvironment("TANDEM_SEED", 1)));
  const Undisturbed& expected = UndisturbedTraining(kEpochs);
  const ScratchFolder scratch;
  TrainingJob job({.min_workers = 2,
                   .max_workers = kWorkers,
                   .epochs = kEpochs,
                   .step_time = absl::Milliseconds(20),
                   .save_every_steps = 50},
                  scratch);
  std::vector<absl::Duration> kills_noticed;
  std::vector<absl::Duration> stops_noticed;
  std::vector<absl::Duration> recoveries;
  int from = 0;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_TRUE(job.WaitForGroup(kWorkers, from));
    ASSERT_TRUE(job.WaitForStep(job.step() + 1));
    absl::SleepFor(absl::Milliseconds(random() % 300));
    const int kind = static_cast<int>(random() % 8);
    const bool at_chief = random() % 2 == 0;
    const int worker = at_chief ? job.chief() : static_cast<int>(random() % kWorkers);
    from = job.num_lines();
    const absl::Time begin = absl::Now();
    const std::string what =
        absl::StrCat("round ", round, ", kind ", kind, ", worker ", worker, ", step ", job.step());
    SCOPED_TRACE(what);
    std::printf("%s\n", what.c_str());
    std::fflush(stdout);
    if (kind == 0) {
      // Nobody minds.
      job.Signal(worker, SIGSTOP);
      absl::SleepFor(absl::Milliseconds(500));
      job.Signal(worker, SIGCONT);
      ASSERT_TRUE(job.WaitForStep(job.step() + 5));
      from = 0;
      continue;
    }
    const pid_t process = job.pid(worker);
    const bool stops = kind <= 2;
    const int signal = stops ? SIGSTOP : kind == 3 ? SIGTERM : SIGKILL;
    job.Signal(worker, signal);
    const auto of_others = [worker](const Line& line) {
      return line.worker >= 0 && line.worker != worker;
    };
    if (signal == SIGTERM) {
      // It leaves between two steps: there is nothing to notice.
      ASSERT_GE(job.Find(
                    "its end",
                    [&](const Line& line) {
                      return absl::StrContains(
                          line.text, absl::StrCat("(pid ", process, ") ended with code 143"));
                    },
                    from),
                0);
    } else {
      // The step that runs ends at once; the membership may take longer to know.
      const int noticed = job.Find(
          "the end of the group",
          [&](const Line& line) {
            return of_others(line) && (absl::StrContains(line.text, "has ended: ") ||
                                       absl::StrContains(line.text, " is lost"));
          },
          from);
      ASSERT_GE(noticed, 0);
      (stops ? stops_noticed : kills_noticed).push_back(job.line(noticed).when - begin);
      const int next = job.Find(
          "the next step",
          [&](const Line& line) { return of_others(line) && StepOf(line.text).has_value(); },
          noticed);
      ASSERT_GE(next, 0);
      recoveries.push_back(job.line(next).when - begin);
      EXPECT_LT(recoveries.back(), absl::Seconds(10)) << job.All();
    }
    if (stops) {
      // Until it is given up, whatever it holds up then.
      absl::SleepFor(begin + absl::Seconds(5) - absl::Now());
      job.Signal(worker, SIGCONT);
    }
  }
  ASSERT_TRUE(job.WaitForGroup(kWorkers, from));
  job.Hurry();
  ASSERT_EQ(job.WaitForEnd(absl::Minutes(5)), 0) << job.All();
  Print("a kill is noticed after", kills_noticed);
  Print("a stop is noticed after", stops_noticed);
  Print("the next step follows after", recoveries);
  for (const absl::Duration time : kills_noticed) EXPECT_LT(time, absl::Seconds(1));
  for (const absl::Duration time : stops_noticed) EXPECT_LT(time, absl::Seconds(4));
  job.CheckSteps(expected);
  job.CheckResults(expected, {0, 1, 2});
}

}  // namespace
}  // namespace tandem::testing
