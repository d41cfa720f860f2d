// What every strategy answers alike. To join, add a line to Strategies().
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "strategies/parameter_server/parameter_test_util.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/testing/unruly_strategy.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

using testing::ClassificationBatch;
using testing::ClassificationEpochs;
using testing::kClasses;

struct Candidate {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Strategy>>()> make;
  // Steps do not wait for each other, so that the order of updates is open.
  bool asynchronous = false;
};

void PrintTo(const Candidate& candidate, std::ostream* out) { *out << candidate.name; }

// A job of one worker: what several do together is in strategies/multi_worker_mirrored.
absl::StatusOr<std::unique_ptr<Strategy>> OneWorker(Strategy::ReplicaOptions replicas) {
  Strategy::MultiWorkerOptions options;
  options.replicas = replicas.replicas;
  options.device_type = replicas.device_type;
  options.virtual_replicas = replicas.virtual_replicas;
  options.job.emplace();
  options.job->source = "a test";
  options.job->config.jobs["worker"][0] = "127.0.0.1:0";
  options.job->config.task = TaskId{"worker", 0};
  return Strategy::MultiWorkerMirrored(std::move(options));
}

// Meets nobody.
class Alone final : public WorkerGroup::Party {
 public:
  std::string occupation() const override { return "a test"; }
  int64_t completed_step() const override { return -1; }
  absl::StatusOr<StrategyState> Give() override { return errors::Internal("to whom?"); }
  absl::Status Take(StrategyState) override { return errors::Internal("from whom?"); }
  absl::Status TakeCheckpoint() override { return errors::Internal("which one?"); }
  absl::Status CheckStop() const override { return absl::OkStatus(); }
};

// Three servers in this process, among which nearly all variables are cut, and one worker.
absl::StatusOr<std::unique_ptr<Strategy>> ParameterServers() {
  parameter_server::InProcessOptions options;
  options.builder.shards = 3;
  options.builder.min_part_bytes = 32;
  return parameter_server::InProcessParameterStrategy::Create(options);
}

std::vector<Candidate> Strategies() {
  const auto replicas = [](int count, const std::string& type, int virtual_replicas = 0) {
    return Strategy::ReplicaOptions{
        .replicas = count, .device_type = type, .virtual_replicas = virtual_replicas};
  };
  return {
      {"OneDevice", [] { return Strategy::OneDevice({}); }},
      {"MirroredCpu1", [=] { return Strategy::Mirrored(replicas(1, "CPU")); }},
      {"MirroredCpu2", [=] { return Strategy::Mirrored(replicas(2, "CPU")); }},
      {"MirroredCpu3", [=] { return Strategy::Mirrored(replicas(3, "CPU")); }},
      {"MirroredCpu4", [=] { return Strategy::Mirrored(replicas(4, "CPU")); }},
      {"MirroredSim2", [=] { return Strategy::Mirrored(replicas(2, "SIM")); }},
      {"MirroredCpu2Virtual4", [=] { return Strategy::Mirrored(replicas(2, "CPU", 4)); }},
      {"MirroredSim2Virtual4", [=] { return Strategy::Mirrored(replicas(2, "SIM", 4)); }},
      {"CentralStorageCpu2", [=] { return Strategy::CentralStorage(replicas(2, "CPU")); }},
      {"CentralStorageSim2", [=] { return Strategy::CentralStorage(replicas(2, "SIM")); }},
      {"OneWorkerCpu1", [=] { return OneWorker(replicas(1, "CPU")); }},
      {"OneWorkerCpu2", [=] { return OneWorker(replicas(2, "CPU")); }},
      {"OneWorkerSim2", [=] { return OneWorker(replicas(2, "SIM")); }},
      {"OneWorkerCpu2Virtual4", [=] { return OneWorker(replicas(2, "CPU", 4)); }},
      {"ParameterServers", ParameterServers},
      {"Unruly",
       [] {
         return absl::StatusOr<std::unique_ptr<Strategy>>(std::make_unique<testing::UnrulyStrategy>(
             testing::UnrulyOptions{.steps_in_flight = 2, .lost_step = 5}));
       },
       /*asynchronous=*/true},
  };
}

