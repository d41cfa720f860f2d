// Softmax and losses, biases, batch normalization, the LSTM block.
#include "absl/strings/str_cat.h"
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

void AddSoftmax(GradientCases& cases) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    cases.Op(op, "matrix", {Spread({2, 4}, -2, 2)});
    cases.Op(op, "three_dimensions", {Spread({2, 2, 3}, -2, 2)});
    cases.Op(op, "vector", {Spread({5}, -2, 2)});
  }
  const Tensor labels = Tensor::FromValues<double>({2, 3}, {0.2, 0.3, 0.5, 0.7, 0.1, 0.2});
  // Outputs: the loss, and its gradient with respect to the logits.
  const char* const dense = "SoftmaxCrossEntropyWithLogits";
  cases.Op(dense, "both_outputs", {Spread({2, 3}, -2, 2), labels});
  cases.Program(dense, "loss", {Spread({2, 3}, -2, 2), labels},
                [dense](const Scope& scope, std::vector<Output>& xs) {
                  return std::vector<Output>{scope.Call(dense, {xs[0], xs[1]})};
                });
  cases
      .Program(dense, "broadcast_labels",
               {Spread({2, 3}, -2, 2), Tensor::FromValues<double>({1, 3}, {0.2, 0.3, 0.5})},
               [dense](const Scope& scope, std::vector<Output>& xs) {
                 const Output labels = scope.Call("StopGradient", {xs[1]});
                 return std::vector<Output>{scope.Call(dense, {xs[0], labels})};
               })
      .WithConstants({1});
  const char* const sparse = "SparseSoftmaxCrossEntropyWithLogits";
  cases.Program(sparse, "loss", {Spread({3, 4}, -2, 2), Ints({2, 0, 3})},
                [sparse](const Scope& scope, std::vector<Output>& xs) {
                  return std::vector<Output>{scope.Call(sparse, {xs[0], xs[1]})};
                });
  cases.Op(sparse, "both_outputs", {Spread({3, 4}, -2, 2), Tensor::Vector<int64_t>({2, 0, 3})});
}

void AddBias(GradientCases& cases) {
  for (const bool channels_first : {false, true}) {
    const char* const format = channels_first ? "NCHW" : "NHWC";
    const Shape image = channels_first ? Shape({2, 3, 2, 2}) : Shape({2, 2, 2, 3});
    cases.Op("BiasAdd", format, {Spread(image), Spread({3}, -1, 1, 2)}, {{"data_format", format}});
    cases.Op("BiasAddGrad", format, {Spread(image)}, {{"data_format", format}});
  }
  cases.Op("BiasAdd", "matrix", {Spread({2, 3}), Spread({3}, -1, 1, 2)});
  cases.Op("BiasAdd", "volume_channels_first", {Spread({2, 3, 1, 2, 2}), Spread({3}, -1, 1, 2)},
           {{"data_format", "NCHW"}});
  cases.Op("BiasAddGrad", "matrix", {Spread({4, 3})});
  cases.Op("BiasAddV1", "matrix", {Spread({2, 3}), Spread({3}, -1, 1, 2)});
}

// Layers that are one op. Statistics that they give beside their result have no gradient.
void AddLayers(GradientCases& cases) {
  cases.Op("_TandemGelu", "", {Spread({3, 4}, -3, 3)});
  cases.Program("_TandemLayerNorm", "",
                {Spread({2, 3, 5}, -2, 2), Spread({5}, 1, 2, 1), Spread({5})},
                [](const Scope& scope, std::vector<Output>& xs) {
                  const Output y = scope.Call("_TandemLayerNorm", {xs[0], xs[1], xs[2]});
                  return std::vector<Output>{scope.Call("Mul", {y, y})};
                });
  for (const bool causal : {false, true}) {
    for (const bool masked : {false, true}) {
      // One query sees nothing.
      cases.Program(
          "_TandemAttention", absl::StrCat(causal ? "causal" : "", masked ? "masked" : ""),
          {Spread({2, 3, 4}, -1, 1), Spread({2, 4, 4}, -1, 1, 1), Spread({2, 4, 6}, -1, 1, 2)},
          [causal, masked](const Scope& scope, std::vector<Output>& xs) {
            InputList inputs = {xs[0], xs[1], xs[2]};
            if (masked) {
              Tensor mask(kBool, Shape({2, 3, 4}));
              for (int64_t i = 0; i < 24; ++i) {
                mask.MutableElements<bool>()[i] = i % 3 != 0 && i / 4 != 4;
              }
              inputs.push_back(mask);
            }
            const Output y = scope.Call(
                "_TandemAttention", inputs,
                {{"M", int64_t{masked}}, {"heads", 2}, {"scale", 0.7f}, {"causal", causal}});
            return std::vector<Output>{scope.Call("Mul", {y, y})};
          });
    }
  }
}

