// Trainings with parameter servers, all in one process: servers and workers are servers of a test's
// cluster on loopback.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "runtime/rpc/test_cluster.h"
#include "strategies/parameter_server/coordinator.h"
#include "strategies/parameter_server/parameter_runner.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/trainer/trainer.h"
#include "tests/parameter_server/counting.h"
#include "tests/parameter_server/server_reports.h"

namespace tandem {
namespace {

using parameter_server::Coordinator;
using parameter_server::ScheduledStep;
using testing::BuildCountingStep;
using testing::ClassificationEpochs;
using testing::CountingInput;
using testing::CountingStep;
using Mode = Strategy::ParameterServerMode;

class TrainingTest : public ::testing::Test {
 protected:
  void StartCluster(int servers, int workers) {
    servers_ = servers;
    workers_ = workers;
    cluster_ = std::make_unique<TestCluster>(
        std::map<std::string, int>{{"ps", servers}, {"worker", workers}});
    cluster_->StartAll();
    options_.job.emplace();
    for (int i = 0; i < servers; ++i) Add({"ps", i});
    for (int i = 0; i < workers; ++i) Add({"worker", i});
    options_.heartbeat = absl::Milliseconds(50);
    options_.lost_after = absl::Seconds(20);
    options_.start_timeout = absl::Seconds(60);
  }
  void Add(const TaskId& task) {
    options_.job->config.jobs[task.job][task.index] = cluster_->address(task);
  }
  std::unique_ptr<Strategy> MakeStrategy() {
    auto strategy = Strategy::ParameterServer(options_);
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    return strategy.ok() ? *std::move(strategy) : nullptr;
  }
  static nn::LayerPtr Model() {
    return nn::Sequential({nn::Dense({.units = 16, .activation = "relu"}),
                           nn::Dense({.units = static_cast<int>(testing::kClasses)})});
  }
  // A coordinator of steps that count.
  void MakeCounter(const Strategy& strategy) {
    auto builder = strategy.NewBuilder();
    ASSERT_TRUE(builder.ok()) << builder.status();
    builder_ = *std::move(builder);
    auto step = BuildCountingStep(*builder_, servers_);
    ASSERT_TRUE(step.ok()) << step.status();
    counting_ = *std::move(step);
    auto coordinator = Coordinator::Create(strategy, *builder_);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    const absl::StatusOr<int> program = coordinator_->AddProgram(counting_.signature);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *program;
  }
  void Schedule(int steps, int64_t ones = 1) {
    for (int i = 0; i < steps; ++i) {
      const auto step = coordinator_->Schedule(program_, CountingInput(ones));
      ASSERT_TRUE(step.ok()) << step.status();
    }
  }
  void ExpectCounts(int64_t count) {
    ASSERT_TRUE(coordinator_->Join().ok());
    for (const std::string& name : counting_.counters) {
      const absl::StatusOr<Tensor> value = coordinator_->runner().ReadVariable(name);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(testing::CountIn(*value), count) << name;
    }
  }
  std::vector<MemberEvent> Events() { return coordinator_->runner().TakeMemberEvents(); }