class StrategyConformance : public ::testing::TestWithParam<Candidate> {
 protected:
  void SetUp() override {
    auto strategy = GetParam().make();
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    strategy_ = *std::move(strategy);
    if (WorkerGroup* const workers = strategy_->workers()) {
      Alone party;
      const absl::Status met = workers->Meet(party);
      ASSERT_TRUE(met.ok()) << met;
    }
    auto builder = strategy_->NewBuilder();
    ASSERT_TRUE(builder.ok()) << builder.status();
    builder_ = *std::move(builder);
  }

  int replicas() const { return builder_->num_replicas(); }

  // Builds a step of what `replica_fn` adds, opens the runner and initializes.
  void Build(const std::function<absl::Status(const ReplicaContext&)>& replica_fn,
             const std::function<absl::Status()>& after = nullptr) {
    step_ = builder_->host_scope().WithOpName("step").Call(
        "Placeholder", {}, {{"dtype", kInt64}, {"shape", PartialShape({})}});
    ASSERT_TRUE(builder_->BeginStep("test", step_).ok());
    absl::Status status = builder_->Run(replica_fn);
    ASSERT_TRUE(status.ok()) << status;
    if (after) {
      status = after();
      ASSERT_TRUE(status.ok()) << status;
    }
    const auto done = builder_->EndStep();
    ASSERT_TRUE(done.ok()) << done.status();
    signature_.feeds = {step_.name()};
    signature_.targets = {(*done)->name()};
    auto runner = strategy_->NewRunner(*builder_);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    ASSERT_TRUE(runner_->Initialize().ok());
    const auto program = runner_->AddProgram(signature_);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *program;
  }

  StrategyRunner::Result RunStep(int64_t step = 0) {
    StepInput input;
    input.step = step;
    input.values = {Tensor::Scalar<int64_t>(step)};
    return runner_->Run(program_, std::move(input));
  }

  StrategyVariable* NewVariable(const std::string& name, float value, bool trainable = true,
                                Synchronization synchronization = Synchronization::kMirrored,
                                Aggregation aggregation = Aggregation::kMean) {
    VariableSpec spec;
    spec.name = name;
    spec.shape = Shape({});
    spec.initializer = [value](const Scope& scope) { return scope.Constant(value); };
    spec.trainable = trainable;
    spec.synchronization = synchronization;
    spec.aggregation = aggregation;
    const auto variable = builder_->Variable(spec);
    EXPECT_TRUE(variable.ok()) << variable.status();
    return variable.ok() ? *variable : nullptr;
  }

  float Value(const std::string& name) {
    const auto value = runner_->ReadVariable(name);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? value->ScalarValue<float>() : -12345.f;
  }

  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<StrategyBuilder> builder_;
  std::unique_ptr<StrategyRunner> runner_;
  Output step_;
  RunSignature signature_;
  int program_ = 0;
};

// A number that differs between replicas: 1, 2, 3, …
Output Own(const ReplicaContext& replica) {
  return replica.scope().Call("Identity", {replica.scope().Constant(replica.replica() + 1.0f)});
}

TEST_P(StrategyConformance, ReducesAndGathersToTheHost) {
  PerReplica values;
  Build(
      [&](const ReplicaContext& replica) -> absl::Status {
        values.push_back(
            replica.scope().Call("Reshape", {Own(replica), Tensor::Vector<int32_t>({1})}));
        return replica.scope().status();
      },
      [&]() -> absl::Status {
        TANDEM_ASSIGN_OR_RETURN(const Output sum, builder_->ReduceToHost(Reduction::kSum, values));
        TANDEM_ASSIGN_OR_RETURN(const Output mean,
                                builder_->ReduceToHost(Reduction::kMean, values));
        TANDEM_ASSIGN_OR_RETURN(const Output all, builder_->GatherToHost(values, 0));
        signature_.fetches = {sum.name(), mean.name(), all.name()};
        return absl::OkStatus();
      });
  const auto fetched = RunStep();
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  const float n = static_cast<float>(replicas());
  EXPECT_EQ((*fetched)[0].Elements<float>()[0], n * (n + 1) / 2);
  EXPECT_EQ((*fetched)[1].Elements<float>()[0], (n + 1) / 2);
  ASSERT_EQ((*fetched)[2].num_elements(), replicas());
  for (int i = 0; i < replicas(); ++i) {
    EXPECT_EQ((*fetched)[2].Elements<float>()[static_cast<size_t>(i)], static_cast<float>(i + 1));
  }
}

