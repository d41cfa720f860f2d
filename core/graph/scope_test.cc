#include "core/graph/scope.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Output Float(const Scope& scope) { return scope.Call("Placeholder", {}, {{"dtype", kFloat32}}); }

const Tensor& ValueOf(const Output& constant) { return *constant.node->Attr<Tensor>("value"); }

std::string Message(const Scope& scope) { return std::string(scope.status().message()); }

TEST(ScopeTest, NodesAreNamedByPathAndOp) {
  const Scope root = Scope::NewRoot();
  EXPECT_EQ(Float(root).name(), "Placeholder");
  EXPECT_EQ(Float(root).name(), "Placeholder_1");
  const Scope layer = root.SubScope("layer");
  EXPECT_EQ(Float(layer).name(), "layer/Placeholder");
  EXPECT_EQ(Float(layer.WithOpName("x")).name(), "layer/x");
  EXPECT_EQ(Float(layer.WithOpName("x")).name(), "layer/x_1");
  EXPECT_EQ(Float(layer.SubScope("inner")).name(), "layer/inner/Placeholder");
  EXPECT_TRUE(root.ok()) << root.status();
}

TEST(ScopeTest, SubScopesOfOneNameAreToldApart) {
  const Scope root = Scope::NewRoot();
  EXPECT_EQ(root.SubScope("layer").path(), "layer");
  EXPECT_EQ(root.SubScope("layer").path(), "layer_1");
  EXPECT_EQ(root.SubScope("layer_1").path(), "layer_1_1");
  EXPECT_EQ(root.SubScope("a").SubScope("layer").path(), "a/layer");
  EXPECT_EQ(root.SubScope("").path(), "");
}

TEST(ScopeTest, TheFirstErrorStaysAndMakesLaterOutputsInvalid) {
  const Scope root = Scope::NewRoot();
  const Output x = Float(root);
  EXPECT_FALSE(root.Call("MatMull", {x, x}).valid());
  EXPECT_EQ(root.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(root), HasSubstr("node 'MatMull'"));
  EXPECT_THAT(Message(root), HasSubstr("Did you mean 'MatMul'"));
  const int nodes = root.graph()->num_nodes();
  EXPECT_FALSE(root.SubScope("later").Call("Identity", {x}).valid());
  EXPECT_EQ(root.AddNode("NoOp", {}), nullptr);
  EXPECT_TRUE(root.CallMulti("IdentityN", {x, x}).empty());
  EXPECT_FALSE(root.Constant(1).valid());
  EXPECT_EQ(root.graph()->num_nodes(), nodes);
  EXPECT_THAT(Message(root), HasSubstr("MatMull"));
}

TEST(ScopeTest, ValuesBecomeConstantsNamedByArgument) {
  const Scope root = Scope::NewRoot();
  const Output x = Float(root);
  const Output sum = root.SubScope("l").Call("AddV2", {x, 1.5f});
  EXPECT_EQ(sum.name(), "l/AddV2");
  EXPECT_EQ(sum.node->input(1).name(), "l/AddV2/y");
  const Output joined = root.Call("ConcatV2", {x, {1.0f, 2.0f}, 0});
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(joined.node->input(1).name(), "ConcatV2/values_1");
  EXPECT_EQ(joined.node->input(2).name(), "ConcatV2/axis");
  EXPECT_EQ(joined.node->input(1).shape().DebugString(), "[2]");
}

TEST(ScopeTest, NumbersTakeTheTypeThatIsWanted) {
  const Scope root = Scope::NewRoot();
  for (const DataType type :
       {kFloat32, kFloat64, kInt64, kUint8, kFloat16, kBfloat16, kComplex64}) {
    const Output x = root.Call("Placeholder", {}, {{"dtype", type}});
    const Output sum = root.Call("AddV2", {2.0, x});
    ASSERT_TRUE(sum.valid()) << root.status();
    EXPECT_EQ(sum.dtype(), type);
  }
  const Output by_attr = root.Call("AddV2", {1, 2}, {{"T", kFloat64}});
  EXPECT_EQ(ValueOf(by_attr.node->input(0)).ScalarValue<double>(), 1.0);
  const Output fixed = root.Call("Split", {0LL, Float(root)}, {{"num_split", 2}});
  ASSERT_TRUE(fixed.valid()) << root.status();
  EXPECT_EQ(fixed.node->input(0).dtype(), kInt32);
  const std::vector<Output> listed =
      root.CallMulti("IdentityN", {1, 2}, {{"T", std::vector<DataType>{kInt64, kFloat32}}});
  ASSERT_EQ(listed.size(), 2u) << root.status();
  EXPECT_EQ(listed[0].dtype(), kInt64);
  EXPECT_EQ(root.Constant(2).dtype(), kInt32);
  EXPECT_EQ(root.Constant(2.0).dtype(), kFloat64);
  EXPECT_EQ(root.Constant("text").dtype(), kString);
  EXPECT_EQ(ops::Const(root, {1, 2}, kFloat16).dtype(), kFloat16);
}

TEST(ScopeTest, NumbersThatDoNotFitAreErrors) {
  const std::pair<DataType, Input> cases[] = {
      {kInt32, 2.5}, {kUint8, -1}, {kUint8, 256}, {kInt32, 1e12}, {kFloat32, true}};
  for (const auto& [type, number] : cases) {
    const Scope root = Scope::NewRoot();
    const Output x = root.Call("Placeholder", {}, {{"dtype", type}});
    EXPECT_FALSE(root.Call("AddV2", {x, number}).valid());
    EXPECT_EQ(root.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(root), HasSubstr("node 'AddV2' (AddV2): input 1 ('y')"));
  }
}

TEST(ScopeTest, MatricesAndTextsAreValues) {
  const Scope root = Scope::NewRoot();
  const Output matrix = root.Constant({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}});
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(matrix.shape().DebugString(), "[2,3]");
  EXPECT_THAT(ValueOf(matrix).Elements<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ValueOf(root.Constant({true, false})).Elements<bool>(), ElementsAre(true, false));
  EXPECT_THAT(ValueOf(root.Constant({"a", "b"})).Elements<std::string>(), ElementsAre("a", "b"));
  EXPECT_FALSE(root.Call("Identity", {{{1, 2}, {3}}}).valid());
  EXPECT_THAT(Message(root), HasSubstr("rows have different lengths"));
}

TEST(ScopeTest, AnInvalidInputIsNamed) {
  const Scope root = Scope::NewRoot();
  EXPECT_FALSE(root.Call("AddV2", {Float(root), Output()}).valid());
  EXPECT_THAT(Message(root), HasSubstr("node 'AddV2' (AddV2): input 1 is not an output"));
}

TEST(ScopeTest, AnOutputThatDoesNotExistIsAnError) {
  const Scope root = Scope::NewRoot();
  EXPECT_FALSE(root.Call("Identity", {Output(Float(root).node, 3)}).valid());
  EXPECT_THAT(Message(root), HasSubstr("is output 3 of node 'Placeholder', which has 1"));
}

TEST(ScopeTest, ANodeOfAnotherGraphIsRefused) {
  const Scope root = Scope::NewRoot();
  const Scope other = Scope::NewRoot();
  EXPECT_FALSE(root.Call("Identity", {Float(other)}).valid());
  EXPECT_THAT(Message(root), HasSubstr("another graph"));
}

TEST(ScopeTest, CallOfAnOpWithoutOutputsIsAnError) {
  const Scope root = Scope::NewRoot();
  EXPECT_NE(root.AddNode("NoOp", {}), nullptr);
  EXPECT_FALSE(root.Call("NoOp", {}).valid());
  EXPECT_EQ(root.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ScopeTest, ControlDependenciesAddUp) {
  const Scope root = Scope::NewRoot();
  Node* const a = root.AddNode("NoOp", {});
  Node* const b = root.AddNode("NoOp", {});
  const Scope after = root.WithControlDependencies({a}).WithControlDependencies({b, a});
  EXPECT_THAT(after.AddNode("NoOp", {})->control_inputs(), ElementsAre(a, b));
  EXPECT_TRUE(after.WithoutControlDependencies().AddNode("NoOp", {})->control_inputs().empty());
  root.WithControlDependencies({nullptr});
  EXPECT_FALSE(root.ok());
}

TEST(ScopeTest, TheInnerDeviceCountsPartByPart) {
  const Scope root = Scope::NewRoot();
  const Scope outer = root.WithDevice("/job:worker/task:1/cpu:0");
  const Scope inner = outer.WithDevice("/cpu:1");
  EXPECT_EQ(inner.AddNode("NoOp", {})->requested_device(), "/job:worker/task:1/device:CPU:1");
  EXPECT_EQ(outer.Call("Identity", {1}).node->input(0).node->requested_device(),
            "/job:worker/task:1/device:CPU:0");
  EXPECT_EQ(root.AddNode("NoOp", {})->requested_device(), "");
  root.WithDevice("/nonsense");
  EXPECT_THAT(Message(root), HasSubstr("/nonsense"));
}

TEST(ScopeTest, ColocationIsAnAttribute) {
  const Scope root = Scope::NewRoot();
  const Output x = Float(root);
  const Output y = root.ColocateWith(x.node).Call("Identity", {x});
  EXPECT_THAT(*y.node->Attr<std::vector<std::string>>("_class"), ElementsAre("loc:@Placeholder"));
}

TEST(ScopeTest, SomebodyElsesGraphCanBeExtended) {
  Graph graph;
  EXPECT_EQ(Float(Scope::ForGraph(&graph)).name(), "Placeholder");
  EXPECT_EQ(Float(Scope::ForGraph(&graph)).name(), "Placeholder_1");
  EXPECT_EQ(graph.num_nodes(), 2);
}

}  // namespace
}  // namespace tandem