  int servers_ = 0;
  int workers_ = 0;
  std::unique_ptr<TestCluster> cluster_;
  Strategy::ParameterServerOptions options_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<StrategyBuilder> builder_;
  CountingStep counting_;
  std::unique_ptr<Coordinator> coordinator_;
  int program_ = 0;
};

struct ModeCase {
  std::string name;
  Mode mode;
  int backup_workers;
  int staleness;
};

class AllModes : public TrainingTest, public ::testing::WithParamInterface<ModeCase> {
 protected:
  void SetUp() override {
    StartCluster(2, 3);
    options_.mode = GetParam().mode;
    options_.backup_workers = GetParam().backup_workers;
    options_.staleness = GetParam().staleness;
    // So that variables are cut.
    options_.min_part_bytes = 64;
  }
};

std::vector<ModeCase> EveryMode() {
  return {{"Asynchronous", Mode::kAsynchronous, 0, 4},
          {"Bounded", Mode::kBoundedStaleness, 0, 1},
          {"InTurn", Mode::kBoundedStaleness, 0, 0},
          {"Synchronous", Mode::kSynchronous, 0, 4},
          // Parts that come late count for nothing; the others are scaled to the whole batch.
          {"Backup", Mode::kSynchronous, 1, 4}};
}
std::string NameOf(const ::testing::TestParamInfo<ModeCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Modes, AllModes, ::testing::ValuesIn(EveryMode()), NameOf);

TEST_P(AllModes, LearnsAndEvaluates) {
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  Trainer trainer(*strategy_, Model(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Adam({.learning_rate = 0.01}));
  const auto history = trainer.Fit(ClassificationEpochs(40), {.epochs = 8});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_LT(history->back().loss, history->front().loss / 2);
  const absl::StatusOr<EpochResult> result = trainer.Evaluate(ClassificationEpochs(10));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->examples, 200);
  EXPECT_GT(result->Value("accuracy").value_or(0), 0.8);
  // All examples come back, in order, however many workers have some.
  const auto inputs = testing::ClassificationBatch(3, 7);
  const absl::StatusOr<Tensor> outputs = trainer.Predict({inputs[0]});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->shape(), Shape({7, testing::kClasses}));
  EXPECT_TRUE(trainer.TakeMemberEvents().empty());
}

TEST_P(AllModes, CountsEachStepOnceOnEachServer) {
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  MakeCounter(*strategy_);
  // A synchronous step adds up its parts: 3 of 5, and a single one.
  Schedule(50, /*ones=*/5);
  ExpectCounts(250);
  Schedule(7, /*ones=*/1);
  ExpectCounts(257);
}

// Each call of a server, whatever it asks for, is lost with 25 %, or its answer is, or it comes
// twice.
TEST_P(AllModes, CountsExactlyWhateverIsLostAndComesTwice) {
  ASSERT_EQ(setenv("TANDEM_PARAMETER_FAULTS", "lose=0.25,double=0.25,seed=5", 1), 0);
  const auto unset = absl::MakeCleanup([] { unsetenv("TANDEM_PARAMETER_FAULTS"); });
  StartCluster(2, 3);
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  MakeCounter(*strategy_);
  Schedule(200, /*ones=*/5);
  ExpectCounts(1000);
}

TEST_P(AllModes, AWorkerThatIsLostIsNotNoticed) {
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  MakeCounter(*strategy_);
  for (int round = 0; round < 3; ++round) {
    Schedule(10, 3);
    cluster_->Stop({"worker", round});
    Schedule(10, 3);
    cluster_->Start({"worker", round});
    Schedule(10, 3);
  }
  // Two at once.
  cluster_->Stop({"worker", 0});
  cluster_->Stop({"worker", 2});
  Schedule(10, 3);
  ExpectCounts(100 * 3);
}

TEST_P(AllModes, AServerThatIsLostComesBackFromItsReplica) {
  options_.replication = "synchronous";
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  MakeCounter(*strategy_);
  for (const int server : {0, 1, 0}) {
    Schedule(10, 3);
    cluster_->Start({"ps", server});
    Schedule(10, 3);
    ASSERT_TRUE(coordinator_->Join().ok());
    // The replicas are complete again, before the next server goes.
    Schedule(5, 3);
    ASSERT_TRUE(coordinator_->Join().ok());
    testing::WaitForShards(coordinator_->runner(), testing::IsReplicated);
  }
  ExpectCounts(75 * 3);
  int returned = 0;
  for (const MemberEvent& event : Events()) {
    if (event.kind != MemberEvent::Kind::kJoined) continue;
    if (!absl::StartsWith(event.member, "/job:ps")) continue;
    ++returned;
    EXPECT_TRUE(absl::StrContains(event.reason, "0 updates are lost")) << event.reason;
  }
  EXPECT_EQ(returned, 3);
}

TEST_F(TrainingTest, SynchronousStepsAreThoseOfOneDevice) {
  StartCluster(2, 3);
  options_.mode = Mode::kSynchronous;
  options_.min_part_bytes = 64;
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  const auto alone = *Strategy::OneDevice({});
  std::vector<StrategyState> states;
  for (Strategy* const strategy : {alone.get(), strategy_.get()}) {
    Trainer trainer(*strategy, Model(), loss::SparseSoftmaxCrossEntropy(),
                    optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9}));
    // 20 examples are cut into 7, 6 and 7.
    ASSERT_TRUE(trainer.Fit(ClassificationEpochs(30), {}).ok());
    auto state = trainer.CaptureState();
    ASSERT_TRUE(state.ok()) << state.status();
    states.push_back(*std::move(state));
  }
  ASSERT_EQ(states[0].size(), states[1].size());
  for (size_t i = 0; i < states[0].size(); ++i) {
    EXPECT_EQ(states[0][i].first, states[1][i].first);
    const Tensor& one = states[0][i].second;
    const Tensor& other = states[1][i].second;
    ASSERT_EQ(one.shape(), other.shape());
    if (one.dtype() != kFloat32) continue;
    for (int64_t k = 0; k < one.num_elements(); ++k) {
      const float expected = one.Elements<float>()[static_cast<size_t>(k)];
      ASSERT_NEAR(other.Elements<float>()[static_cast<size_t>(k)], expected,
                  1e-4 * std::max(1.0f, std::fabs(expected)))
          << states[0][i].first << "[" << k << "]";
    }
  }
}

