// Training under the mirrored strategy: the same numbers whatever the number of devices.
#include "strategies/mirrored/mirrored.h"

#include <cmath>
#include <cstring>

#include "gtest/gtest.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/thread_pool.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

constexpr int64_t kBatch = 20;
constexpr int64_t kFeatures = 6;
constexpr int64_t kClasses = 4;

// A problem that can be learned: the class is the greatest of the first four features.
std::vector<Tensor> Batch(int64_t number) {
  Tensor x(kFloat32, Shape({kBatch, kFeatures}));
  Tensor y(kInt32, Shape({kBatch}));
  for (int64_t i = 0; i < kBatch; ++i) {
    int best = 0;
    for (int64_t j = 0; j < kFeatures; ++j) {
      const double noise =
          std::sin(static_cast<double>((number * kBatch + i) * 97 + j * 31 + 1)) * 1e4;
      const float value = static_cast<float>(noise - std::floor(noise));
      x.MutableElements<float>()[static_cast<size_t>(i * kFeatures + j)] = value;
      if (j < kClasses && value > x.Elements<float>()[static_cast<size_t>(i * kFeatures + best)]) {
        best = static_cast<int>(j);
      }
    }
    y.MutableElements<int32_t>()[static_cast<size_t>(i)] = best;
  }
  return {x, y};
}

OpenEpoch Batches(int64_t count) {
  return [count](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<int64_t>(0);
    return NextBatch([next, count]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == count) return absl::optional<std::vector<Tensor>>();
      return absl::optional<std::vector<Tensor>>(Batch((*next)++));
    });
  };
}

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
  const auto history = trainer.Fit(Batches(steps), fit);
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

TEST(Mirrored, DeterministicModeGivesTheSameBitsOnAnyNumberOfDevices) {
  for (const std::string type : {"CPU", "SIM"}) {
    const Trained one = Train(*Mirrored(1, 8), 100, Momentum());
    ASSERT_FALSE(one.weights.empty());
    for (const int replicas : {2, 4, 8}) {
      const Trained many = Train(*Mirrored(replicas, 8, type), 100, Momentum());
      ASSERT_EQ(many.weights.size(), one.weights.size());
      EXPECT_EQ(
          std::memcmp(many.weights.data(), one.weights.data(), one.weights.size() * sizeof(float)),
          0)
          << replicas << " on " << type;
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
    EXPECT_TRUE(trainer.Fit(Batches(1), fit).ok());
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

TEST(Trainer, StopsAtANonFiniteLossAndNamesTheStep) {
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Sgd({.learning_rate = 1e30}));
  const auto history = trainer.Fit(Batches(20), {});
  EXPECT_EQ(history.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(history.status().message()).find("step"), std::string::npos);
}

TEST(Trainer, FailsTheSameWayTwiceWhenItCannotBegin) {
  const auto strategy = Strategy::OneDevice({.device = "/device:CPU:77"});
  ASSERT_TRUE(strategy.ok());
  Trainer trainer(**strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  const absl::Status first = trainer.Fit(Batches(1), {}).status();
  EXPECT_EQ(first.code(), absl::StatusCode::kInvalidArgument) << first;
  EXPECT_EQ(trainer.Fit(Batches(1), {}).status(), first);
  EXPECT_FALSE(trainer.Variable("dense/kernel").ok());
}

TEST(Trainer, AnEmptyEpochIsAnError) {
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  EXPECT_EQ(trainer.Fit(Batches(0), {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Trainer, PredictsInOrderUnderReplicas) {
  const auto one = Mirrored(1);
  const auto two = Mirrored(2);
  std::vector<std::vector<float>> outputs;
  for (const Strategy* strategy : {one.get(), two.get()}) {
    Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
    ASSERT_TRUE(trainer.Fit(Batches(1), {}).ok());
    const auto prediction = trainer.Predict(Batch(5)[0]);
    ASSERT_TRUE(prediction.ok()) << prediction.status();
    EXPECT_EQ(prediction->shape(), Shape({kBatch, kClasses}));
    outputs.emplace_back(prediction->Elements<float>().begin(),
                         prediction->Elements<float>().end());
  }
  for (size_t i = 0; i < outputs[0].size(); ++i) EXPECT_NEAR(outputs[0][i], outputs[1][i], 1e-4);
}

TEST(Trainer, StopEndsAfterTheRunningStep) {
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  FitOptions fit;
  int64_t steps = 0;
  fit.on_step = [&](const TrainingProgress& progress) {
    steps = progress.step;
    if (steps == 3) trainer.Stop();
    return true;
  };
  EXPECT_EQ(trainer.Fit(Batches(20), fit).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(steps, 3);
}

}  // namespace
}  // namespace tandem
