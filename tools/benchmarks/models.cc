#include "tools/benchmarks/models.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "strategies/nn/activation.h"
#include "strategies/nn/attention.h"
#include "strategies/nn/batch_norm.h"
#include "strategies/nn/convolution.h"
#include "strategies/nn/dense.h"
#include "strategies/nn/embedding.h"
#include "strategies/nn/layer_norm.h"
#include "strategies/nn/lstm.h"
#include "strategies/nn/merge.h"
#include "strategies/nn/model.h"
#include "strategies/nn/pooling.h"
#include "strategies/nn/reshape.h"
#include "strategies/nn/sequential.h"
#include "strategies/nn/wrappers.h"

namespace tandem::benchmarks {
namespace {

using nn::Apply;
using nn::Named;
using nn::Value;

constexpr int kVocabulary = 65;
constexpr int kWidth = 128;

nn::LayerPtr Cnn() {
  return nn::Sequential({
      Named("conv", nn::Conv2D({.filters = 64, .kernel = {3, 3}, .activation = "relu"})),
      nn::MaxPool2D(),
      nn::Flatten(),
      Named("dense_a", nn::Dense({.units = 128, .activation = "relu"})),
      Named("dense_b", nn::Dense({.units = 10})),
  });
}

nn::LayerPtr Mlp() {
  return nn::Sequential({
      Named("dense_a", nn::Dense({.units = 128, .activation = "relu"})),
      Named("dense_b", nn::Dense({.units = 10})),
  });
}

nn::LayerPtr Lenet() {
  return nn::Sequential({
      Named("conv_a", nn::Conv2D({.filters = 6, .kernel = {5, 5}, .activation = "relu"})),
      nn::MaxPool2D(),
      Named("conv_b", nn::Conv2D({.filters = 16, .kernel = {5, 5}, .activation = "relu"})),
      nn::MaxPool2D(),
      nn::Flatten(),
      Named("dense_a", nn::Dense({.units = 120, .activation = "relu"})),
      Named("dense_b", nn::Dense({.units = 84, .activation = "relu"})),
      Named("dense_c", nn::Dense({.units = 10})),
  });
}

// A convolution without bias, and its normalization.
Value Normalized(const std::string& suffix, const Value& x, int64_t filters, int64_t size,
                 int64_t stride) {
  const Value y = Apply(Named("conv" + suffix, nn::Conv2D({.filters = filters,
                                                           .kernel = {size, size},
                                                           .strides = {stride, stride},
                                                           .padding = "SAME",
                                                           .use_bias = false})),
                        x);
  return Apply(Named("norm" + suffix, nn::BatchNorm()), y);
}

nn::LayerPtr Resnet8() {
  const Value input = Value::Input();
  Value x = Apply(nn::Activation("relu"), Normalized("", input, 16, 3, 1));
  int64_t channels = 16;
  for (int block = 0; block < 3; ++block) {
    const int64_t filters = 16 << block;
    const int64_t stride = block == 0 ? 1 : 2;
    const std::string name = absl::StrCat("_", block);
    Value y = Apply(nn::Activation("relu"), Normalized(name + "_a", x, filters, 3, stride));
    y = Normalized(name + "_b", y, filters, 3, 1);
    if (stride != 1 || channels != filters) x = Normalized(name + "_s", x, filters, 1, stride);
    x = Apply(nn::Activation("relu"), Apply(nn::Add(), {x, y}));
    channels = filters;
  }
  x = Apply(nn::GlobalAveragePool2D(), x);
  return nn::Model({input}, Apply(Named("dense", nn::Dense({.units = 10})), x));
}

nn::LayerPtr Lstm() {
  return nn::Sequential({
      Named("embedding", nn::Embedding({.input_dim = kVocabulary, .output_dim = 64})),
      Named("lstm", nn::Lstm({.units = 128, .return_sequences = true})),
      Named("dense", nn::Dense({.units = kVocabulary})),
  });
}

nn::LayerPtr Gpt() {
  constexpr int kHeads = 4;
  const Value input = Value::Input();
  Value x = Apply(
      Named("embedding", nn::Embedding({.input_dim = kVocabulary, .output_dim = kWidth})), input);
  for (int block = 0; block < 4; ++block) {
    const std::string name = absl::StrCat("_", block);
    Value y = Apply(Named(absl::StrCat("norm", name, "_a"), nn::LayerNorm()), x);
    y = Apply(Named("attention" + name,
                    nn::MultiHeadAttention(
                        {.num_heads = kHeads, .key_dim = kWidth / kHeads, .causal = true})),
              y);
    x = Apply(nn::Add(), {x, y});
    y = Apply(Named(absl::StrCat("norm", name, "_b"), nn::LayerNorm()), x);
    y = Apply(Named(absl::StrCat("dense", name, "_a"),
                    nn::Dense({.units = 4 * kWidth, .activation = "gelu"})),
              y);
    y = Apply(Named(absl::StrCat("dense", name, "_b"), nn::Dense({.units = kWidth})), y);
    x = Apply(nn::Add(), {x, y});
  }
  x = Apply(Named("norm", nn::LayerNorm()), x);
  return nn::Model({input}, Apply(Named("dense", nn::Dense({.units = kVocabulary})), x));
}

optimizer::OptimizerPtr Adam() { return optimizer::Adam({.learning_rate = 1e-3}); }
optimizer::OptimizerPtr Momentum() {
  return optimizer::Sgd({.learning_rate = 1e-3, .momentum = 0.9});
}

struct Kind {
  const char* name;
  nn::LayerPtr (*layers)();
  optimizer::OptimizerPtr (*optimizer)();
  int64_t batch_size;
  std::vector<int64_t> input;
  std::vector<int64_t> labels;
  int64_t vocabulary;
  int64_t classes;
};

const std::vector<Kind>& Kinds() {
  static const auto* const kinds = new std::vector<Kind>{
      {"cnn64-b64", Cnn, Adam, 64, {28, 28, 1}, {}, 0, 10},
      {"mlp-b64", Mlp, Adam, 64, {784}, {}, 0, 10},
      {"lenet-b4", Lenet, Momentum, 4, {32, 32, 3}, {}, 0, 10},
      {"lenet-b64", Lenet, Momentum, 64, {32, 32, 3}, {}, 0, 10},
      {"resnet8-b64", Resnet8, Momentum, 64, {32, 32, 3}, {}, 0, 10},
      {"lstm128-b32-t64", Lstm, Adam, 32, {64}, {64}, kVocabulary, kVocabulary},
      {"gpt4x128-b16-t128", Gpt, Adam, 16, {128}, {128}, kVocabulary, kVocabulary},
  };
  return *kinds;
}

Tensor WholeNumbers(const Shape& shape, int64_t below, std::mt19937& random) {
  Tensor tensor(kInt32, shape);
  std::uniform_int_distribution<int32_t> draw(0, static_cast<int32_t>(below) - 1);
  for (int32_t& value : tensor.MutableElements<int32_t>()) value = draw(random);
  return tensor;
}

Shape WithBatch(int64_t batch_size, const Shape& example) {
  Shape shape({batch_size});
  for (const int64_t size : example.dims()) shape.AddDim(size);
  return shape;
}

}  // namespace

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const Kind& kind : Kinds()) names.emplace_back(kind.name);
  return names;
}

absl::StatusOr<Model> MakeModel(const std::string& name) {
  for (const Kind& kind : Kinds()) {
    if (name != kind.name) continue;
    Model model;
    model.name = name;
    model.layers = kind.layers();
    model.optimizer = kind.optimizer();
    model.batch_size = kind.batch_size;
    model.input = Shape(kind.input);
    model.labels = Shape(kind.labels);
    model.vocabulary = kind.vocabulary;
    model.classes = kind.classes;
    return model;
  }
  return errors::NotFound("there is no model '", name, "'; there are ",
                          absl::StrJoin(ModelNames(), ", "));
}

std::vector<Tensor> MakeBatch(const Model& model, int64_t batch_size) {
  std::mt19937 random(1);
  const Shape shape = WithBatch(batch_size, model.input);
  Tensor input;
  if (model.vocabulary > 0) {
    input = WholeNumbers(shape, model.vocabulary, random);
  } else {
    input = Tensor(kFloat32, shape);
    std::normal_distribution<float> draw;
    for (float& value : input.MutableElements<float>()) value = draw(random);
  }
  return {std::move(input),
          WholeNumbers(WithBatch(batch_size, model.labels), model.classes, random)};
}

}  // namespace tandem::benchmarks