TEST_F(TrainingTest, StateGoesToAnyStrategyAndBack) {
  StartCluster(3, 1);
  options_.min_part_bytes = 16;
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  const auto alone = *Strategy::OneDevice({});
  Trainer here(*alone, Model(), loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
  Trainer there(*strategy_, Model(), loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
  ASSERT_TRUE(here.Fit(ClassificationEpochs(5), {}).ok());
  ASSERT_TRUE(there.Fit(ClassificationEpochs(2), {}).ok());
  const auto state = here.CaptureState();
  ASSERT_TRUE(state.ok());
  const absl::Status restored = there.RestoreState(*state);
  ASSERT_TRUE(restored.ok()) << restored;
  const auto back = there.CaptureState();
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->size(), state->size());
  for (size_t i = 0; i < state->size(); ++i) {
    const Tensor& one = (*state)[i].second;
    const Tensor& other = (*back)[i].second;
    EXPECT_EQ((*state)[i].first, (*back)[i].first);
    ASSERT_EQ(one.num_bytes(), other.num_bytes());
    EXPECT_EQ(std::memcmp(one.data(), other.data(), one.num_bytes()), 0) << (*state)[i].first;
  }
  // Sums inside a kernel depend on how many threads share them.
  EXPECT_NEAR(there.Evaluate(ClassificationEpochs(4))->loss,
              here.Evaluate(ClassificationEpochs(4))->loss, 1e-5);
  // What does not fit changes nothing.
  StrategyState less = *state;
  less.pop_back();
  EXPECT_EQ(there.RestoreState(less).code(), absl::StatusCode::kNotFound);
  StrategyState wrong = *state;
  wrong[0].second = Tensor::Scalar<float>(1);
  EXPECT_EQ(there.RestoreState(wrong).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(there.Variable("dense/kernal").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TrainingTest, AServerComesBackFromItsSnapshotAndTheLossIsTold) {
  StartCluster(1, 2);
  const std::string folder = ::testing::TempDir() + "/training_test_snapshots";
  std::filesystem::remove_all(folder);
  options_.snapshot_dir = folder;
  options_.snapshot_every = absl::Milliseconds(50);
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  MakeCounter(*strategy_);
  Schedule(20);
  ExpectCounts(20);
  // One that has all 20.
  testing::WaitForShards(coordinator_->runner(), testing::IsInSnapshot);
  cluster_->Start({"ps", 0});
  Schedule(20);
  ExpectCounts(40);
  bool is_told = false;
  for (const MemberEvent& event : Events()) {
    is_told = is_told || (event.member == "/job:ps/task:0" &&
                          absl::StrContains(event.reason, "from its snapshot; 0 updates are lost"));
  }
  EXPECT_TRUE(is_told);
}

TEST_F(TrainingTest, WithoutReplicaOrSnapshotALostServerEndsTheTraining) {
  StartCluster(2, 1);
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  MakeCounter(*strategy_);
  Schedule(5);
  ASSERT_TRUE(coordinator_->Join().ok());
  cluster_->Start({"ps", 1});
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = coordinator_->Schedule(program_, CountingInput()).status();
  }
  if (status.ok()) status = coordinator_->Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "/job:ps/task:1")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "replication")) << status;
}

