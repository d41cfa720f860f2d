// Deterministic mode with whole models of all layers: the same bits on any number of devices of any
// type, under every strategy of this process.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/testing/layer_problems.h"

namespace tandem {
namespace {

using testing::LayerProblem;
using testing::LayerTraining;
using testing::TrainLayers;

using MakeStrategy = std::function<absl::StatusOr<std::unique_ptr<Strategy>>()>;

constexpr int kVirtualReplicas = 4;

absl::StatusOr<std::unique_ptr<Strategy>> OneDevice(const std::string& type) {
  setenv("TANDEM_DEVICES", (type + ":1").c_str(), /*overwrite=*/1);
  auto strategy = Strategy::OneDevice(
      {.device = "/device:" + type + ":0", .virtual_replicas = kVirtualReplicas});
  unsetenv("TANDEM_DEVICES");
  return strategy;
}

Strategy::ReplicaOptions Replicas(int count, const std::string& type) {
  return {.replicas = count, .device_type = type, .virtual_replicas = kVirtualReplicas};
}

// Parts of different sizes, that begin at odd addresses; some have no example.
std::vector<int64_t> Sizes() {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 4; ++i) sizes.insert(sizes.end(), {21, 10, 19, 3, 23});
  return sizes;
}

LayerTraining Train(const MakeStrategy& make, const LayerProblem& problem,
                    const optimizer::OptimizerPtr& optimizer) {
  const auto strategy = make();
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  if (!strategy.ok()) return {};
  auto training = TrainLayers(**strategy, problem, optimizer, {.sizes = Sizes()});
  EXPECT_TRUE(training.ok()) << training.status();
  return training.ok() ? *std::move(training) : LayerTraining();
}

void ExpectSameBits(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.dtype(), kFloat32) << what;
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const auto a = got.Elements<float>();
  const auto b = expected.Elements<float>();
  int64_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    // Numbers that are not would compare equal to nothing.
    if (a[i] != b[i] || std::signbit(a[i]) != std::signbit(b[i])) ++different;
  }
  EXPECT_EQ(different, 0) << what << ": so many of " << a.size();
}

void ExpectSameBits(const StrategyState& got, const StrategyState& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, expected[i].first);
    ExpectSameBits(got[i].second, expected[i].second, got[i].first);
  }
}

void ExpectSameBits(const LayerTraining& got, const LayerTraining& expected) {
  ASSERT_EQ(got.epochs.size(), 1u);
  EXPECT_EQ(got.epochs[0].loss, expected.epochs[0].loss);
  EXPECT_EQ(got.epochs[0].metrics, expected.epochs[0].metrics);
  EXPECT_EQ(got.evaluation.loss, expected.evaluation.loss);
  ExpectSameBits(got.predictions, expected.predictions, "predictions");
  ExpectSameBits(got.state, expected.state);
}

void ExpectSameBitsEverywhere(const LayerProblem& problem,
                              const optimizer::OptimizerPtr& optimizer) {
  const auto mirrored = [](const std::string& type, int count) {
    return [=] { return Strategy::Mirrored(Replicas(count, type)); };
  };
  const LayerTraining one = Train(mirrored("CPU", 1), problem, optimizer);
  ASSERT_FALSE(one.state.empty());
  const auto check = [&](const std::string& name, const MakeStrategy& make) {
    SCOPED_TRACE(name);
    ExpectSameBits(Train(make, problem, optimizer), one);
  };
  check("one SIM device", [] { return OneDevice("SIM"); });
  for (const std::string type : {"CPU", "SIM"}) {
    check("mirrored " + type + " 2", mirrored(type, 2));
    check("mirrored " + type + " 4", mirrored(type, 4));
    check("central storage " + type + " 2",
          [&] { return Strategy::CentralStorage(Replicas(2, type)); });
  }
}

TEST(DeterministicLayers, Lstm) {
  ExpectSameBitsEverywhere(testing::LstmProblem(), optimizer::Adam({.learning_rate = 0.02}));
}

TEST(DeterministicLayers, Transformer) {
  ExpectSameBitsEverywhere(
      testing::TransformerProblem(),
      optimizer::ClipByGlobalNorm(optimizer::AdamW({.learning_rate = 0.02}), 1.0));
}

TEST(DeterministicLayers, EveryLayer) {
  ExpectSameBitsEverywhere(testing::EveryLayerProblem(),
                           optimizer::Sgd({.learning_rate = 0.05, .momentum = 0.9}));
}

// What a training leaves is all that the rest of it needs, on whatever devices.
TEST(DeterministicLayers, ATrainingGoesOnOnOtherDevices) {
  const LayerProblem problem = testing::EveryLayerProblem();
  const auto fit = [&](Trainer& trainer, std::vector<int64_t> sizes, int64_t first) {
    const auto history = trainer.Fit(testing::LayerBatches(problem, std::move(sizes), first), {});
    EXPECT_TRUE(history.ok()) << history.status();
  };
  const auto state = [](Trainer& trainer) {
    const auto captured = trainer.CaptureState();
    EXPECT_TRUE(captured.ok()) << captured.status();
    return captured.ok() ? *captured : StrategyState();
  };
  const auto new_trainer = [&](const Strategy& strategy, int64_t first_step) {
    return Trainer(strategy, problem.model, loss::SparseSoftmaxCrossEntropy(),
                   optimizer::Adam({.learning_rate = 0.02}), {.first_step = first_step});
  };
  const auto one = Strategy::Mirrored(Replicas(1, "CPU"));
  const auto two = Strategy::Mirrored(Replicas(2, "SIM"));
  ASSERT_TRUE(one.ok() && two.ok());
  Trainer trainer = new_trainer(**one, 0);
  fit(trainer, {21, 10, 3, 19}, 0);
  const StrategyState middle = state(trainer);
  fit(trainer, {20, 2, 21, 9}, 4);

  Trainer other = new_trainer(**two, 3);
  fit(other, {17}, 3);  // Makes the variables.
  ASSERT_TRUE(other.RestoreState(middle).ok());
  fit(other, {20, 2, 21, 9}, 4);
  ExpectSameBits(state(other), state(trainer));
}

}  // namespace
}  // namespace tandem
