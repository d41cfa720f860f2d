// Groups of real processes: more of them than cores, killed and stopped in the middle of an
// operation. processes_faults_test.cc does the same at random.
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "runtime/collective/processes_test_util.h"

namespace tandem::collective {
namespace {

class ProcessesTest : public ::testing::TestWithParam<TransportKind> {};

TEST_P(ProcessesTest, MoreProcessesThanCoresAllReduce) {
  const int size = 6;
  Processes processes(TestOptions(size, GetParam()), [](Group& group, Report& report) {
    int64_t step = 0;
    for (const int64_t count : {1, 1000, 100000, 1000000}) {
      std::vector<float> values(static_cast<size_t>(count), 1.f);
      for (int i = 0; i < 5; ++i) {
        Request request;
        request.input = request.output = values.data();
        request.count = count;
        request.reduction = Reduction::kMean;
        request.step = ++step;
        const absl::Status status = group.Run(std::move(request));
        if (!status.ok()) return status;
        report.steps.fetch_add(1);
      }
      for (const float value : values) {
        if (value != 1.f) return absl::DataLossError("wrong value");
      }
    }
    return group.Barrier(1, 1);
  });
  for (int rank = 0; rank < size; ++rank) {
    ASSERT_TRUE(processes.WaitForEnd(rank)) << rank;
    EXPECT_EQ(processes.code(rank), absl::StatusCode::kOk) << processes.message(rank);
    EXPECT_EQ(processes.report(rank).steps.load(), 20);
  }
}

TEST_P(ProcessesTest, AKilledMemberEndsTheOperationOfAllSurvivors) {
  Processes processes(TestOptions(3, GetParam()), AllReduceLoop(1000000));
  ASSERT_TRUE(processes.WaitForSteps(3));
  processes.Signal(1, SIGKILL);
  for (const int survivor : {0, 2}) {
    ASSERT_TRUE(processes.WaitForEnd(survivor));
    EXPECT_EQ(processes.code(survivor), absl::StatusCode::kUnavailable);
    const std::string message = processes.message(survivor);
    EXPECT_TRUE(absl::StrContains(message, "worker:1 on 127.0.0.1 is lost")) << message;
    EXPECT_TRUE(absl::StrContains(message, "all-reduce 'loop' (instance 7, step ")) << message;
  }
}

TEST_P(ProcessesTest, AMemberThatWasStoppedTooLongIsLeftBehindAndHearsOfIt) {
  GroupOptions options = TestOptions(3, GetParam());
  options.heartbeat = absl::Milliseconds(500);
  options.lost_after = absl::Seconds(3);
  Processes processes(options, AllReduceLoop(100000));
  ASSERT_TRUE(processes.WaitForSteps(3));
  // For less than that: nothing happens.
  processes.Signal(2, SIGSTOP);
  absl::SleepFor(absl::Milliseconds(500));
  processes.Signal(2, SIGCONT);
  const int64_t before = processes.report(2).steps.load();
  ASSERT_TRUE(processes.WaitForSteps(before + 3));
  processes.Signal(2, SIGSTOP);
  for (const int survivor : {0, 1}) {
    ASSERT_TRUE(processes.WaitForEnd(survivor));
    EXPECT_EQ(processes.code(survivor), absl::StatusCode::kUnavailable);
    const std::string message = processes.message(survivor);
    EXPECT_TRUE(absl::StrContains(message, "worker:2 on 127.0.0.1 is lost")) << message;
  }
  processes.Signal(2, SIGCONT);
  ASSERT_TRUE(processes.WaitForEnd(2));
  EXPECT_EQ(processes.code(2), absl::StatusCode::kUnavailable) << processes.message(2);
}

INSTANTIATE_TEST_SUITE_P(All, ProcessesTest,
                         ::testing::Values(TransportKind::kSharedMemory, TransportKind::kTcp),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tandem::collective
