// Every layer gives Keras's numbers: outputs, gradients with respect to variables and inputs, and
// what the moving statistics are after the step.
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/testing.h"

namespace tandem::nn {
namespace {

struct Case {
  std::string name;
  LayerPtr layer;
  std::vector<Tensor> inputs;
  bool training = false;
};

std::vector<Case> Cases() {
  const Tensor x = FloatInput(0, {2, 5, 4, 2});
  std::vector<Case> cases = {
      {"dense", Dense({.units = 2, .activation = "relu"}), {FloatInput(0, {3, 4})}},
      {"dense_of_sequences",
       Dense({.units = 2, .activation = "softmax", .use_bias = false}),
       {FloatInput(0, {2, 3, 4})}},
      {"conv2d_same",
       Conv2D({.filters = 3,
               .kernel = {3, 2},
               .strides = {2, 1},
               .padding = "SAME",
               .activation = "relu"}),
       {x}},
      {"conv2d_valid",
       Conv2D({.filters = 2, .kernel = {2, 3}, .use_bias = false}),
       {FloatInput(0, {1, 4, 5, 3})}},
      {"conv2d_dilated",
       Conv2D({.filters = 2, .kernel = {3, 2}, .dilations = {2, 3}}),
       {FloatInput(0, {1, 6, 5, 2})}},
      {"depthwise_same",
       DepthwiseConv2D({.kernel = {3, 2},
                        .strides = {2, 2},
                        .depth_multiplier = 2,
                        .padding = "SAME",
                        .activation = "tanh"}),
       {x}},
      {"depthwise_dilated",
       DepthwiseConv2D({.kernel = {2, 2}, .dilations = {2, 2}, .use_bias = false}),
       {FloatInput(0, {1, 4, 5, 3})}},
      {"max_pool2d", MaxPool2D(), {x}},
      {"max_pool2d_same", MaxPool2D({.pool = {3, 2}, .strides = {2, 1}, .padding = "SAME"}), {x}},
      {"average_pool2d", AveragePool2D(), {x}},
      {"average_pool2d_same",
       AveragePool2D({.pool = {3, 2}, .strides = {2, 1}, .padding = "SAME"}),
       {x}},
      {"global_average_pool2d", GlobalAveragePool2D(), {x}},
      {"layer_norm", LayerNorm(), {FloatInput(0, {2, 3, 4})}},
      {"layer_norm_plain",
       LayerNorm({.epsilon = 0.1, .center = false, .scale = false}),
       {FloatInput(0, {3, 4})}},
      {"embedding", Embedding({.input_dim = 5, .output_dim = 3}), {IntInput(0, {2, 4}, 5)}},
      {"lstm", Lstm({.units = 3}), {FloatInput(0, {2, 4, 3})}},
      {"lstm_sequences", Lstm({.units = 3, .return_sequences = true}), {FloatInput(0, {2, 4, 3})}},
      {"lstm_without_bias", Lstm({.units = 3, .use_bias = false}), {FloatInput(0, {2, 4, 3})}},
      {"attention_self",
       MultiHeadAttention({.num_heads = 2, .key_dim = 3}),
       {FloatInput(0, {2, 3, 4})}},
      {"attention_causal",
       MultiHeadAttention({.num_heads = 2, .key_dim = 3, .use_bias = false, .causal = true}),
       {FloatInput(0, {2, 4, 3})}},
      {"attention_three",
       MultiHeadAttention({.num_heads = 2, .key_dim = 3, .value_dim = 2, .output_dim = 5}),
       {FloatInput(0, {2, 3, 4}), FloatInput(1, {2, 4, 3}), FloatInput(2, {2, 4, 2})}},
  };
  Tensor mask(kBool, Shape({2, 3, 4}));
  const Tensor numbers = IntInput(3, mask.shape(), 3);
  for (size_t i = 0; i < 24; ++i) {
    mask.MutableElements<bool>()[i] = numbers.Elements<int32_t>()[i] > 0;
  }
  cases.push_back(
      {"attention_masked",
       MultiHeadAttention({.num_heads = 1, .key_dim = 2}),
       {FloatInput(0, {2, 3, 2}), FloatInput(1, {2, 4, 2}), FloatInput(2, {2, 4, 2}), mask}});
  for (const Shape& shape : {Shape({6, 3}), Shape({4, 2, 3}), Shape({4, 3, 2, 2})}) {
    const std::string name = absl::StrCat("batch_norm_", shape.rank());
    const Tensor input = FloatInput(0, shape);
    cases.push_back({name + "_inference", BatchNorm(), {input}});
    // One replica's batch is the global batch: both kinds give the same.
    cases.push_back({name, BatchNorm({.momentum = 0.9}), {input}, true});
    cases.push_back({name, BatchNorm({.momentum = 0.9, .synchronized = true}), {input}, true});
  }
  cases.push_back({"batch_norm_plain",
                   BatchNorm({.epsilon = 0.1, .center = false, .scale = false}),
                   {FloatInput(0, {6, 3})},
                   true});
  for (const char* const name :
       {"elu", "exponential", "gelu", "hard_sigmoid", "leaky_relu", "linear", "log_softmax", "relu",
        "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softsign", "swish", "tanh"}) {
    cases.push_back(
        {absl::StrCat("activation_", name), Activation(name), {FloatInput(0, {3, 5}, 4)}});
  }
  return cases;
}

class Layers : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(Layers, GiveTheNumbersOfKeras) {
  const auto [device, fused] = GetParam();
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const auto model = TestModel::Create(
        c.layer, c.inputs, {.device = device, .training = c.training, .fused = fused});
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_TRUE((*model)->SetVariables().ok());
    const auto result = (*model)->Run({c.inputs});
    ASSERT_TRUE(result.ok()) << result.status();
    size_t trained = 0;
    for (const auto& [array, expected] : KerasCase(c.name)) {
      absl::string_view rest = array;
      if (array == "output") {
        ExpectNear(result->outputs[0], expected, array);
      } else if (absl::ConsumePrefix(&rest, "gradient/")) {
        ++trained;
        const auto found = result->gradients.find(std::string(rest));
        ASSERT_NE(found, result->gradients.end()) << array;
        ExpectNear(found->second, expected, array);
      } else if (absl::ConsumePrefix(&rest, "input_gradient/")) {
        const size_t i = static_cast<size_t>(std::atoi(std::string(rest).c_str()));
        ASSERT_LT(i, result->input_gradients[0].size());
        ExpectNear(result->input_gradients[0][i], expected, array);
      } else if (absl::ConsumePrefix(&rest, "after/")) {
        const auto value = (*model)->Read(std::string(rest));
        ASSERT_TRUE(value.ok()) << value.status();
        ExpectNear(*value, expected, array);
      } else {
        ADD_FAILURE() << "what is " << array << "?";
      }
    }
    EXPECT_EQ(result->gradients.size(), trained);
  }
}

INSTANTIATE_TEST_SUITE_P(On, Layers,
                         ::testing::Combine(::testing::Values("CPU", "SIM"), ::testing::Bool()),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param),
                                               std::get<1>(info.param) ? "Fused" : "");
                         });

}  // namespace
}  // namespace tandem::nn
