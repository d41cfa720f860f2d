// Deterministic mode: the same weights, bit for bit, on any number of devices of any type.
#include <cmath>
#include <cstring>

#include "gtest/gtest.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

using testing::ClassificationBatch;
using testing::kClasses;
using testing::kFeatures;

constexpr int kVirtualReplicas = 8;
constexpr int64_t kSteps = 100;
// No multiple of the virtual replicas: their parts differ, and most begin at odd addresses.
constexpr int64_t kBatch = 21;

using Batches = std::function<std::vector<Tensor>(int64_t number)>;

OpenEpoch Epoch(Batches batches) {
  return [batches](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<int64_t>(0);
    return NextBatch([next, batches]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == kSteps) return absl::optional<std::vector<Tensor>>();
      return absl::optional<std::vector<Tensor>>(batches((*next)++));
    });
  };
}

// All variables, slots and moving statistics too, one after the other.
std::vector<float> Train(int devices, const std::string& type, const nn::LayerPtr& model,
                         const optimizer::OptimizerPtr& optimizer, const Batches& batches) {
  std::vector<float> weights;
  const auto strategy = Strategy::Mirrored(
      {.replicas = devices, .device_type = type, .virtual_replicas = kVirtualReplicas});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  if (!strategy.ok()) return weights;
  Trainer trainer(**strategy, model, loss::SparseSoftmaxCrossEntropy(), optimizer);
  const auto history = trainer.Fit(Epoch(batches), {});
  EXPECT_TRUE(history.ok()) << history.status();
  if (!history.ok()) return weights;
  const auto state = trainer.CaptureState();
  EXPECT_TRUE(state.ok()) << state.status();
  for (const auto& [name, value] : *state) {
    for (const float weight : value.Elements<float>()) weights.push_back(weight);
  }
  for (const float weight : weights) EXPECT_TRUE(std::isfinite(weight));
  return weights;
}

void ExpectSameBits(const nn::LayerPtr& model, const optimizer::OptimizerPtr& optimizer,
                    const Batches& batches) {
  const std::vector<float> one = Train(1, "CPU", model, optimizer, batches);
  ASSERT_FALSE(one.empty());
  for (const std::string type : {"CPU", "SIM"}) {
    for (const int devices : {1, 2, 4, 8}) {
      if (devices == 1 && type == "CPU") continue;
      const std::vector<float> many = Train(devices, type, model, optimizer, batches);
      ASSERT_EQ(many.size(), one.size());
      EXPECT_EQ(std::memcmp(many.data(), one.data(), one.size() * sizeof(float)), 0)
          << devices << " on " << type;
    }
  }
}

std::vector<Tensor> Vectors(int64_t number) { return ClassificationBatch(number, kBatch); }

// Whole numbers, some of them several times in a batch; the class is their sum's remainder.
std::vector<Tensor> Words(int64_t number) {
  constexpr int64_t kLength = 3;
  constexpr int64_t kWords = 12;
  Tensor words(kInt32, Shape({kBatch, kLength}));
  Tensor classes(kInt32, Shape({kBatch}));
  for (int64_t i = 0; i < kBatch; ++i) {
    int64_t sum = 0;
    for (int64_t j = 0; j < kLength; ++j) {
      const int64_t word = ((number * kBatch + i) * 7 + j * j * 5 + (i * j) % 11) % kWords;
      words.MutableElements<int32_t>()[static_cast<size_t>(i * kLength + j)] =
          static_cast<int32_t>(word);
      sum += word;
    }
    classes.MutableElements<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>(sum % kClasses);
  }
  return {words, classes};
}

// Images of 6 by 6 with a bright quadrant, the class.
std::vector<Tensor> Images(int64_t number) {
  constexpr int64_t kSize = 6;
  Tensor images(kFloat32, Shape({kBatch, kSize, kSize, 1}));
  Tensor classes(kInt32, Shape({kBatch}));
  for (int64_t i = 0; i < kBatch; ++i) {
    const int64_t quadrant = (number + i) % kClasses;
    classes.MutableElements<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(quadrant);
    for (int64_t p = 0; p < kSize * kSize; ++p) {
      const bool bright = (p / kSize / 3) * 2 + p % kSize / 3 == quadrant;
      const double noise = std::sin(static_cast<double>((number * kBatch + i) * 41 + p)) * 1e3;
      images.MutableElements<float>()[static_cast<size_t>(i * kSize * kSize + p)] =
          static_cast<float>(noise - std::floor(noise)) + (bright ? 0.5f : 0.0f);
    }
  }
  return {images, classes};
}

TEST(Deterministic, TwoDenseLayersWithMomentum) {
  ExpectSameBits(nn::Sequential({nn::Dense({.units = 16, .activation = "relu"}),
                                 nn::Dense({.units = kClasses})}),
                 optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9}), Vectors);
}

TEST(Deterministic, SynchronizedBatchNormalizationAndDropout) {
  ExpectSameBits(nn::Sequential({nn::Dense({.units = 16}), nn::BatchNorm({.synchronized = true}),
                                 nn::Activation("relu"), nn::Dropout({.rate = 0.3}),
                                 nn::Dense({.units = kClasses})}),
                 optimizer::Adam({.learning_rate = 0.01}), Vectors);
}

TEST(Deterministic, SparseGradientsWithMomentum) {
  ExpectSameBits(nn::Sequential({nn::Embedding({.input_dim = 12, .output_dim = 5}), nn::Flatten(),
                                 nn::Dense({.units = kClasses})}),
                 optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9}), Words);
}

TEST(Deterministic, SparseGradientsWithAdam) {
  ExpectSameBits(nn::Sequential({nn::Embedding({.input_dim = 12, .output_dim = 5}), nn::Flatten(),
                                 nn::Dense({.units = kClasses})}),
                 optimizer::Adam({.learning_rate = 0.01}), Words);
}

TEST(Deterministic, ConvolutionsWithSynchronizedBatchNormalization) {
  ExpectSameBits(nn::Sequential({nn::Conv2D({.filters = 4, .kernel = {3, 3}, .padding = "SAME"}),
                                 nn::BatchNorm({.synchronized = true}), nn::Activation("relu"),
                                 nn::MaxPool2D(), nn::Flatten(), nn::Dense({.units = kClasses})}),
                 optimizer::ClipByGlobalNorm(optimizer::Adam({.learning_rate = 0.01}), 1.0),
                 Images);
}

}  // namespace
}  // namespace tandem
