// Whole models of all layers train alike under every strategy, on CPU and on SIM.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "strategies/parameter_server/parameter_test_util.h"
#include "strategies/testing/layer_problems.h"
#include "strategies/testing/unruly_strategy.h"

namespace tandem {
namespace {

using testing::LayerProblem;
using testing::LayerTraining;
using testing::LayerTrainingOptions;
using testing::TrainLayers;

using MakeStrategy = std::function<absl::StatusOr<std::unique_ptr<Strategy>>()>;

absl::StatusOr<std::unique_ptr<Strategy>> OneDevice(const std::string& type) {
  setenv("TANDEM_DEVICES", (type + ":1").c_str(), /*overwrite=*/1);
  auto strategy = Strategy::OneDevice({.device = "/device:" + type + ":0"});
  unsetenv("TANDEM_DEVICES");
  return strategy;
}

absl::StatusOr<std::unique_ptr<Strategy>> Mirrored(int replicas, const std::string& type) {
  return Strategy::Mirrored({.replicas = replicas, .device_type = type});
}

// Three servers in this process, among which nearly all variables are cut, and one worker.
absl::StatusOr<std::unique_ptr<Strategy>> ParameterServers() {
  parameter_server::InProcessOptions options;
  options.builder.shards = 3;
  options.builder.min_part_bytes = 32;
  return parameter_server::InProcessParameterStrategy::Create(options);
}

struct Candidate {
  std::string name;
  MakeStrategy make;
};

void PrintTo(const Candidate& candidate, std::ostream* out) { *out << candidate.name; }

// All but the one they are compared with, which is one CPU device.
std::vector<Candidate> Strategies() {
  const auto central = [](const std::string& type) {
    return Strategy::CentralStorage({.replicas = 2, .device_type = type});
  };
  return {
      {"OneDeviceSim", [] { return OneDevice("SIM"); }},
      {"MirroredCpu2", [] { return Mirrored(2, "CPU"); }},
      {"MirroredSim2", [] { return Mirrored(2, "SIM"); }},
      {"CentralStorageCpu2", [=] { return central("CPU"); }},
      {"CentralStorageSim2", [=] { return central("SIM"); }},
      {"ParameterServers", ParameterServers},
  };
}

// Most batches are odd; the last one leaves a second replica without an example.
LayerTrainingOptions ThreeEpochs() {
  return {.epochs = 3, .sizes = {21, 13, 20, 21, 8, 21, 17, 21, 20, 21, 21, 1}};
}

optimizer::OptimizerPtr Momentum(double learning_rate) {
  return optimizer::Sgd({.learning_rate = learning_rate, .momentum = 0.9});
}

LayerTraining Train(const MakeStrategy& make, const LayerProblem& problem, double learning_rate) {
  const auto strategy = make();
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  if (!strategy.ok()) return {};
  auto training = TrainLayers(**strategy, problem, Momentum(learning_rate), ThreeEpochs());
  EXPECT_TRUE(training.ok()) << training.status();
  return training.ok() ? *std::move(training) : LayerTraining();
}

double Greatest(const Tensor& values) {
  double greatest = 0;
  for (const float value : values.Elements<float>()) {
    greatest = std::max(greatest, std::abs(static_cast<double>(value)));
  }
  return greatest;
}

void ExpectNear(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.dtype(), kFloat32) << what;
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  double difference = 0;
  for (size_t i = 0; i < got.Elements<float>().size(); ++i) {
    const float value = got.Elements<float>()[i];
    ASSERT_TRUE(std::isfinite(value)) << what << " " << i;
    difference =
        std::max(difference, std::abs(static_cast<double>(value) - expected.Elements<float>()[i]));
  }
  EXPECT_LE(difference, 5e-4 * Greatest(expected) + 1e-6) << what;
}

void ExpectSame(const LayerTraining& got, const LayerTraining& expected) {
  ASSERT_EQ(got.epochs.size(), expected.epochs.size());
  for (size_t i = 0; i < got.epochs.size(); ++i) {
    EXPECT_NEAR(got.epochs[i].loss, expected.epochs[i].loss, 1e-3) << "epoch " << i;
    EXPECT_EQ(got.epochs[i].examples, expected.epochs[i].examples);
  }
  EXPECT_NEAR(got.evaluation.loss, expected.evaluation.loss, 1e-3);
  ExpectNear(got.predictions, expected.predictions, "predictions");
  ASSERT_EQ(got.state.size(), expected.state.size());
  for (size_t i = 0; i < got.state.size(); ++i) {
    EXPECT_EQ(got.state[i].first, expected.state[i].first);
    ExpectNear(got.state[i].second, expected.state[i].second, got.state[i].first);
  }
}

// Every variable took part; only then its comparison says something.
void ExpectMoved(const LayerTraining& training) {
  for (const auto& [name, momentum] : training.state) {
    if (!absl::EndsWith(name, "/sgd/momentum")) continue;
    // Adds the same to all that a query is compared with: it has no gradient but rounding.
    if (absl::EndsWith(name, "key/bias/sgd/momentum")) continue;
    EXPECT_GT(Greatest(momentum), 1e-4) << name;
  }
}

void ExpectLearned(const LayerTraining& training, double part) {
  ASSERT_EQ(training.epochs.size(), 3u);
  EXPECT_LT(training.epochs[2].loss, part * training.epochs[0].loss);
  EXPECT_LT(training.evaluation.loss, training.epochs[0].loss);
}

class WholeModels : public ::testing::TestWithParam<Candidate> {
 protected:
  // Trains as one CPU device does, to rounding, and learns.
  void Check(const LayerProblem& problem, double learning_rate, double part) const {
    const LayerTraining one = Train([] { return OneDevice("CPU"); }, problem, learning_rate);
    const LayerTraining got = Train(GetParam().make, problem, learning_rate);
    if (HasFailure()) return;
    ExpectLearned(one, part);
    ExpectMoved(one);
    ExpectSame(got, one);
  }
};

TEST_P(WholeModels, Lstm) { Check(testing::LstmProblem(), 0.1, 0.7); }

TEST_P(WholeModels, Transformer) { Check(testing::TransformerProblem(), 0.05, 0.3); }

TEST_P(WholeModels, EveryLayer) {
  Check(testing::EveryLayerProblem({.depends_on_cut = false}), 0.1, 0.3);
}

// No moving statistic, slot or row of an embedding either.
TEST_P(WholeModels, AStepThatFailsChangesNothing) {
  const LayerProblem problem = testing::EveryLayerProblem();
  const auto strategy = GetParam().make();
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  Trainer trainer(**strategy, problem.model, loss::SparseSoftmaxCrossEntropy(), Momentum(0.1));
  const auto history = trainer.Fit(testing::LayerBatches(problem, {21, 20}), {});
  ASSERT_TRUE(history.ok()) << history.status();
  const auto before = trainer.CaptureState();
  ASSERT_TRUE(before.ok()) << before.status();
  // Only the last example is bad, so that most replicas have nothing to complain of: a word shows
  // at the beginning of the step, a class at the end of its forward pass.
  constexpr size_t kWords = 1;
  constexpr size_t kClasses = 3;
  for (const size_t bad : {kWords, kClasses}) {
    LayerProblem wrong = problem;
    wrong.batch = [&](int64_t number, int64_t size) {
      std::vector<Tensor> batch = problem.batch(number, size);
      const auto values = batch[bad].MutableElements<int32_t>();
      values[values.size() - 1] = 1000;
      return batch;
    };
    EXPECT_EQ(trainer.Fit(testing::LayerBatches(wrong, {20}, 2), {}).status().code(),
              absl::StatusCode::kInvalidArgument);
    const auto after = trainer.CaptureState();
    ASSERT_TRUE(after.ok()) << after.status();
    for (size_t i = 0; i < before->size(); ++i) {
      const auto a = (*before)[i].second.Elements<float>();
      const auto b = (*after)[i].second.Elements<float>();
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << (*before)[i].first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WholeModels, ::testing::ValuesIn(Strategies()),
                         [](const auto& info) { return info.param.name; });

// What depends on how the batch is cut still depends on nothing else.
TEST(EveryLayer, OnSimDevicesAsOnCpuDevices) {
  const LayerProblem problem = testing::EveryLayerProblem();
  for (const int replicas : {1, 2}) {
    SCOPED_TRACE(replicas);
    const auto with = [&](const std::string& type) {
      return Train([&] { return replicas == 1 ? OneDevice(type) : Mirrored(replicas, type); },
                   problem, 0.1);
    };
    const LayerTraining cpu = with("CPU");
    const LayerTraining sim = with("SIM");
    if (HasFailure()) return;
    ExpectLearned(cpu, 0.3);
    ExpectMoved(cpu);
    ExpectSame(sim, cpu);
  }
}

// The repetition of a step that lost a member gives what the step would have given, statistics and
// random numbers too.
TEST(EveryLayer, StepsThatAreRepeatedLeaveNoTrace) {
  const LayerProblem problem = testing::EveryLayerProblem();
  const auto unruly = []() -> absl::StatusOr<std::unique_ptr<Strategy>> {
    return std::make_unique<testing::UnrulyStrategy>(
        testing::UnrulyOptions{.steps_in_flight = 1, .lost_step = 5, .failures = 2});
  };
  const LayerTraining one = Train([] { return OneDevice("CPU"); }, problem, 0.1);
  const LayerTraining got = Train(unruly, problem, 0.1);
  if (HasFailure()) return;
  EXPECT_EQ(one.member_events.size(), 0u);
  EXPECT_EQ(got.member_events.size(), 4u);  // Twice one left and came back.
  ExpectSame(got, one);
}

}  // namespace
}  // namespace tandem
