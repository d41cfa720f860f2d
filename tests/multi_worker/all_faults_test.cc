// One to four workers, one of which dies at each of the places where one can; and jobs that no
// launcher looks after.
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/cluster/server_processes.h"
#include "tests/multi_worker/training_job.h"

namespace tandem::testing {
namespace {

using Line = TrainingJob::Line;

constexpr int kEpochs = 4;  // 80 steps.

struct Case {
  int workers;
  std::string fault;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int workers = 1; workers <= 4; ++workers) {
    const std::string last = absl::StrCat(workers - 1, ":");
    for (const char* place :
         {"start", "step:1", "step:30", "after:30", "validate:40", "step:80", "after:80"}) {
      cases.push_back({workers, absl::StrCat(last, place)});
      // At the start nobody is chief yet.
      const bool has_chief = absl::string_view(place) != "start";
      if (workers > 1 && has_chief) cases.push_back({workers, absl::StrCat("chief:", place)});
    }
    cases.push_back({workers, "chief:save:40"});
  }
  return cases;
}

class DyingWorkers : public ::testing::TestWithParam<Case> {};

TEST_P(DyingWorkers, AreStartedAgainAndEndWithTheSameBits) {
  const Undisturbed& expected = UndisturbedTraining(kEpochs, /*validates=*/true);
  const ScratchFolder scratch;
  TrainingJob job({.min_workers = GetParam().workers,
                   .max_workers = GetParam().workers,
                   .epochs = kEpochs,
                   .step_time = absl::Milliseconds(2),
                   .die = GetParam().fault,
                   .validates = true},
                  scratch);
  ASSERT_EQ(job.WaitForEnd(), 0) << job.All();
  EXPECT_TRUE(job.Happened(GetParam().fault).has_value()) << job.All();
  int kills = 0;
  for (int i = 0; i < job.num_lines(); ++i) {
    kills += absl::StrContains(job.line(i).text, "was ended by SIGKILL") ? 1 : 0;
  }
  EXPECT_EQ(kills, 1) << job.All();
  job.CheckSteps(expected);
  std::vector<int> all;
  for (int i = 0; i < GetParam().workers; ++i) all.push_back(i);
  job.CheckResults(expected, all);
}

INSTANTIATE_TEST_SUITE_P(Places, DyingWorkers, ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           std::string name =
                               absl::StrCat(info.param.workers, "_workers_", info.param.fault);
                           for (char& c : name) {
                             if (c == ':') c = '_';
                           }
                           return name;
                         });

TEST(MultiWorkerAllFaults, WhoDiesAfterTheTrainingIsNotStartedAgain) {
  const Undisturbed& expected = UndisturbedTraining(kEpochs);
  const ScratchFolder scratch;
  TrainingJob job({.min_workers = 2,
                   .max_workers = 3,
                   .epochs = kEpochs,
                   .step_time = absl::ZeroDuration(),
                   .die = "1:end"},
                  scratch);
  EXPECT_EQ(job.WaitForEnd(), 1) << job.All();
  EXPECT_TRUE(job.Happened("1:end").has_value());
  EXPECT_GE(job.Find("the reason",
                     [](const Line& line) {
                       return absl::StrContains(line.text,
                                                "others have ended with their work done");
                     }),
            0);
  job.CheckSteps(expected);
  job.CheckResults(expected, {0, 2});
}

// Each of them has two replicas, and there are eight virtual ones in all.
TEST(MultiWorkerAllFaults, SeveralReplicasInEachWorker) {
  const Undisturbed& expected = UndisturbedTraining(kEpochs);
  const ScratchFolder scratch;
  TrainingJob job({.min_workers = 2,
                   .max_workers = 2,
                   .epochs = kEpochs,
                   .die = "chief:step:30,1:after:50",
                   .replicas = 2},
                  scratch);
  ASSERT_EQ(job.WaitForEnd(), 0) << job.All();
  EXPECT_TRUE(job.Happened("chief:step:30").has_value());
  EXPECT_TRUE(job.Happened("1:after:50").has_value());
  job.CheckSteps(expected);
  job.CheckResults(expected, {0, 1});
}

// All die, and go on from the checkpoint.
TEST(MultiWorkerAllFaults, ALauncherThatIsKilledTakesItsWorkersWithIt) {
  const Undisturbed& expected = UndisturbedTraining(/*epochs=*/20);
  const ScratchFolder scratch;
  std::vector<pid_t> workers;
  {
    TrainingJob job({.epochs = 20}, scratch);
    ASSERT_TRUE(job.WaitForStep(50));
    workers = {job.pid(0), job.pid(1)};
    ASSERT_EQ(kill(job.launcher(), SIGKILL), 0);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    for (const pid_t worker : workers) {
      while (kill(worker, 0) == 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
      EXPECT_NE(kill(worker, 0), 0) << "worker " << worker << " lives on";
    }
  }
  TrainingJob job({.epochs = 20, .step_time = absl::ZeroDuration(), .resumes = true}, scratch);
  ASSERT_EQ(job.WaitForEnd(), 0) << job.All();
  job.CheckResults(expected, {0, 1});
}

// Workers that find one another by TF_CONFIG alone, and decide by majority.
class StaticJob {
 public:
  StaticJob(int min_workers, int workers, const ScratchFolder& scratch)
      : range_(absl::StrCat(min_workers, ":", workers)), scratch_(scratch) {
    std::random_device random;
    const std::string host =
        absl::StrCat("127.", 16 + random() % 200, ".", random() % 256, ".", 1 + random() % 254);
    for (int i = 0; i < workers; ++i) {
      addresses_.push_back(absl::StrCat("\"", host, ":", 20'000 + i, "\""));
    }
    processes_.resize(addresses_.size());
    for (int i = 0; i < workers; ++i) Start(i, /*restarts=*/0);
  }

  void Start(int worker, int restarts) {
    const std::string config =
        absl::StrCat(R"({"cluster": {"worker": [)", absl::StrJoin(addresses_, ", "),
                     R"(]}, "task": {"type": "worker", "index": )", worker, "}}");
    std::unique_ptr<ServerProcess>& process = processes_[static_cast<size_t>(worker)];
    process.reset();
    process = std::make_unique<ServerProcess>(
        std::vector<std::string>{"tests/multi_worker/small_trainer", "--deterministic",
                                 "--epochs=100", "--step_time=10ms",
                                 absl::StrCat("--result=", scratch_ / "result"),
                                 absl::StrCat("--scratch=", scratch_.path())},
        std::map<std::string, std::string>{{"TF_CONFIG", config},
                                           {"TANDEM_WORKERS", range_},
                                           {"TANDEM_LOG_LEVEL", "info"},
                                           {"TANDEM_NUM_THREADS", "1"},
                                           {"TANDEM_RESTART_COUNT", absl::StrCat(restarts)}});
  }
  ServerProcess& process(int worker) { return *processes_[static_cast<size_t>(worker)]; }

 private:
  const std::string range_;
  const ScratchFolder& scratch_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<ServerProcess>> processes_;
};

TEST(MultiWorkerAllFaults, TwoOfThreeAreAMajorityAndGoOn) {
  const Undisturbed& expected = UndisturbedTraining(/*epochs=*/100);
  const ScratchFolder scratch;
  StaticJob job(2, 3, scratch);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(job.process(i).WaitForLine("step 10 "));
  job.process(0).Kill();
  ASSERT_TRUE(job.process(1).WaitForLine("group of 2, "));
  job.Start(0, /*restarts=*/1);
  ASSERT_TRUE(job.process(0).WaitForLine("group of 3, "));
  std::ofstream(scratch / "hurry") << "now";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(job.process(i).WaitForEnd(absl::Now() + absl::Minutes(1)), 0) << i;
    std::ifstream result(absl::StrCat(scratch / "result.", i), std::ios::binary);
    std::ostringstream text;
    text << result.rdbuf();
    EXPECT_TRUE(text.str() == expected.variables) << "worker " << i;
  }
}

// One of two would be enough, but cannot know whether the other one goes on: it ends, and says why.
TEST(MultiWorkerAllFaults, HalfOfAJobIsAMinority) {
  const ScratchFolder scratch;
  StaticJob job(1, 2, scratch);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(job.process(i).WaitForLine("step 10 "));
  job.process(0).Kill();
  const absl::Time begin = absl::Now();
  const absl::optional<int> status = job.process(1).WaitForEnd(begin + absl::Minutes(1));
  ASSERT_TRUE(status.has_value());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 1) << *status;
  EXPECT_GT(job.process(1).CountLines("minority"), 0);
}

}  // namespace
}  // namespace tandem::testing
