// A job with parameter servers whose tasks are processes that are killed; its coordinator is the
// test.
#ifndef TANDEM_TESTS_PARAMETER_SERVER_PROCESS_FAULTS_H_
#define TANDEM_TESTS_PARAMETER_SERVER_PROCESS_FAULTS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "strategies/parameter_server/coordinator.h"
#include "strategies/parameter_server/parameter_runner.h"
#include "strategies/strategy.h"
#include "tests/cluster/server_processes.h"
#include "tests/parameter_server/counting.h"
#include "tests/parameter_server/server_reports.h"

namespace tandem::testing {

class FaultyJob {
 public:
  FaultyJob(int servers, int workers)
      : servers_(servers), workers_(workers), cluster_({{"ps", servers}, {"worker", workers}}) {
    options_.job.emplace();
    for (int i = 0; i < servers; ++i) Add({"ps", i});
    for (int i = 0; i < workers; ++i) Add({"worker", i});
    options_.heartbeat = absl::Milliseconds(100);
    options_.lost_after = absl::Seconds(5);
  }

  Strategy::ParameterServerOptions& options() { return options_; }
  ProcessCluster& cluster() { return cluster_; }
  const JobEnvironment& job() const { return *options_.job; }

  void Begin() {
    cluster_.StartAll();
    BeginWithoutProcesses();
    WaitForWorkers(workers_);
  }
  void BeginWithoutProcesses() {
    auto strategy = Strategy::ParameterServer(options_);
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    strategy_ = *std::move(strategy);
    auto builder = strategy_->NewBuilder();
    ASSERT_TRUE(builder.ok()) << builder.status();
    builder_ = *std::move(builder);
    auto step = BuildCountingStep(*builder_, servers_);
    ASSERT_TRUE(step.ok()) << step.status();
    step_ = *std::move(step);
    auto coordinator = parameter_server::Coordinator::Create(*strategy_, *builder_);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    const absl::StatusOr<int> program = coordinator_->AddProgram(step_.signature);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *program;
  }

  // Steps, each of which counts `ones`; they need not have ended when it returns.
  void Schedule(int steps, int64_t ones = 1) {
    for (int i = 0; i < steps; ++i) {
      auto step = coordinator_->Schedule(program_, CountingInput(ones));
      ASSERT_TRUE(step.ok()) << step.status();
      scheduled_ += ones;
      last_ = std::make_unique<parameter_server::ScheduledStep>(*std::move(step));
    }
  }
  // Until the step that was scheduled last has ended.
  void WaitForLast() { ASSERT_TRUE(last_->Fetch(absl::Now() + absl::Seconds(100)).ok()); }
  absl::Status Join() { return coordinator_->Join(); }

  int64_t scheduled() const { return scheduled_; }
  std::vector<int64_t> Counters() {
    std::vector<int64_t> values;
    for (const std::string& name : step_.counters) {
      const absl::StatusOr<Tensor> value = coordinator_->runner().ReadVariable(name);
      EXPECT_TRUE(value.ok()) << value.status();
      values.push_back(value.ok() ? CountIn(*value) : -1);
    }
    return values;
  }
  void ExpectAllCountedOnce() {
    const absl::Status status = Join();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Counters(), std::vector<int64_t>(static_cast<size_t>(servers_), scheduled_));
  }
  // All that have come.
  const std::vector<MemberEvent>& Events() {
    for (MemberEvent& event : coordinator_->runner().TakeMemberEvents()) {
      events_.push_back(std::move(event));
    }
    return events_;
  }
  // How often a task was lost, as far as it was noticed.
  int Losses(const std::string& member) {
    int losses = 0;
    for (const MemberEvent& event : Events()) {
      losses += event.member == member && event.kind == MemberEvent::Kind::kLeft ? 1 : 0;
    }
    return losses;
  }
  // Until so many workers are there: a test hurts those that take part.
  void WaitForWorkers(int count) {
    auto& runner = dynamic_cast<parameter_server::ParameterRunner&>(coordinator_->runner());
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (runner.workers_there() != count) {
      ASSERT_LT(absl::Now(), deadline) << runner.workers_there() << " workers are there";
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  std::vector<parameter_server::ShardReport> Reports() {
    auto& runner = dynamic_cast<parameter_server::ParameterRunner&>(coordinator_->runner());
    const auto reports = runner.AskServers();
    EXPECT_TRUE(reports.ok()) << reports.status();
    return reports.ok() ? *reports : std::vector<parameter_server::ShardReport>();
  }
  void WaitForShards(bool (*are_so)(const parameter_server::ShardReport& report)) {
    testing::WaitForShards(coordinator_->runner(), are_so);
  }

  // A server with state dies, and another process takes its place at once.
  void Replace(const TaskId& task) {
    cluster_.process(task).Kill();
    cluster_.Start(task);
  }

 private:
  void Add(const TaskId& task) {
    std::string address = cluster_.target(task);
    constexpr absl::string_view kScheme = "grpc://";
    if (absl::StartsWith(address, kScheme)) address = address.substr(kScheme.size());
    options_.job->config.jobs[task.job][task.index] = std::move(address);
  }

  const int servers_;
  const int workers_;
  ProcessCluster cluster_;
  Strategy::ParameterServerOptions options_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<StrategyBuilder> builder_;
  CountingStep step_;
  std::unique_ptr<parameter_server::Coordinator> coordinator_;
  int program_ = 0;
  int64_t scheduled_ = 0;
  std::vector<MemberEvent> events_;
  std::unique_ptr<parameter_server::ScheduledStep> last_;
};

// How many updates a server has lost, by what was told of its return; -1: it has not returned.
inline int64_t ToldLoss(const std::vector<MemberEvent>& events, const std::string& member) {
  int64_t lost = -1;
  for (const MemberEvent& event : events) {
    if (event.member != member || event.kind != MemberEvent::Kind::kJoined) continue;
    absl::string_view text = event.reason;
    if (!absl::ConsumeSuffix(&text, " updates are lost") &&
        !absl::ConsumeSuffix(&text, " update is lost")) {
      continue;
    }
    const size_t begin = text.rfind(' ');
    int64_t count = 0;
    if (begin != text.npos && absl::SimpleAtoi(text.substr(begin + 1), &count)) {
      lost = std::max<int64_t>(lost, 0) + count;
    }
  }
  return lost;
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_PARAMETER_SERVER_PROCESS_FAULTS_H_
