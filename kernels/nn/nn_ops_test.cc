// What the golden cases do not say of activations, bias, losses, normalization and the fused ops.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Tensor Ramp(Shape shape, float scale) {
  Tensor x(kFloat32, std::move(shape));
  for (size_t i = 0; i < x.MutableElements<float>().size(); ++i) {
    x.MutableElements<float>()[i] = scale * static_cast<float>(static_cast<int>(i % 23) - 11);
  }
  return x;
}

TEST(Relu, KeepsWhatIsNotANumber) {
  const auto y = RunOp("Relu", {Tensor::Vector<float>({-1, NAN, 2})});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].Elements<float>()[0], 0);
  EXPECT_TRUE(std::isnan((*y)[0].Elements<float>()[1]));
  EXPECT_EQ((*y)[0].Elements<float>()[2], 2);
}

// Blocks are 512 long: lengths around their ends.
TEST(Elu, IsTheSameInAnyBlock) {
  const auto one = RunOp("Elu", {Tensor::Vector<float>({-0.5f})});
  ASSERT_TRUE(one.ok()) << one.status();
  for (const int64_t n : {1, 511, 512, 513, 1025}) {
    Tensor x(kFloat32, {n});
    for (float& v : x.MutableElements<float>()) v = -0.5f;
    const auto y = RunOp("Elu", {x});
    ASSERT_TRUE(y.ok()) << y.status();
    for (const float v : (*y)[0].Elements<float>()) EXPECT_EQ(v, (*one)[0].Elements<float>()[0]);
  }
}

TEST(ReluGrad, RefusesShapesThatDiffer) {
  for (const bool constant : {true, false}) {
    EXPECT_EQ(RunOp("ReluGrad", {Ramp({4}, 1), Ramp({2, 2}, 1)}, {}, constant).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(BiasAddGrad, AddsManyRowsInBlocks) {
  Tensor dy(kFloat32, {100000, 3});
  for (float& v : dy.MutableElements<float>()) v = 0.1f;
  const auto db = RunOp("BiasAddGrad", {dy});
  ASSERT_TRUE(db.ok()) << db.status();
  // Adding 100,000 times to one sum would be off by a hundred times more.
  for (const float v : (*db)[0].Elements<float>()) EXPECT_NEAR(v, 10000, 0.2);
}

TEST(SparseSoftmaxCrossEntropy, IsTheDenseOneOfOneHotLabels) {
  for (const int64_t classes : {3, 10, 5000}) {
    const Tensor logits = Ramp({4, classes}, 0.3f);
    const Tensor labels = Tensor::Vector<int32_t>({0, 2, 1, static_cast<int32_t>(classes) - 1});
    Tensor one_hot = Tensor::Zeros(kFloat32, {4, classes});
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t at = i * classes + labels.Elements<int32_t>()[static_cast<size_t>(i)];
      one_hot.MutableElements<float>()[static_cast<size_t>(at)] = 1;
    }
    const auto sparse = RunOp("SparseSoftmaxCrossEntropyWithLogits", {logits, labels});
    const auto dense = RunOp("SoftmaxCrossEntropyWithLogits", {logits, one_hot});
    ASSERT_TRUE(sparse.ok()) << sparse.status();
    ASSERT_TRUE(dense.ok()) << dense.status();
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_THAT((*sparse)[i].Elements<float>(),
                  Pointwise(FloatNear(1e-5f), (*dense)[i].Elements<float>()));
    }
  }
}

TEST(SparseSoftmaxCrossEntropy, NamesTheLabelThatIsOutOfRange) {
  const auto y = RunOp("SparseSoftmaxCrossEntropyWithLogits",
                       {Ramp({2, 3}, 1), Tensor::Vector<int64_t>({2, 3})});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("label 3 of row 1"));
}

// A row's result does not depend on the rows that it is computed with.
TEST(Softmax, RowsAreIndependent) {
  const Tensor x = Ramp({700, 7}, 0.7f);
  const auto all = RunOp("Softmax", {x});
  ASSERT_TRUE(all.ok()) << all.status();
  for (const int64_t row : {0, 291, 292, 293, 699}) {
    const auto one = RunOp("Softmax", {x.Slice(row, row + 1)});
    ASSERT_TRUE(one.ok()) << one.status();
    const auto part = (*all)[0].Slice(row, row + 1);
    EXPECT_EQ(part.Elements<float>(), (*one)[0].Elements<float>());
  }
}

TEST(FusedBatchNorm, GivesZeroMeanAndUnitVariance) {
  const Tensor x = Ramp({9, 5, 4, 3}, 1.7f);
  const Tensor ones = Tensor::Vector<float>({1, 1, 1});
  const Tensor zeros = Tensor::Vector<float>({0, 0, 0});
  const Tensor none(kFloat32, {0});
  const auto y = RunOp("FusedBatchNormV3", {x, ones, zeros, none, none});
  ASSERT_TRUE(y.ok()) << y.status();
  double sum[3] = {}, squares[3] = {};
  const auto values = (*y)[0].Elements<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    sum[i % 3] += static_cast<double>(values[i]);
    squares[i % 3] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(sum[i] / 180, 0, 1e-6);
    EXPECT_NEAR(squares[i] / 180, 1, 1e-5);
  }
}