// The first output of the normalization alone, or the first three of its gradient: the others are
// statistics, which are no functions to differentiate.
GradientCase::Build FirstOutputs(const char* op, size_t count, AttrMap attrs) {
  return [op, count, attrs](const Scope& scope, std::vector<Output>& xs) {
    std::vector<Output> ys = scope.CallMulti(op, InputList(xs.begin(), xs.end()), attrs);
    ys.resize(std::min(count, ys.size()));
    return ys;
  };
}

void AddBatchNorm(GradientCases& cases) {
  const auto single = [](Shape shape, double low, double high, int seed) {
    return Spread(std::move(shape), low, high, seed, kFloat32);
  };
  for (const bool training : {true, false}) {
    for (const bool channels_first : {false, true}) {
      const char* const format = channels_first ? "NCHW" : "NHWC";
      const Shape image = channels_first ? Shape({2, 2, 2, 3}) : Shape({2, 2, 3, 2});
      const std::string name = absl::StrCat(training ? "training_" : "inference_", format);
      const AttrMap attrs = {
          {"is_training", training}, {"data_format", format}, {"epsilon", 0.01f}};
      const Tensor mean = training ? Tensor::Zeros(kFloat32, Shape({0})) : single({2}, -1, 1, 4);
      const Tensor variance = training ? Tensor::Zeros(kFloat32, Shape({0})) : single({2}, 1, 2, 5);
      cases
          .Program("FusedBatchNormV3", name,
                   {single(image, -1, 1, 1), single({2}, 0.5, 1.5, 2), single({2}, -1, 1, 3), mean,
                    variance},
                   FirstOutputs("FusedBatchNormV3", 1, attrs))
          .WithConstants({3, 4})
          .WithTolerance(1e-2, 5e-3);
      // The statistics are computed inside, so that they are those of x.
      cases
          .Program("FusedBatchNormGradV3", name,
                   {single(image, -1, 1, 6), single(image, -1, 1, 1), single({2}, 0.5, 1.5, 2),
                    mean, variance},
                   [attrs](const Scope& scope, std::vector<Output>& xs) {
                     const Output x = scope.Call("StopGradient", {xs[1]});
                     const Output zeros = scope.Call("ZerosLike", {xs[2]});
                     const std::vector<Output> y = scope.CallMulti(
                         "FusedBatchNormV3", {x, zeros, zeros, xs[3], xs[4]}, attrs);
                     if (y.empty()) return std::vector<Output>();
                     std::vector<Output> d = scope.CallMulti(
                         "FusedBatchNormGradV3", {xs[0], xs[1], xs[2], y[3], y[4], y[5]}, attrs);
                     d.resize(std::min<size_t>(3, d.size()));
                     return d;
                   })
          .WithConstants({3, 4})
          .WithTolerance(1e-2, 1e-2);
    }
  }
}

void AddLstm(GradientCases& cases) {
  constexpr int64_t kSteps = 3;
  constexpr int64_t kBatch = 2;
  constexpr int64_t kInputs = 2;
  constexpr int64_t kCells = 2;
  const auto single = [](Shape shape, int seed) {
    return Spread(std::move(shape), -0.8, 0.8, seed, kFloat32);
  };
  for (const bool peephole : {false, true}) {
    for (const int64_t length : {kSteps, kSteps - 1}) {
      const std::string name =
          absl::StrCat(peephole ? "peephole_" : "plain_", length == kSteps ? "whole" : "shorter");
      cases
          .Program("BlockLSTMV2", name,
                   {Tensor::Scalar<int64_t>(length), single({kSteps, kBatch, kInputs}, 1),
                    single({kBatch, kCells}, 2), single({kBatch, kCells}, 3),
                    single({kInputs + kCells, 4 * kCells}, 4), single({kCells}, 5),
                    single({kCells}, 6), single({kCells}, 7), single({4 * kCells}, 8)},
                   [peephole](const Scope& scope, std::vector<Output>& xs) {
                     const std::vector<Output> outputs =
                         scope.CallMulti("BlockLSTMV2", InputList(xs.begin(), xs.end()),
                                         {{"use_peephole", peephole}, {"cell_clip", -1.0f}});
                     // All others but the states and the output have no gradient.
                     if (outputs.empty()) return std::vector<Output>();
                     return std::vector<Output>{outputs[1], outputs[6]};
                   })
          .WithTolerance(1e-2, 5e-3);
    }
  }
}

}  // namespace

std::vector<GradientCase> NnCases() {
  GradientCases cases;
  AddSoftmax(cases);
  AddBias(cases);
  AddLayers(cases);
  AddBatchNorm(cases);
  AddLstm(cases);
  return cases.Take();
}

}  // namespace tandem::testing
