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
  job.WaitForWorkers(2);
  job.cluster().Start({"worker", 0});
  job.WaitForWorkers(3);
  job.cluster().process({"worker", 1}).Kill();
  job.Schedule(10, kOnes);
  job.WaitForWorkers(2);
  // In, two at once.
  job.cluster().Start({"worker", 1});
  job.WaitForWorkers(3);
  job.Schedule(100, kOnes);
  job.cluster().process({"worker", 1}).Kill();
  job.cluster().process({"worker", 2}).Kill();
  job.Schedule(100, kOnes);
  job.WaitForWorkers(1);
  // The same twice.
  for (int i = 0; i < 2; ++i) {
    job.cluster().Start({"worker", 2});
    job.WaitForWorkers(2);
    job.Schedule(100, kOnes);
    job.cluster().process({"worker", 2}).Kill();
    job.Schedule(10, kOnes);
    job.WaitForWorkers(1);
  }
  // All, for a while.
  ASSERT_TRUE(job.Join().ok());
  job.Schedule(50, kOnes);
  job.cluster().process({"worker", 0}).Kill();
  job.Schedule(50, kOnes);
  job.WaitForWorkers(0);
  job.cluster().Start({"worker", 1});
  job.ExpectAllCountedOnce();
  EXPECT_EQ(job.Losses("/job:worker/task:0"), 2);
  EXPECT_EQ(job.Losses("/job:worker/task:1"), 2);
  EXPECT_EQ(job.Losses("/job:worker/task:2"), 3);
}

TEST_P(AllFaults, WorkersKilledAtRandom) {
  FaultyJob job(2, 3);
  job.options().mode = GetParam().mode;
  job.Begin();
  std::mt19937 random(7);
  int losses = 0;
  for (int i = 0; i < 20; ++i) {
    job.Schedule(static_cast<int>(random() % 200), kOnes);
    const int worker = static_cast<int>(random() % 3);
    job.Replace({"worker", worker});
    // Now and then it is gone before all are there again.
    if (i % 3 > 0) job.WaitForWorkers(3);
  }
  job.ExpectAllCountedOnce();
  for (int i = 0; i < 3; ++i) losses += job.Losses(absl::StrCat("/job:worker/task:", i));
  EXPECT_GE(losses, 10);
}

TEST_P(AllFaults, AWorkerThatHangsIsGivenUpAndItsStepsCountOnce) {
  FaultyJob job(2, 2);
  job.options().mode = GetParam().mode;
  job.options().lost_after = absl::Seconds(1);
  job.Begin();
  // Then both have their graphs.
  job.Schedule(200, kOnes);
  ASSERT_TRUE(job.Join().ok());
  job.Schedule(200, kOnes);
  job.cluster().process({"worker", 0}).Signal(SIGSTOP);
  job.Schedule(20, kOnes);
  job.WaitForLast();
  ASSERT_TRUE(job.Join().ok());
  EXPECT_EQ(job.Losses("/job:worker/task:0"), 1);
  // What it does now has been done by the other one.
  job.cluster().process({"worker", 0}).Signal(SIGCONT);
  job.Schedule(50, kOnes);
  job.WaitForWorkers(2);
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
    ASSERT_TRUE(job.Join().ok());
    job.WaitForShards(IsReplicated);
  }
  job.ExpectAllCountedOnce();
}

TEST_P(AllFaults, AServerKilledTogetherWithAWorker) {
  FaultyJob job(2, 2);
  job.options().mode = GetParam().mode;
  job.options().replication = "synchronous";
  job.Begin();
  for (int i = 0; i < 3; ++i) {
    job.Schedule(100, kOnes);
    job.cluster().process({"worker", i % 2}).Kill();
    job.Replace({"ps", i % 2});
    job.cluster().Start({"worker", i % 2});
    job.Schedule(10, kOnes);
    job.WaitForLast();
    job.WaitForWorkers(2);
    ASSERT_TRUE(job.Join().ok());
    job.WaitForShards(IsReplicated);
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
      job.WaitForShards(IsInSnapshot);
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