TEST_P(StrategyConformance, AllReduceGivesEveryReplicaTheSameAndCanBeDifferentiated) {
  Build([&](const ReplicaContext& replica) -> absl::Status {
    const Output own = Own(replica);
    const std::vector<Output> sums = replica.AllReduce(Reduction::kSum, {own, own});
    const std::vector<Output> means = replica.AllReduce(Reduction::kMean, {own});
    TANDEM_RETURN_IF_ERROR(replica.scope().status());
    // d(sum over replicas of 3·sum)/d(own) = 3·n
    const Output loss = replica.scope().Call("Mul", {sums[1], 3.0f});
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients,
                            AddGradients(builder_->graph(), {loss}, {own}));
    const std::string suffix = absl::StrCat("result_", replica.replica());
    const Output result = builder_->host_scope().WithOpName(suffix).Call(
        "Pack", {sums[0], means[0], gradients[0].values});
    signature_.fetches.push_back(result.name());
    return builder_->host_scope().status();
  });
  const auto fetched = RunStep();
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  const float n = static_cast<float>(replicas());
  for (const Tensor& result : *fetched) {
    EXPECT_EQ(result.Elements<float>()[0], n * (n + 1) / 2);
    EXPECT_EQ(result.Elements<float>()[1], (n + 1) / 2);
    EXPECT_EQ(result.Elements<float>()[2], 3 * n);
  }
}

TEST_P(StrategyConformance, EveryReductionReducesInTheGraphAndOnTheHost) {
  const std::vector<Reduction> reductions = {Reduction::kSum, Reduction::kMean, Reduction::kMin,
                                             Reduction::kMax, Reduction::kProduct};
  PerReplica values;
  Build(
      [&](const ReplicaContext& replica) -> absl::Status {
        // 3, 4, 5, …: neither the least nor the greatest is neutral to any of them.
        const Output own = replica.scope().Call("AddV2", {Own(replica), 2.0f});
        values.push_back(own);
        InputList results;
        for (const Reduction reduction : reductions) {
          for (const Output& result : replica.AllReduce(reduction, {own})) {
            results.emplace_back(result);
          }
        }
        TANDEM_RETURN_IF_ERROR(replica.scope().status());
        signature_.fetches.push_back(builder_->host_scope().Call("Pack", results).name());
        return builder_->host_scope().status();
      },
      [&]() -> absl::Status {
        InputList results;
        for (const Reduction reduction : reductions) {
          TANDEM_ASSIGN_OR_RETURN(const Output result, builder_->ReduceToHost(reduction, values));
          results.emplace_back(result);
        }
        signature_.fetches.push_back(builder_->host_scope().Call("Pack", results).name());
        return builder_->host_scope().status();
      });
  const auto fetched = RunStep();
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_EQ(fetched->size(), static_cast<size_t>(replicas()) + 1);
  float sum = 0;
  float product = 1;
  for (int i = 0; i < replicas(); ++i) {
    sum += static_cast<float>(i + 3);
    product *= static_cast<float>(i + 3);
  }
  for (const Tensor& results : *fetched) {
    EXPECT_EQ(results.Elements<float>()[0], sum);
    EXPECT_EQ(results.Elements<float>()[1], sum / static_cast<float>(replicas()));
    EXPECT_EQ(results.Elements<float>()[2], 3);
    EXPECT_EQ(results.Elements<float>()[3], static_cast<float>(replicas() + 2));
    EXPECT_EQ(results.Elements<float>()[4], product);
  }
}