// faults_test has one that goes on where another one has died.
TEST_F(TrainingTest, ASecondCoordinatorIsRefusedAndTheFirstGoesOn) {
  StartCluster(2, 2);
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  MakeCounter(*strategy_);
  Schedule(30);
  {
    const auto second = MakeStrategy();
    ASSERT_NE(second, nullptr);
    const auto builder = second->NewBuilder();
    ASSERT_TRUE(builder.ok());
    ASSERT_TRUE(BuildCountingStep(**builder, servers_).ok());
    const absl::Status refused = Coordinator::Create(*second, **builder).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), "has another coordinator: process "))
        << refused;
  }
  Schedule(12);
  ExpectCounts(42);
}

// Without checkpoints. The first life ends in a step that fails, after which servers keep what they
// have.
TEST_F(TrainingTest, AProgramThatIsStartedAgainGoesOnWhereItWas) {
  StartCluster(2, 2);
  constexpr int kSteps = 150;
  constexpr int kFails = 100;
  const auto batches = [](int fails) {
    return [fails](int epoch) {
      return NextBatch([step = 0, epoch, fails]() mutable -> NextBatch::Result {
        if (++step > kSteps) return absl::optional<std::vector<Tensor>>();
        std::vector<Tensor> batch = testing::ClassificationBatch(epoch * kSteps + step, 8);
        // A class that there is not.
        if (epoch == 1 && step == fails) batch[1].MutableElements<int32_t>()[0] = 1000;
        return absl::optional<std::vector<Tensor>>(std::move(batch));
      });
    };
  };
  const auto fit = [&](int fails, std::vector<int64_t>* steps) {
    const std::unique_ptr<Strategy> strategy = MakeStrategy();
    Trainer trainer(*strategy, Model(), loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
    FitOptions options;
    options.epochs = 2;
    options.on_step = [&](const TrainingProgress& progress) {
      steps->push_back(progress.number);
      return true;
    };
    return trainer.Fit(batches(fails), options);
  };
  std::vector<int64_t> first;
  const auto failed = fit(kFails, &first);
  ASSERT_EQ(failed.status().code(), absl::StatusCode::kInvalidArgument) << failed.status();
  std::vector<int64_t> second;
  const auto history = fit(-1, &second);
  ASSERT_TRUE(history.ok()) << history.status();
  // The first epoch was done, the second one had begun, and none of its steps is left out.
  EXPECT_EQ(history->size(), 2u);
  ASSERT_FALSE(second.empty());
  std::sort(second.begin(), second.end());
  EXPECT_GT(second.front(), kSteps);
  EXPECT_EQ(second.back(), 2 * kSteps);
  EXPECT_EQ(second.back() - second.front() + 1, static_cast<int64_t>(second.size()));
  EXPECT_LE(second.front(), kSteps + kFails + 1 + 2 * 2);
  // It has ended in order: the next one begins anew.
  std::vector<int64_t> third;
  ASSERT_TRUE(fit(-1, &third).ok());
  EXPECT_EQ(third.size(), 2u * kSteps);
}

// "tandem_ps_pushes_total{task=\"/job:ps/task:0\"} 17": of all servers together.
int64_t SumOf(const std::string& metrics, const std::string& name) {
  int64_t sum = 0;
  for (const absl::string_view line : absl::StrSplit(metrics, '\n')) {
    if (!absl::StartsWith(line, absl::StrCat("tandem_ps_", name, "{task=\"/job:ps/task:")))
      continue;
    int64_t value = -1;
    EXPECT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &value)) << line;
    sum += value;
  }
  return sum;
}

