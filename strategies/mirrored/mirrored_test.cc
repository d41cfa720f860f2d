// Training under the mirrored strategy: the same numbers whatever the number of devices.
#include "strategies/mirrored/mirrored.h"

#include "gtest/gtest.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/thread_pool.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

using testing::ClassificationEpochs;

nn::LayerPtr TwoLayers() {
  return nn::Sequential({nn::Dense({.units = 16, .activation = "relu"}), nn::Dense({.units = 4})});
}

struct Trained {
  std::vector<EpochResult> history;
  std::vector<float> weights;  // All variables, one after the other.
};

Trained Train(const Strategy& strategy, int64_t steps, optimizer::OptimizerPtr optimizer,
              int epochs = 1) {
  Trainer trainer(strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), std::move(optimizer));
  FitOptions fit;
  fit.epochs = epochs;
  const auto history = trainer.Fit(ClassificationEpochs(steps), fit);
  EXPECT_TRUE(history.ok()) << history.status();
  Trained trained;
  if (history.ok()) trained.history = *history;
  for (const std::string& name : trainer.VariableNames()) {
    const absl::StatusOr<Tensor> value = trainer.Variable(name);
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok()) continue;
    for (const float weight : value->Elements<float>()) trained.weights.push_back(weight);
  }
  return trained;
}

std::unique_ptr<Strategy> Mirrored(int replicas, int virtual_replicas = 0,
                                   const std::string& type = "CPU") {
  absl::StatusOr<std::unique_ptr<Strategy>> strategy = Strategy::Mirrored(
      {.replicas = replicas, .device_type = type, .virtual_replicas = virtual_replicas});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  return *std::move(strategy);
}

optimizer::OptimizerPtr Momentum() {
  return optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9});
}

TEST(Mirrored, ATwoLayerNetLearns) {
  for (const int replicas : {1, 2}) {
    const Trained trained =
        Train(*Mirrored(replicas), 60, optimizer::Adam({.learning_rate = 0.02}), 6);
    ASSERT_EQ(trained.history.size(), 6u);
    EXPECT_LT(trained.history.back().loss, 0.5 * trained.history.front().loss) << replicas;
    EXPECT_GT(trained.history.back().Value("accuracy").value_or(0), 0.85) << replicas;
  }
}

TEST(Mirrored, ReplicasGiveTheResultOfOneToRounding) {
  const Trained one = Train(*Mirrored(1), 30, Momentum());
  for (const int replicas : {2, 3, 4}) {
    const Trained many = Train(*Mirrored(replicas), 30, Momentum());
    ASSERT_EQ(many.weights.size(), one.weights.size());
    for (size_t i = 0; i < one.weights.size(); ++i) {
      ASSERT_NEAR(many.weights[i], one.weights[i], 2e-4) << replicas << " " << i;
    }
  }
}

TEST(Mirrored, EightReplicasFinishWithOneThreadAndOneToken) {
  const int before = RunTokens::Process().capacity();
  ExecutorPool().SetMaxRunning(1);
  RunTokens::Process().SetCapacity(1);
  RunTokens::Process().ResetHighWater();
  const Trained trained = Train(*Mirrored(8), 5, Momentum());
  EXPECT_EQ(trained.history.size(), 1u);
  EXPECT_EQ(RunTokens::Process().high_water(), 1);
  RunTokens::Process().SetCapacity(before);
  ExecutorPool().SetMaxRunning(before);
}

TEST(Mirrored, VariableNamesDoNotShowReplicas) {
  const auto names = [](int replicas) {
    const auto strategy = Mirrored(replicas);
    Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
    FitOptions fit;
    EXPECT_TRUE(trainer.Fit(ClassificationEpochs(1), fit).ok());
    return trainer.VariableNames();
  };
  const std::vector<std::string> expected = {"dense/kernel",
                                             "dense/bias",
                                             "dense_1/kernel",
                                             "dense_1/bias",
                                             "dense/kernel/sgd/momentum",
                                             "dense/bias/sgd/momentum",
                                             "dense_1/kernel/sgd/momentum",
                                             "dense_1/bias/sgd/momentum"};
  EXPECT_EQ(names(1), expected);
  EXPECT_EQ(names(3), expected);
}

TEST(Mirrored, RefusesZeroReplicasMoreThanThereAreAndTooFewVirtualOnes) {
  EXPECT_EQ(NewMirroredBuilder({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Strategy::Mirrored({.replicas = -1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto strategy = Mirrored(4, 2);
  EXPECT_EQ(strategy->NewBuilder().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