TEST_P(StrategyConformance, OnlySumsAndMeansOverReplicasHaveGradients) {
  ASSERT_TRUE(builder_->BeginStep("test").ok());
  for (const Reduction reduction : {Reduction::kMin, Reduction::kMax, Reduction::kProduct}) {
    const absl::Status status = builder_->Run([&](const ReplicaContext& replica) -> absl::Status {
      const Output own = Own(replica);
      const std::vector<Output> results = replica.AllReduce(reduction, {own});
      TANDEM_RETURN_IF_ERROR(replica.scope().status());
      const auto gradients = AddGradients(builder_->graph(), results, {own});
      EXPECT_EQ(gradients.status().code(), absl::StatusCode::kUnimplemented) << gradients.status();
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(StrategyConformance, AssignmentsAreAggregatedAsTheVariableSays) {
  StrategyVariable* const sum =
      NewVariable("sum", 0, false, Synchronization::kMirrored, Aggregation::kSum);
  StrategyVariable* const mean = NewVariable("mean", 0, false);
  StrategyVariable* const first =
      NewVariable("first", 0, false, Synchronization::kMirrored, Aggregation::kOnlyFirstReplica);
  Build([&](const ReplicaContext& replica) -> absl::Status {
    for (StrategyVariable* variable : {sum, mean, first}) {
      // What is read is the value from before the step.
      const Output next = replica.scope().Call("AddV2", {replica.Read(*variable), Own(replica)});
      TANDEM_RETURN_IF_ERROR(replica.Assign(*variable, next));
    }
    return replica.scope().status();
  });
  ASSERT_TRUE(RunStep(0).ok());
  const float n = static_cast<float>(replicas());
  EXPECT_EQ(Value("sum"), n * (n + 1) / 2);
  EXPECT_EQ(Value("mean"), (n + 1) / 2);
  EXPECT_EQ(Value("first"), 1);
  ASSERT_TRUE(RunStep(1).ok());
  EXPECT_EQ(Value("mean"), n + 1);
  EXPECT_EQ(Value("first"), 2);
}

TEST_P(StrategyConformance, AReplicaReadsWhatItAssignedAndTheLastAssignmentCounts) {
  StrategyVariable* const counter = NewVariable("counter", 10, false);
  Build([&](const ReplicaContext& replica) -> absl::Status {
    for (int i = 0; i < 3; ++i) {
      TANDEM_RETURN_IF_ERROR(
          replica.Assign(*counter, replica.scope().Call("AddV2", {replica.Read(*counter), 1.0f})));
    }
    return replica.scope().status();
  });
  ASSERT_TRUE(RunStep(0).ok());
  EXPECT_EQ(Value("counter"), 13);
  ASSERT_TRUE(RunStep(1).ok());
  EXPECT_EQ(Value("counter"), 16);
}

TEST_P(StrategyConformance, AVariableReadOnDemandIsEachReplicasOwnUntilItIsReadFromOutside) {
  StrategyVariable* const sum =
      NewVariable("sum", 0, false, Synchronization::kOnRead, Aggregation::kSum);
  StrategyVariable* const mean =
      NewVariable("mean", 0, false, Synchronization::kOnRead, Aggregation::kMean);
  Build([&](const ReplicaContext& replica) -> absl::Status {
    for (StrategyVariable* variable : {sum, mean}) {
      TANDEM_RETURN_IF_ERROR(replica.Assign(
          *variable, replica.scope().Call("AddV2", {replica.Read(*variable), Own(replica)})));
    }
    return replica.scope().status();
  });
  ASSERT_TRUE(RunStep(0).ok());
  ASSERT_TRUE(RunStep(1).ok());
  const float n = static_cast<float>(replicas());
  EXPECT_EQ(Value("sum"), n * (n + 1));
  EXPECT_EQ(Value("mean"), n + 1);
  // A state that comes back reads as it was.
  const auto state = runner_->CaptureState();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(runner_->RestoreState(*state).ok());
  EXPECT_EQ(Value("sum"), n * (n + 1));
  EXPECT_EQ(Value("mean"), n + 1);
}

TEST_P(StrategyConformance, SeedsDifferByStepAndReplica) {
  PerReplica seeds;
  Build(
      [&](const ReplicaContext& replica) -> absl::Status {
        seeds.push_back(replica.scope().Call("ExpandDims", {replica.StepSeed(77), 0}));
        return replica.scope().status();
      },
      [&]() -> absl::Status {
        TANDEM_ASSIGN_OR_RETURN(const Output all, builder_->GatherToHost(seeds, 0));
        signature_.fetches = {all.name()};
        return absl::OkStatus();
      });
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t step = 0; step < 3; ++step) {
    const auto fetched = RunStep(step);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    const auto values = (*fetched)[0].Elements<int64_t>();
    for (size_t i = 0; i < values.size(); i += 2) seen.emplace(values[i], values[i + 1]);
  }
  EXPECT_EQ(seen.size(), 3u * static_cast<size_t>(replicas()));
}

nn::LayerPtr TwoLayers() {
  return nn::Sequential(
      {nn::Dense({.units = 16, .activation = "relu"}), nn::Dense({.units = kClasses})});
}

TEST_P(StrategyConformance, TrainsToTheNumbersOfOneDevice) {
  const auto weights = [](const Strategy& strategy) {
    Trainer trainer(strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                    optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9}));
    // Batches that no number of replicas divides.
    const auto history = trainer.Fit(ClassificationEpochs(30, 13), {});
    EXPECT_TRUE(history.ok()) << history.status();
    const auto state = trainer.CaptureState();
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *state : StrategyState();
  };
  const auto one = Strategy::OneDevice({});
  ASSERT_TRUE(one.ok()) << one.status();
  const StrategyState expected = weights(**one);
  const StrategyState got = weights(*strategy_);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, expected[i].first);
    ASSERT_EQ(got[i].second.shape(), expected[i].second.shape());
    if (GetParam().asynchronous) continue;  // The order of updates is open.
    for (int64_t k = 0; k < got[i].second.num_elements(); ++k) {
      ASSERT_NEAR(got[i].second.Elements<float>()[static_cast<size_t>(k)],
                  expected[i].second.Elements<float>()[static_cast<size_t>(k)], 3e-4)
          << got[i].first << " " << k;
    }
  }
}

