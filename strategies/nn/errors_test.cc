// What layers say about inputs and options that do not fit.
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/testing.h"

namespace tandem::nn {
namespace {

// The layer in a model, so that messages have a path to name.
LayerPtr Inside(LayerPtr layer) { return Sequential({Named("part", std::move(layer))}); }

struct Bad {
  LayerPtr layer;
  std::vector<Tensor> inputs;
  std::vector<std::string> words;  // That the message must have, beside the path.
};

void ExpectRefused(const std::vector<Bad>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("case ", i));
    const absl::Status error = ErrorOf(Inside(cases[i].layer), cases[i].inputs, {.training = true});
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument) << error;
    const std::string message(error.message());
    EXPECT_NE(message.find("part"), std::string::npos) << message;
    for (const std::string& word : cases[i].words) {
      EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
    }
  }
}

Tensor Rows() { return FloatInput(0, {3, 4}); }
Tensor Image() { return FloatInput(0, {2, 5, 5, 3}); }
Tensor Sequence() { return FloatInput(0, {2, 5, 4}); }

TEST(LayerErrors, OptionsOutOfRange) {
  constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
  ExpectRefused({
      {Dense({}), {Rows()}, {"units is 0"}},
      {Dense({.units = -3}), {Rows()}, {"units is -3"}},
      {Conv2D({}), {Image()}, {"filters is 0"}},
      {Conv2D({.filters = 1, .kernel = {0, 3}}), {Image()}, {"window is 0", "height"}},
      {Conv2D({.filters = 1, .strides = {1, -1}}), {Image()}, {"stride is -1", "width"}},
      {Conv2D({.filters = 1, .dilations = {1, 0}}), {Image()}, {"dilation is 0"}},
      {Conv2D({.filters = 1, .kernel = {int64_t{1} << 40, 1}}), {Image()}, {"window is"}},
      {Conv2D({.filters = 1, .padding = "FULL"}), {Image()}, {"'FULL'", "SAME", "VALID"}},
      {Conv2D({.filters = int64_t{1} << 62}), {Image()}, {"part/kernel", "64 bits"}},
      {Dense({.units = int64_t{1} << 62}), {Rows()}, {"part/kernel", "64 bits"}},
      {Embedding({.input_dim = int64_t{1} << 62, .output_dim = 4}),
       {IntInput(0, {2}, 2)},
       {"part/embeddings"}},
      {MultiHeadAttention({.num_heads = int64_t{1} << 40, .key_dim = int64_t{1} << 40}),
       {Sequence()},
       {"part/query/"}},
      {DepthwiseConv2D({.depth_multiplier = 0}), {Image()}, {"depth_multiplier is 0"}},
      {DepthwiseConv2D({.strides = {1, 2}}), {Image()}, {"strides", "equal"}},
      {MaxPool2D({.pool = {0, 2}}), {Image()}, {"window is 0"}},
      {AveragePool2D({.strides = {-1, 2}}), {Image()}, {"stride is -1"}},
      {Dropout({.rate = 1}), {Rows()}, {"is 1;", "[0, 1)"}},
      {Dropout({.rate = -0.1}), {Rows()}, {"-0.1"}},
      {Dropout({.rate = kNotANumber}), {Rows()}, {"nan"}},
      {BatchNorm({.momentum = 1.5}), {Rows()}, {"momentum is 1.5"}},
      {BatchNorm({.epsilon = 0}), {Rows()}, {"epsilon is 0"}},
      {LayerNorm({.epsilon = -1}), {Rows()}, {"epsilon is -1"}},
      {Embedding({.output_dim = 3}), {IntInput(0, {2}, 2)}, {"input_dim is 0"}},
      {Embedding({.input_dim = 3}), {IntInput(0, {2}, 2)}, {"output_dim is 0"}},
      {Lstm({}), {Sequence()}, {"units is 0"}},
      {Lstm({.units = int64_t{1} << 40}), {Sequence()}, {"too many"}},
      {MultiHeadAttention({.key_dim = 2}), {Sequence()}, {"num_heads is 0"}},
      {MultiHeadAttention({.num_heads = 2}), {Sequence()}, {"key_dim is 0"}},
      {MultiHeadAttention({.num_heads = 2, .key_dim = 2, .value_dim = -1}),
       {Sequence()},
       {"value_dim is -1"}},
      {MultiHeadAttention({.num_heads = 2, .key_dim = 2, .dropout = 1}), {Sequence()}, {"rate"}},
      {Reshape({5, -1}), {Rows()}, {"[5,-1]", "4 values"}},
      {Reshape({-1, -1}), {Rows()}, {"[-1,-1]"}},
      {Reshape({0, -1}), {Rows()}, {"[0,-1]"}},
      {Reshape({-2, -2}), {Rows()}, {"[-2,-2]"}},
      {Concatenate(0), {Rows()}, {"axis is 0", "[?,4]"}},
      {Concatenate(2), {Rows()}, {"axis is 2"}},
      {Named("a/b", Dense({.units = 1})), {Rows()}, {}},
      {Named("", Dense({.units = 1})), {Rows()}, {}},
  });
}