TEST_F(TrainingTest, APageSaysHowTheServersAre) {
  StartCluster(2, 2);
  options_.replication = "synchronous";
  options_.status_port = 0;
  options_.heartbeat = absl::Milliseconds(20);
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  MakeCounter(*strategy_);
  Schedule(40);
  ExpectCounts(40);
  auto& runner = dynamic_cast<parameter_server::ParameterRunner&>(coordinator_->runner());
  std::string address = runner.status_address();
  ASSERT_TRUE(absl::EndsWith(address, "/")) << address;
  address.pop_back();
  httplib::Client client(address);
  const auto get = [&](const std::string& path) {
    const auto answer = client.Get(path);
    EXPECT_TRUE(answer && answer->status == 200) << path;
    return answer ? answer->body : "";
  };
  // As of the last heartbeat.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  std::string metrics;
  do {
    metrics = get("/metrics");
    ASSERT_LT(absl::Now(), deadline) << metrics;
  } while (SumOf(metrics, "pushes_total") < 2 * 41);  // With the initial value.
  EXPECT_EQ(SumOf(metrics, "up"), 2);
  EXPECT_EQ(SumOf(metrics, "updates"), 2 * 41);
  EXPECT_EQ(SumOf(metrics, "pulls_total"), 2 * 40);
  EXPECT_EQ(SumOf(metrics, "pulled_bytes_total"), 2 * 40 * 8);
  EXPECT_EQ(SumOf(metrics, "pushed_bytes_total"), 2 * 40 * 8);
  EXPECT_EQ(SumOf(metrics, "variable_bytes"), 2 * 8);
  EXPECT_EQ(SumOf(metrics, "slot_bytes"), 0);
  EXPECT_GE(SumOf(metrics, "staleness_max"), SumOf(metrics, "staleness_median"));
  EXPECT_LE(SumOf(metrics, "staleness_max"), 2 * 3);
  EXPECT_EQ(SumOf(metrics, "losses_total"), 0);
  EXPECT_TRUE(absl::StrContains(metrics, "tandem_ps_workers 2\n")) << metrics;
  EXPECT_TRUE(absl::StrContains(get("/"), "/job:ps/task:1 at ")) << get("/");

  cluster_->Start({"ps", 1});
  do {
    metrics = get("/metrics");
    ASSERT_LT(absl::Now(), deadline) << metrics;
  } while (SumOf(metrics, "losses_total") == 0 || SumOf(metrics, "up") < 2);
  EXPECT_EQ(SumOf(metrics, "lost_updates_total"), 0);
}