TEST_P(StrategyConformance, AStepThatFailsChangesNothing) {
  Trainer trainer(*strategy_, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9}));
  const auto history = trainer.Fit(ClassificationEpochs(6), {});
  ASSERT_TRUE(history.ok()) << history.status();
  const auto before = trainer.CaptureState();
  ASSERT_TRUE(before.ok()) << before.status();
  // Two bad batches, for strategies that have two steps in flight. Only the last example of each is
  // bad, so that most replicas have nothing to complain of.
  const auto bad_batches = [](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<int>(0);
    return NextBatch([next]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (++*next > 2) return absl::optional<std::vector<Tensor>>();
      std::vector<Tensor> batch = ClassificationBatch(*next);
      batch[1].MutableElements<int32_t>()[19] = 1000;
      return absl::optional<std::vector<Tensor>>(std::move(batch));
    });
  };
  EXPECT_EQ(trainer.Fit(bad_batches, {}).status().code(), absl::StatusCode::kInvalidArgument);
  const auto after = trainer.CaptureState();
  ASSERT_TRUE(after.ok()) << after.status();
  for (size_t i = 0; i < before->size(); ++i) {
    const auto a = (*before)[i].second.Elements<float>();
    const auto b = (*after)[i].second.Elements<float>();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << (*before)[i].first;
  }
}

INSTANTIATE_TEST_SUITE_P(All, StrategyConformance, ::testing::ValuesIn(Strategies()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem
