#include "strategies/testing/layer_problems.h"

#include <cmath>
#include <memory>

#include "core/base/status.h"
#include "strategies/testing/classification_problem.h"

namespace tandem::testing {
namespace {

// In [0, 1), another one for each `i`.
float Noise(int64_t i) {
  const double wave = std::sin(static_cast<double>(i) * 12.9898 + 1) * 43758.5453;
  return static_cast<float>(wave - std::floor(wave));
}

// In [0, limit).
int64_t Pick(int64_t i, int64_t limit) {
  return std::min(limit - 1, static_cast<int64_t>(Noise(i) * static_cast<float>(limit)));
}

Tensor Classes(int64_t number, int64_t size) {
  Tensor classes(kInt32, Shape({size}));
  for (int64_t i = 0; i < size; ++i) {
    classes.MutableElements<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>(Pick(number * 1000 + i, kClasses));
  }
  return classes;
}

constexpr int64_t kSteps = 5;

// The class's feature is raised in the first two steps.
Tensor Sequences(int64_t number, const Tensor& classes) {
  Tensor x(kFloat32, Shape({classes.num_elements(), kSteps, kFeatures}));
  const auto values = x.MutableElements<float>();
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t at = static_cast<int64_t>(k);
    const int64_t example = at / (kSteps * kFeatures);
    const bool raised = at / kFeatures % kSteps < 2 &&
                        at % kFeatures == classes.Elements<int32_t>()[static_cast<size_t>(example)];
    values[k] = Noise(number * 7919 + at) + (raised ? 2.0f : 0.0f);
  }
  return x;
}

constexpr int64_t kLength = 6;
constexpr int64_t kCommonWords = 8;
constexpr int64_t kWords = kCommonWords + kClasses;

// Every other word tells the class, or its remainder.
Tensor Words(int64_t number, const Tensor& classes, int32_t modulus = kClasses) {
  const int64_t size = classes.num_elements();
  Tensor words(kInt32, Shape({size, kLength}));
  const auto values = words.MutableElements<int32_t>();
  for (int64_t i = 0; i < size; ++i) {
    const int64_t place = Pick(number * 3571 + i, 2);
    for (int64_t j = 0; j < kLength; ++j) {
      values[static_cast<size_t>(i * kLength + j)] =
          j % 2 == place
              ? static_cast<int32_t>(kCommonWords) +
                    classes.Elements<int32_t>()[static_cast<size_t>(i)] % modulus
              : static_cast<int32_t>(Pick(number * 7919 + i * kLength + j, kCommonWords));
    }
  }
  return words;
}

// Every word sees itself, and some of the others.
Tensor Visible(int64_t number, int64_t size) {
  Tensor visible(kBool, Shape({size, kLength, kLength}));
  const auto values = visible.MutableElements<bool>();
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t at = static_cast<int64_t>(k);
    values[k] = at / kLength % kLength == at % kLength || Noise(number * 104729 + at) < 0.7f;
  }
  return visible;
}

constexpr int64_t kSide = 8;
constexpr int64_t kColors = 2;

// The upper half is bright, or the lower one, for the upper classes.
Tensor Images(int64_t number, const Tensor& classes) {
  Tensor images(kFloat32, Shape({classes.num_elements(), kSide, kSide, kColors}));
  const auto values = images.MutableElements<float>();
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t at = static_cast<int64_t>(k);
    const int64_t pixel = at / kColors % (kSide * kSide);
    const bool lower = pixel / kSide >= kSide / 2;
    const int64_t example = at / (kSide * kSide * kColors);
    const bool bright =
        lower == (classes.Elements<int32_t>()[static_cast<size_t>(example)] >= kClasses / 2);
    values[k] = Noise(number * 7919 + at) + (bright ? 0.7f : 0.0f);
  }
  return images;
}

nn::LayerPtr WordEmbedding() {
  return nn::Embedding({.input_dim = kWords,
                        .output_dim = 8,
                        .embeddings_initializer = nn::initializer::RandomUniform(-1, 1)});
}

using nn::Apply;
using nn::Value;