TEST(FusedBatchNormEx, AddsTheSideInputAndClampsAtZero) {
  const Tensor x = Ramp({2, 2, 2, 1}, 1);
  const Tensor side = Ramp({2, 2, 2, 1}, -3);
  const Tensor one = Tensor::Vector<float>({1});
  const Tensor zero = Tensor::Vector<float>({0});
  const std::vector<Tensor> plain = {x, one, zero, zero, one};
  std::vector<Tensor> fused = plain;
  fused.push_back(side);
  const auto y = RunOp("FusedBatchNormV3", plain, {{"is_training", false}});
  const auto z =
      RunOp("_FusedBatchNormEx", fused, {{"is_training", false}, {"activation_mode", "Relu"}});
  ASSERT_TRUE(y.ok()) << y.status();
  ASSERT_TRUE(z.ok()) << z.status();
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ((*z)[0].Elements<float>()[i],
              std::max(0.0f, (*y)[0].Elements<float>()[i] + side.Elements<float>()[i]));
  }
}

TEST(FusedMatMul, IsProductBiasAndActivation) {
  const Tensor a = Ramp({3, 4}, 0.5f);
  const Tensor b = Ramp({4, 2}, 0.25f);
  const Tensor bias = Tensor::Vector<float>({0.5f, -100});
  const auto product = RunOp("MatMul", {a, b});
  const auto fused = RunOp("_FusedMatMul", {a, b, bias},
                           {{"fused_ops", std::vector<std::string>{"BiasAdd", "Relu"}}});
  ASSERT_TRUE(product.ok()) << product.status();
  ASSERT_TRUE(fused.ok()) << fused.status();
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ((*fused)[0].Elements<float>()[i],
              std::max(0.0f, (*product)[0].Elements<float>()[i] + bias.Elements<float>()[i % 2]));
  }
}

TEST(FusedMatMul, SaysWhichFusionsItKnows) {
  const Tensor a = Ramp({2, 2}, 1);
  const auto y = RunOp("_FusedMatMul", {a, a, Tensor::Vector<float>({1, 1})},
                       {{"fused_ops", std::vector<std::string>{"Relu", "BiasAdd"}}});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("BiasAdd"));
}

TEST(FusedConv2D, IsConvolutionBiasAndActivation) {
  const Tensor x = Ramp({2, 5, 5, 3}, 0.5f);
  const Tensor w = Ramp({3, 3, 3, 4}, 0.1f);
  const Tensor bias = Tensor::Vector<float>({0.5f, -1, 2, 0});
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  const auto conv = RunOp("Conv2D", {x, w}, attrs);
  ASSERT_TRUE(conv.ok()) << conv.status();
  const auto with_bias = RunOp("BiasAdd", {(*conv)[0], bias});
  ASSERT_TRUE(with_bias.ok()) << with_bias.status();
  for (const char* activation : {"Relu", "Elu"}) {
    const auto wanted = RunOp(activation, {(*with_bias)[0]});
    AttrMap fused = attrs;
    fused["fused_ops"] = std::vector<std::string>{"BiasAdd", activation};
    fused["TArgs"] = std::vector<DataType>{kFloat32};
    fused["num_args"] = 1;
    const auto found = RunOp("_FusedConv2D", {x, w, bias}, fused);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT((*found)[0].Elements<float>(),
                Pointwise(FloatNear(1e-5f), (*wanted)[0].Elements<float>()));
  }
}

// A multiplier of 1 and grouped convolution are two ways to say the same.
TEST(DepthwiseConv2d, IsConvolutionInGroupsOfOneChannel) {
  const Tensor x = Ramp({2, 6, 5, 4}, 0.5f);
  const Tensor w = Ramp({3, 3, 4, 1}, 0.1f);
  const auto grouped_filter = w.Reshaped({3, 3, 1, 4});
  ASSERT_TRUE(grouped_filter.ok());
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 2, 2, 1}}, {"padding", "SAME"}};
  const auto depthwise = RunOp("DepthwiseConv2dNative", {x, w}, attrs);
  const auto grouped = RunOp("Conv2D", {x, *grouped_filter}, attrs);
  ASSERT_TRUE(depthwise.ok()) << depthwise.status();
  ASSERT_TRUE(grouped.ok()) << grouped.status();
  EXPECT_THAT((*depthwise)[0].Elements<float>(),
              Pointwise(FloatNear(1e-5f), (*grouped)[0].Elements<float>()));
}

TEST(Conv2DBackpropInput, TakesHeightAndWidthAlone) {
  const Tensor w = Ramp({3, 3, 2, 4}, 0.1f);
  const Tensor dy = Ramp({2, 5, 5, 4}, 0.5f);
  const AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  const auto all =
      RunOp("Conv2DBackpropInput", {Tensor::Vector<int32_t>({2, 5, 5, 2}), w, dy}, attrs);
  const auto two = RunOp("Conv2DBackpropInput", {Tensor::Vector<int32_t>({5, 5}), w, dy}, attrs);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ((*all)[0].shape(), (*two)[0].shape());
  EXPECT_EQ((*all)[0].Elements<float>(), (*two)[0].Elements<float>());
}

}  // namespace
}  // namespace tandem::testing