TEST(LayerErrors, UnknownNamesAreAnsweredWithThoseThereAre) {
  ExpectRefused({
      {Dense({.units = 1, .activation = "rellu"}), {Rows()}, {"'rellu'", "relu, relu6", "tanh"}},
      {Activation("x"), {Rows()}, {"'x'", "softmax"}},
      {Conv2D({.filters = 1, .activation = "y"}), {Image()}, {"'y'", "gelu"}},
      {Dense({.units = 1, .kernel_initializer = "he"}),
       {Rows()},
       {"part/kernel", "'he'", "he_normal, he_uniform", "orthogonal"}},
      {Dense({.units = 1, .bias_initializer = "orthogonal"}), {Rows()}, {"part/bias", "[1]"}},
      {Lstm({.units = 1, .bias_initializer = "one"}), {Sequence()}, {"'one'", "ones"}},
  });
}

TEST(LayerErrors, InputsThatDoNotFit) {
  ExpectRefused({
      {Dense({.units = 1}), {FloatInput(0, {3})}, {"[?]", "rank 2 or more"}},
      {Dense({.units = 1}), {IntInput(0, {3, 4}, 5)}, {"int32", "float32"}},
      {Dense({.units = 1}), {Rows(), Rows()}, {"2 inputs", "takes 1"}},
      {Conv2D({.filters = 1}), {Rows()}, {"[?,4]", "rank 4"}},
      {Conv2D({.filters = 1, .kernel = {3, 6}}), {Image()}, {"[?,5,5,3]", "at least 6 wide"}},
      {Conv2D({.filters = 1, .dilations = {3, 1}}), {Image()}, {"at least 7 high"}},
      {DepthwiseConv2D({.kernel = {6, 1}}), {Image()}, {"at least 6 high"}},
      {MaxPool2D({.pool = {6, 6}}), {Image()}, {"at least 6 high"}},
      {GlobalAveragePool2D(), {Sequence()}, {"[?,5,4]", "rank 4"}},
      {BatchNorm(), {FloatInput(0, {3})}, {"rank 2"}},
      {BatchNorm(), {FloatInput(0, {3, 0})}, {"channels"}},
      {LayerNorm(), {FloatInput(0, {3})}, {"rank 2"}},
      {Embedding({.input_dim = 3, .output_dim = 2}), {Rows()}, {"float32", "int32 or int64"}},
      {Lstm({.units = 2}), {Rows()}, {"rank 3"}},
      {Lstm({.units = 2}), {FloatInput(0, {2, 0, 4})}, {"[?,0,4]", "step"}},
      {MultiHeadAttention({.num_heads = 2, .key_dim = 2}), {Rows()}, {"query", "[?,4]"}},
      {MultiHeadAttention({.num_heads = 2, .key_dim = 2}),
       {Sequence(), Sequence(), FloatInput(0, {2, 6, 4})},
       {"value has the shape [?,5,4]", "key [?,6,4]"}},
      {MultiHeadAttention({.num_heads = 2, .key_dim = 2}),
       {Sequence(), Sequence(), Sequence(), FloatInput(0, {2, 5, 5})},
       {"mask has the type float32", "bool"}},
      {MultiHeadAttention({.num_heads = 2, .key_dim = 2}),
       {Sequence(), Sequence(), Sequence(), Tensor::Zeros(kBool, Shape({2, 5, 4}))},
       {"key has the shape [?,5,4]", "mask [?,5,4]"}},
      {Add(), {Rows(), FloatInput(0, {3, 5})}, {"[?,4]", "input 1 [?,5]"}},
      {Concatenate(1), {Image(), FloatInput(0, {2, 5, 4, 3})}, {"[?,5,4,3]", "[?,?,5,3]"}},
      {Residual({Dense({.units = 3})}), {Rows()}, {"[?,3]", "[?,4]", "keep"}},
  });
  EXPECT_EQ(ErrorOf(Add(), std::vector<Tensor>()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf(Sequential({}), {Rows(), Rows()}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(LayerErrors, ShapesOfWhichTooLittleIsKnown) {
  const PartialShape nothing = PartialShape::Unknown();
  for (const LayerPtr& layer :
       {Dense({.units = 1}), Conv2D({.filters = 1}), DepthwiseConv2D(DepthwiseConv2DOptions()),
        MaxPool2D(), GlobalAveragePool2D(), Flatten(), Reshape({-1}), BatchNorm(), LayerNorm(),
        Lstm({.units = 1}), MultiHeadAttention({.num_heads = 1, .key_dim = 1}), Concatenate()}) {
    const absl::Status error = ErrorOf(Inside(layer), kFloat32, nothing);
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument) << layer->default_name();
    EXPECT_NE(std::string(error.message()).find("'part'"), std::string::npos) << error;
  }
  EXPECT_EQ(ErrorOf(Flatten(), kFloat32, {-1, -1, 2}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf(Dense({.units = 1}), kFloat32, {2, -1}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::nn