nn::LayerPtr EveryLayerModel(const EveryLayerOptions& options) {
  const double rate = options.depends_on_cut ? 0.2 : 0;
  const auto batch_norm = [&](bool synchronized) {
    return nn::BatchNorm(
        {.momentum = 0.9, .synchronized = synchronized || !options.depends_on_cut});
  };
  const Value image = Value::Input();
  const Value pooled = Apply(
      nn::Sequential(
          {nn::Conv2D({.filters = 4, .padding = "SAME", .use_bias = false}), batch_norm(true),
           nn::Activation("relu"),
           nn::DepthwiseConv2D({.depth_multiplier = 2, .padding = "SAME", .activation = "gelu"}),
           batch_norm(false), nn::MaxPool2D()}),
      image);
  const Value places = Apply(
      nn::Sequential(
          {nn::Conv2D(
               {.filters = 8, .kernel = {2, 2}, .dilations = {2, 2}, .activation = "leaky_relu"}),
           nn::Flatten(), nn::Dropout({.rate = rate}), nn::Dense({.units = 8, .use_bias = false}),
           batch_norm(true)}),
      pooled);
  const Value overall = Apply(
      nn::Sequential(
          {nn::AveragePool2D({.pool = {3, 3}, .strides = {2, 2}, .padding = "SAME"}),
           nn::Residual({nn::Conv2D({.filters = 8, .kernel = {1, 1}}), nn::Activation("tanh")}),
           nn::GlobalAveragePool2D()}),
      pooled);

  const Value words = Value::Input();
  const Value visible = Value::Input();
  const Value embedded = Apply(WordEmbedding(), words);
  const Value attended =
      Apply(nn::MultiHeadAttention({.num_heads = 2, .key_dim = 4, .dropout = rate}),
            {embedded, embedded, embedded, visible});
  const Value remembered = Apply(
      nn::Sequential({nn::LayerNorm(),
                      nn::Residual({nn::LayerNorm(), nn::Dense({.units = 16, .activation = "silu"}),
                                    nn::Dense({.units = 8})}),
                      nn::Lstm({.units = 8, .return_sequences = true}), nn::Lstm({.units = 8})}),
      Apply(nn::Add(), {embedded, attended}));

  const Value all = Apply(nn::Concatenate(), {places, overall, remembered});
  return nn::Model(
      {image, words, visible},
      Apply(nn::Sequential({nn::Dense({.units = 24, .activation = "elu"}), nn::Reshape({2, 12}),
                            nn::Frozen(nn::Sequential({nn::Dense({.units = 12}), nn::BatchNorm()})),
                            nn::Flatten(), nn::Named("head", nn::Dense({.units = kClasses}))}),
            all));
}

}  // namespace

LayerProblem LstmProblem() {
  return {nn::Sequential({nn::Lstm({.units = 8, .return_sequences = true}), nn::Lstm({.units = 8}),
                          nn::Dense({.units = kClasses})}),
          [](int64_t number, int64_t size) -> std::vector<Tensor> {
            const Tensor classes = Classes(number, size);
            return {Sequences(number, classes), classes};
          }};
}

LayerProblem TransformerProblem() {
  return {nn::Sequential(
              {WordEmbedding(),
               nn::Residual({nn::LayerNorm(), nn::MultiHeadAttention(
                                                  {.num_heads = 2, .key_dim = 4, .causal = true})}),
               nn::Residual({nn::LayerNorm(), nn::Dense({.units = 16, .activation = "gelu"}),
                             nn::Dense({.units = 8})}),
               nn::LayerNorm(), nn::Reshape({kLength, 1, 8}), nn::GlobalAveragePool2D(),
               nn::Dense({.units = kClasses})}),
          [](int64_t number, int64_t size) -> std::vector<Tensor> {
            const Tensor classes = Classes(number, size);
            return {Words(number, classes), classes};
          }};
}

LayerProblem EveryLayerProblem(EveryLayerOptions options) {
  return {EveryLayerModel(options), [](int64_t number, int64_t size) -> std::vector<Tensor> {
            const Tensor classes = Classes(number, size);
            return {Images(number, classes), Words(number, classes, kClasses / 2),
                    Visible(number, size), classes};
          }};
}

OpenEpoch LayerBatches(const LayerProblem& problem, std::vector<int64_t> sizes, int64_t first) {
  return [=](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<size_t>(0);
    return NextBatch([=]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == sizes.size()) return absl::optional<std::vector<Tensor>>();
      const size_t i = (*next)++;
      return absl::optional<std::vector<Tensor>>(
          problem.batch(first + static_cast<int64_t>(i), sizes[i]));
    });
  };
}

absl::StatusOr<LayerTraining> TrainLayers(const Strategy& strategy, const LayerProblem& problem,
                                          const optimizer::OptimizerPtr& optimizer,
                                          const LayerTrainingOptions& options) {
  Trainer trainer(strategy, problem.model, loss::SparseSoftmaxCrossEntropy(), optimizer);
  LayerTraining training;
  TANDEM_ASSIGN_OR_RETURN(training.epochs, trainer.Fit(LayerBatches(problem, options.sizes),
                                                       {.epochs = options.epochs}));
  const int64_t unseen = static_cast<int64_t>(options.sizes.size());
  TANDEM_ASSIGN_OR_RETURN(training.evaluation,
                          trainer.Evaluate(LayerBatches(problem, {21, 8, 1}, unseen)));
  std::vector<Tensor> inputs = problem.batch(unseen, 13);
  inputs.pop_back();
  TANDEM_ASSIGN_OR_RETURN(training.predictions, trainer.Predict(std::move(inputs)));
  TANDEM_ASSIGN_OR_RETURN(training.state, trainer.CaptureState());
  training.member_events = trainer.TakeMemberEvents();
  return training;
}

}  // namespace tandem::testing