TEST_F(TrainingTest, OneThatWaitsForItsServersEndsWithTheFirstSignal) {
  StartCluster(1, 1);
  cluster_->Stop({"ps", 0});
  options_.start_timeout = absl::Minutes(10);
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  Trainer trainer(*strategy_, Model(), loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
  const absl::Time begin = absl::Now();
  const auto history = trainer.Fit(
      [](int) {
        return NextBatch([]() -> NextBatch::Result {
          std::raise(SIGTERM);
          return absl::optional<std::vector<Tensor>>(testing::ClassificationBatch(1, 8));
        });
      },
      {});
  EXPECT_EQ(ExitCodeOf(history.status()), 128 + SIGTERM) << history.status();
  EXPECT_TRUE(absl::StrContains(history.status().message(), "SIGTERM")) << history.status();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
}

TEST_F(TrainingTest, AProgramThatFailsIsFinalAndTheNextStepsCount) {
  for (const Mode mode : {Mode::kAsynchronous, Mode::kSynchronous}) {
    StartCluster(2, 2);
    options_.mode = mode;
    strategy_ = MakeStrategy();
    ASSERT_NE(strategy_, nullptr);
    MakeCounter(*strategy_);
    Schedule(5, 4);
    ASSERT_TRUE(coordinator_->Join().ok());
    StepInput bad;
    bad.batch = {Tensor::Vector<float>({1})};
    const auto step = coordinator_->Schedule(program_, std::move(bad));
    ASSERT_TRUE(step.ok());
    EXPECT_EQ(coordinator_->Join().code(), absl::StatusCode::kInvalidArgument);
    // Steps that are cancelled in mid-flight leave no round behind that later ones wait for.
    Schedule(20, 4);
    coordinator_->runner().CancelSteps(errors::Cancelled("enough"));
    const absl::Status status = coordinator_->Join();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    std::vector<int64_t> before;
    for (const std::string& name : counting_.counters) {
      before.push_back(testing::CountIn(*coordinator_->runner().ReadVariable(name)));
    }
    Schedule(10, 4);
    ASSERT_TRUE(coordinator_->Join().ok());
    for (size_t i = 0; i < before.size(); ++i) {
      const int64_t now =
          testing::CountIn(*coordinator_->runner().ReadVariable(counting_.counters[i]));
      // Of an asynchronous step that was cancelled a push may still have been on its way.
      if (mode == Mode::kSynchronous) {
        EXPECT_EQ(now, before[i] + 40);
      }
      EXPECT_GE(now, before[i] + 40);
    }
    coordinator_.reset();
    builder_.reset();
    strategy_.reset();
  }
}

TEST_F(TrainingTest, WithoutAWorkerStepsEndWithTheirNames) {
  StartCluster(1, 2);
  options_.start_timeout = absl::Seconds(1);
  strategy_ = MakeStrategy();
  ASSERT_NE(strategy_, nullptr);
  cluster_->Stop({"worker", 0});
  cluster_->Stop({"worker", 1});
  MakeCounter(*strategy_);
  Schedule(1);
  const absl::Status status = coordinator_->Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  for (int i = 0; i < workers_; ++i) {
    EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("/job:worker/task:", i)))
        << status;
  }
}

TEST_F(TrainingTest, OptionsThatMakeNoSenseAreRefused) {
  StartCluster(1, 2);
  const auto refuses = [](Strategy::ParameterServerOptions options, absl::string_view words) {
    const absl::Status status = Strategy::ParameterServer(std::move(options)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  auto options = options_;
  options.staleness = -1;
  refuses(options, "staleness of -1");
  options = options_;
  options.backup_workers = 1;
  refuses(options, "only a synchronous training");
  options.mode = Mode::kSynchronous;
  options.backup_workers = 2;
  refuses(options, "one worker has to count");
  options = options_;
  options.steps_in_flight = 0;
  refuses(options, "0 steps in flight");
  options = options_;
  options.replication = "sometimes";
  refuses(options, "'sometimes'");
  options.replication = "synchronous";
  refuses(options, "needs two parameter servers");
  options = options_;
  options.job->config.jobs.erase("worker");
  refuses(options, "no workers");
  options = options_;
  options.job->config.jobs.erase("ps");
  refuses(options, "no parameter servers");
  options = options_;
  options.job->config.task = TaskId{"ps", 0};
  refuses(options, "it serves");
  options = options_;
  options.lost_after = absl::ZeroDuration();
  refuses(options, "lost_after");
}

}  // namespace
}  // namespace tandem
