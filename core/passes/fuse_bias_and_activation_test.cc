#include "core/passes/fuse_bias_and_activation.h"

#include <limits>

#include "core/op/gradients.h"
#include "core/passes/fusion_test_util.h"

namespace tandem {
namespace {

using ::tandem::testing::ExpectClose;
using ::tandem::testing::Numbers;

constexpr char kPass[] = "fuse_bias_and_activation";
constexpr int64_t kUnknown = PartialShape::kUnknownDim;

class FuseBiasTest : public testing::FusionTest {
 protected:
  // "y" = activation("sum" = "product" + bias), with the batch size unknown; no "y" without one.
  Output Dense(const std::string& activation, const std::string& sum = "BiasAdd") {
    const Output x = Placeholder("x", PartialShape({kUnknown, 7}));
    const Output product = s.WithOpName("product").Call("MatMul", {x, Numbers({7, 5}, 2)});
    const Output added = s.WithOpName("sum").Call(sum, {product, Numbers({5}, 3)});
    return activation.empty() ? added : s.WithOpName("y").Call(activation, {added});
  }
  Output Convolve(const Output& x, const AttrMap& attrs = {}) {
    AttrMap all = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
    for (const auto& [name, value] : attrs) all[name] = value;
    return s.WithOpName("product").Call("Conv2D", {x, Numbers({3, 3, 2, 16}, 2)}, all);
  }
};

TEST_P(FuseBiasTest, AProductTakesInBiasAndActivation) {
  for (const char* activation : {"Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"}) {
    SCOPED_TRACE(activation);
    s = Scope::NewRoot();
    Dense(activation);
    Open(kPass);
    const Results r = Run({{"x", Numbers({4, 7})}}, {"y"});
    ExpectClose(r.fused[0], r.plain[0]);
    EXPECT_EQ(Count("_FusedMatMul"), 1);
    EXPECT_EQ(Count("MatMul") + Count("BiasAdd") + Count(activation), 0);
  }
}

TEST_P(FuseBiasTest, ASumWithAVectorOfTheRightSizeIsABias) {
  for (const char* sum : {"Add", "AddV2"}) {
    for (const bool bias_first : {false, true}) {
      s = Scope::NewRoot();
      const Output x = Placeholder("x", PartialShape({kUnknown, 5}));
      const Output product = s.Call("MatMul", {x, Numbers({6, 5}, 2)}, {{"transpose_b", true}});
      const Output bias = s.Constant(Numbers({6}, 3));
      s.WithOpName("y").Call(sum, bias_first ? InputList{bias, product} : InputList{product, bias});
      Open(kPass);
      const Results r = Run({{"x", Numbers({4, 5})}}, {"y"});
      ExpectClose(r.fused[0], r.plain[0]);
      EXPECT_EQ(Count("_FusedMatMul"), 1);
    }
  }
}

TEST_P(FuseBiasTest, ABiasStandsAloneWithoutActivation) {
  Dense("");
  Open(kPass);
  const Results r = Run({{"x", Numbers({4, 7})}}, {"sum"});
  ExpectClose(r.fused[0], r.plain[0]);
  EXPECT_EQ(Count("_FusedMatMul"), 1);
}

TEST_P(FuseBiasTest, WhatIsFetchedInBetweenStays) {
  Dense("Relu");
  Open(kPass);
  Results r = Run({{"x", Numbers({4, 7})}}, {"y", "sum"});
  for (size_t i = 0; i < 2; ++i) ExpectClose(r.fused[i], r.plain[i]);
  EXPECT_EQ(Count("_FusedMatMul"), 1);
  EXPECT_EQ(Count("Relu"), 1);
  r = Run({{"x", Numbers({4, 7})}}, {"y", "product"});
  for (size_t i = 0; i < 2; ++i) ExpectClose(r.fused[i], r.plain[i]);
  EXPECT_EQ(Count("_FusedMatMul"), 0);
}

TEST_P(FuseBiasTest, ATargetWithoutConsumersIsFusedToo) {
  Dense("Relu");
  Open(kPass);
  Run({{"x", Numbers({4, 7})}}, {}, {"y"});
  EXPECT_EQ(Count("_FusedMatMul"), 1);
}

TEST_P(FuseBiasTest, WhatSomebodyWaitsForStays) {
  const Output y = Dense("Relu");
  Node* const product = s.graph()->FindNode("product");
  s.WithControlDependencies({product}).WithOpName("z").Call("Neg", {y});
  Open(kPass);
  const Results r = Run({{"x", Numbers({4, 7})}}, {"z"});
  ExpectClose(r.fused[0], r.plain[0]);
  EXPECT_EQ(Count("_FusedMatMul"), 0);
}

TEST_P(FuseBiasTest, ControlEdgesStayAround) {
  // A node that runs before the bias and one that runs after the activation: what they assert of
  // each other would hang or be lost if an edge went.
  const Output v =
      s.WithOpName("v").Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  Node* const set = s.WithOpName("set").AddNode("AssignVariableOp", {v, 1.0f});
  const Output x = Placeholder("x", PartialShape({kUnknown, 7}));
  const Output product = s.Call("MatMul", {x, Numbers({7, 5}, 2)});
  const Output sum = s.WithControlDependencies({set}).Call("BiasAdd", {product, Numbers({5}, 3)});
  const Output y = s.WithOpName("y").Call("Relu", {sum});
  Node* const add = s.WithControlDependencies({y.node}).WithOpName("add").AddNode(
      "AssignAddVariableOp", {v, 1.0f});
  s.WithControlDependencies({add}).WithOpName("read").Call("ReadVariableOp", {v},
                                                           {{"dtype", kFloat32}});
  Open(kPass);
  const Results r = Run({{"x", Numbers({4, 7})}}, {"read"});
  EXPECT_EQ(Count("_FusedMatMul"), 1);
  EXPECT_EQ(r.fused[0].ScalarValue<float>(), 2.0f);
}

TEST_P(FuseBiasTest, AVectorThatMayBroadcastOtherwiseIsNoBias) {
  const Output x = Placeholder("x", PartialShape({kUnknown, 7}));
  const Output w = Placeholder("w", PartialShape({7, kUnknown}));
  const Output product = s.Call("MatMul", {x, w});
  s.WithOpName("y").Call("AddV2", {product, Numbers({5}, 3)});
  Open(kPass);
  const Results r = Run({{"x", Numbers({4, 7})}, {"w", Numbers({7, 1}, 2)}}, {"y"});
  ExpectClose(r.fused[0], r.plain[0]);
  EXPECT_EQ(r.fused[0].shape(), Shape({4, 5}));
  EXPECT_EQ(Count("_FusedMatMul"), 0);
}

TEST_P(FuseBiasTest, BiasesOfUnknownShapeAreChecked) {
  const Output x = Placeholder("x", PartialShape::Unknown());
  const Output w = Placeholder("w", PartialShape::Unknown());
  const Output b = Placeholder("b", PartialShape::Unknown());
  s.WithOpName("y").Call("BiasAdd", {s.Call("MatMul", {x, w}), b});
  Open(kPass);
  const Results r =
      Run({{"x", Numbers({4, 7})}, {"w", Numbers({7, 5}, 2)}, {"b", Numbers({5}, 3)}}, {"y"});
  ExpectClose(r.fused[0], r.plain[0]);
  EXPECT_EQ(Count("_FusedMatMul"), 1);
  (void)Fails({{"x", Numbers({4, 7})}, {"w", Numbers({7, 5}, 2)}, {"b", Numbers({1}, 3)}}, {"y"});
}

TEST_P(FuseBiasTest, TypesWithoutAFusedKernelStay) {
  const Output x = Placeholder("x", PartialShape({kUnknown, 7}), kFloat64);
  const Output product = s.Call("MatMul", {x, Numbers({7, 5}, 2, kFloat64)});
  s.WithOpName("y").Call("BiasAdd", {product, Numbers({5}, 3, kFloat64)});
  Open(kPass);
  const Results r = Run({{"x", Numbers({4, 7}, 1, kFloat64)}}, {"y"});
  testing::ExpectSameBits(r.fused[0], r.plain[0]);
  EXPECT_EQ(Count("MatMul"), 1);
}

TEST_P(FuseBiasTest, AConvolutionTakesInBiasAndActivation) {
  for (const char* activation : {"Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"}) {
    SCOPED_TRACE(activation);
    s = Scope::NewRoot();
    const Output x = Placeholder("x", PartialShape({kUnknown, kUnknown, kUnknown, 2}));
    const Output sum = s.Call("BiasAdd", {Convolve(x), Numbers({16}, 3)});
    s.WithOpName("y").Call(activation, {sum});
    Open(kPass);
    Results r = Run({{"x", Numbers({2, 6, 5, 2})}}, {"y"});
    // oneDNN computes exponentials to fewer digits than Eigen does.
    ExpectClose(r.fused[0], r.plain[0], 1e-4f);
    EXPECT_EQ(Count("_FusedConv2D"), 1);
    EXPECT_EQ(Count("Conv2D") + Count("BiasAdd") + Count(activation), 0);
    r = Run({{"x", Numbers({0, 6, 5, 2})}}, {"y"});
    EXPECT_EQ(r.fused[0].shape(), Shape({0, 6, 5, 16}));
  }
}

TEST_P(FuseBiasTest, WhatIsNoNumberStaysNone) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const char* activation : {"Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"}) {
    for (const bool convolution : {false, true}) {
      SCOPED_TRACE(activation);
      s = Scope::NewRoot();
      if (convolution) {
        const Output x = Placeholder("x", PartialShape({kUnknown, 5, 5, 2}));
        s.WithOpName("y").Call(activation, {s.Call("BiasAdd", {Convolve(x), Numbers({16}, 3)})});
      } else {
        Dense(activation);
      }
      Open(kPass);
      for (const float bad : {kNan, kInfinity, -kInfinity, 3e38f}) {
        Tensor x = Numbers(convolution ? Shape({1, 5, 5, 2}) : Shape({4, 7}));
        x.MutableElements<float>()[3] = bad;
        const Results r = Run({{"x", x}}, {"y"});
        ExpectClose(r.fused[0], r.plain[0], 1e-4f);
        EXPECT_EQ(Count("_FusedConv2D") + Count("_FusedMatMul"), 1);
      }
    }
  }
}

