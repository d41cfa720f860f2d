// Every place where a task of a job with parameter servers can be hurt.
#include <csignal>
#include <filesystem>
#include <random>
#include <string>

#include "absl/time/clock.h"
#include "tests/parameter_server/process_faults.h"

namespace tandem::testing {
namespace {

using Mode = Strategy::ParameterServerMode;

struct ModeCase {
  std::string name;
  Mode mode;
};

class AllFaults : public ::testing::TestWithParam<ModeCase> {
 protected:
  static constexpr int64_t kOnes = 3;
};

INSTANTIATE_TEST_SUITE_P(Modes, AllFaults,
                         ::testing::Values(ModeCase{"Asynchronous", Mode::kAsynchronous},
                                           ModeCase{"Bounded", Mode::kBoundedStaleness},
                                           ModeCase{"Synchronous", Mode::kSynchronous}),
                         [](const auto& info) { return info.param.name; });

TEST_P(AllFaults, WorkersKilledBeforeBetweenAndInSteps) {
  FaultyJob job(2, 3);
  job.options().mode = GetParam().mode;
  job.Begin();
  // Before it has had one.
  job.cluster().process({"worker", 0}).Kill();
  job.Schedule(10, kOnes);
  ASSERT_TRUE(job.Join().ok());
  // Between: nothing runs.
  job.cluster().Start({"worker", 0});
  job.cluster().process({"worker", 1}).Kill();
  job.Schedule(10, kOnes);
  // In, two at once.
  job.cluster().Start({"worker", 1});
  job.Schedule(10, kOnes);
  job.cluster().process({"worker", 1}).Kill();
  job.cluster().process({"worker", 2}).Kill();
  job.Schedule(10, kOnes);
  // The same twice.
  for (int i = 0; i < 2; ++i) {
    job.cluster().Start({"worker", 2});
    job.Schedule(10, kOnes);
    job.cluster().process({"worker", 2}).Kill();
    job.Schedule(10, kOnes);
  }
  // All, for a while.
  job.Schedule(5, kOnes);
  job.cluster().process({"worker", 0}).Kill();
  job.Schedule(5, kOnes);
  job.cluster().Start({"worker", 1});
  job.ExpectAllCountedOnce();
}

TEST_P(AllFaults, WorkersKilledAtRandom) {
  FaultyJob job(2, 3);
  job.options().mode = GetParam().mode;
  job.Begin();
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    job.Schedule(static_cast<int>(random() % 20), kOnes);
    job.Replace({"worker", static_cast<int>(random() % 3)});
  }
  job.ExpectAllCountedOnce();
}

TEST_P(AllFaults, AWorkerThatHangsIsGivenUpAndItsStepsCountOnce) {
  FaultyJob job(2, 2);
  job.options().mode = GetParam().mode;
  job.options().lost_after = absl::Seconds(1);
  job.Begin();
  job.Schedule(10, kOnes);
  job.cluster().process({"worker", 0}).Signal(SIGSTOP);
  job.Schedule(20, kOnes);
  job.WaitForLast();
  ASSERT_TRUE(job.Join().ok());
  // What it does now has been done by the other one.
  job.cluster().process({"worker", 0}).Signal(SIGCONT);
  job.Schedule(50, kOnes);
  job.ExpectAllCountedOnce();
}

TEST_P(AllFaults, ServersKilledAtRandomWithReplicas) {
  FaultyJob job(3, 2);
  job.options().mode = GetParam().mode;
  job.options().replication = "synchronous";
  job.Begin();
  std::mt19937 random(3);
  for (int i = 0; i < 8; ++i) {
    job.Schedule(static_cast<int>(random() % 30), kOnes);
    job.Replace({"ps", static_cast<int>(random() % 3)});
    job.Schedule(10, kOnes);
    // Its replica, and the one that it holds, are there again before the next one goes.
    job.WaitForLast();
    absl::SleepFor(absl::Seconds(2));
  }
  job.ExpectAllCountedOnce();
}

TEST_P(AllFaults, AServerKilledTogetherWithAWorker) {
  FaultyJob job(2, 2);
  job.options().mode = GetParam().mode;
  job.options().replication = "synchronous";
  job.Begin();
  for (int i = 0; i < 3; ++i) {
    job.Schedule(30, kOnes);
    job.cluster().process({"worker", i % 2}).Kill();
    job.Replace({"ps", i % 2});
    job.cluster().Start({"worker", i % 2});
    job.Schedule(10, kOnes);
    job.WaitForLast();
    absl::SleepFor(absl::Seconds(2));
  }
  job.ExpectAllCountedOnce();
}

TEST_P(AllFaults, ServersWithSnapshotsLoseWhatTheySay) {
  const std::string folder = ::testing::TempDir() + "/all_faults_test_" + GetParam().name;
  std::filesystem::remove_all(folder);
  FaultyJob job(1, 2);
  job.options().mode = GetParam().mode;
  job.options().snapshot_dir = folder;
  job.options().snapshot_every = absl::Milliseconds(200);
  job.Begin();
  for (int i = 0; i < 4; ++i) {
    job.Schedule(50);
    if (i % 2 == 0) {
      // Idle, with all in the snapshot.
      ASSERT_TRUE(job.Join().ok());
      absl::SleepFor(absl::Seconds(1));
    }
    job.Replace({"ps", 0});
  }
  ASSERT_TRUE(job.Join().ok());
  const int64_t lost = ToldLoss(job.Events(), "/job:ps/task:0");
  ASSERT_GE(lost, 0);
  const int64_t counted = job.Counters()[0];
  EXPECT_LE(counted, job.scheduled());
  // What is told is what was known: the last heartbeats may not have heard of all.
  EXPECT_GE(counted + lost + 4 * 50, job.scheduled());
  job.Schedule(10);
  ASSERT_TRUE(job.Join().ok());
  EXPECT_EQ(job.Counters()[0], counted + 10);
}

}  // namespace
}  // namespace tandem::testing