TEST_P(FuseBiasTest, SixteenBitsAreRoundedOnce) {
  for (const bool convolution : {false, true}) {
    s = Scope::NewRoot();
    const Shape shape = convolution ? Shape({2, 5, 5, 2}) : Shape({4, 7});
    const Output x = Placeholder("x", PartialShape(shape), kFloat16);
    const Output product =
        convolution ? s.Call("Conv2D", {x, Numbers({3, 3, 2, 5}, 2, kFloat16)},
                             {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}})
                    : s.Call("MatMul", {x, Numbers({7, 5}, 2, kFloat16)});
    const Output y = s.Call("Relu", {s.Call("BiasAdd", {product, Numbers({5}, 3, kFloat16)})});
    s.WithOpName("y").Call("Cast", {y}, {{"DstT", kFloat32}});
    Open(kPass);
    const Results r = Run({{"x", Numbers(shape, 1, kFloat16)}}, {"y"});
    // float16 has 11 bits; without fusion sums are rounded three times.
    ExpectClose(r.fused[0], r.plain[0], 1.0f / 256);
    EXPECT_EQ(Count("_FusedConv2D") + Count("_FusedMatMul"), 1);
  }
}

TEST_P(FuseBiasTest, ChannelsMayComeFirstIfBothAgree) {
  for (const char* bias_format : {"NCHW", "NHWC"}) {
    s = Scope::NewRoot();
    const Output x = Placeholder("x", PartialShape({kUnknown, 2, 6, 16}));
    const Output product = Convolve(x, {{"data_format", "NCHW"}});
    s.WithOpName("y").Call(
        "Relu", {s.Call("BiasAdd", {product, Numbers({16}, 3)}, {{"data_format", bias_format}})});
    Open(kPass);
    const Results r = Run({{"x", Numbers({2, 2, 6, 16})}}, {"y"});
    ExpectClose(r.fused[0], r.plain[0]);
    EXPECT_EQ(Count("_FusedConv2D"), bias_format == std::string("NCHW") ? 1 : 0);
  }
}

TEST_P(FuseBiasTest, ATrainingStepGetsTheSameGradients) {
  const Output x = Placeholder("x", PartialShape({kUnknown, 7}));
  const Output w = Placeholder("w", PartialShape({7, 5}));
  const Output b = Placeholder("b", PartialShape({5}));
  for (const auto& [activation, inside] :
       std::vector<std::pair<std::string, bool>>{{"Relu", true}, {"LeakyRelu", false}}) {
    const Output sum = s.Call("BiasAdd", {s.Call("MatMul", {x, w}), b});
    const Output y = s.Call(activation, {sum});
    const auto gradients = AddGradients(s.graph(), {s.Call("Square", {y})}, {w, b});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    Open(kPass);
    const Results r =
        Run({{"x", Numbers({4, 7})}, {"w", Numbers({7, 5}, 2)}, {"b", Numbers({5}, 3)}},
            {(*gradients)[0].values.name(), (*gradients)[1].values.name()});
    for (size_t i = 0; i < r.fused.size(); ++i) ExpectClose(r.fused[i], r.plain[i]);
    EXPECT_EQ(Count("_FusedMatMul"), 1);
    // Its gradient wants LeakyRelu's argument, so that one stays.
    EXPECT_EQ(Count(activation), inside ? 0 : 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FuseBiasTest, ::testing::Values(kCpu, kSim));

}  // namespace
}  // namespace tandem
