#include "core/passes/fuse_elementwise.h"

#include <limits>

#include "core/passes/fusion_test_util.h"

namespace tandem {
namespace {

using ::tandem::testing::ExpectSameBits;
using ::tandem::testing::Numbers;

constexpr char kPass[] = "fuse_elementwise";
constexpr char kFused[] = "_TandemElementwise";
constexpr int64_t kUnknown = PartialShape::kUnknownDim;

class FuseElementwiseTest : public testing::FusionTest {
 protected:
  // Runs the graph for "y"; the results must be the same bits.
  void ExpectSame(const Session::Feeds& feeds, const std::vector<std::string>& fetches = {"y"}) {
    const Results r = Run(feeds, fetches);
    for (size_t i = 0; i < r.fused.size(); ++i) ExpectSameBits(r.fused[i], r.plain[i]);
  }
  // "y" = x sigmoid(1.702 x)
  void Gelu(PartialShape shape) {
    const Output x = Placeholder("x", std::move(shape));
    const Output scaled = s.WithOpName("scaled").Call("Mul", {x, 1.702f});
    s.WithOpName("y").Call("Mul", {x, s.WithOpName("gate").Call("Sigmoid", {scaled})});
  }
};

TEST_P(FuseElementwiseTest, EveryOpCanBeAPart) {
  for (const DataType dtype : {kFloat32, kFloat64}) {
    for (const absl::string_view op : ElementwiseOps()) {
      SCOPED_TRACE(op);
      s = Scope::NewRoot();
      const Output a = Placeholder("a", PartialShape({kUnknown, 37}), dtype);
      const Output b = Placeholder("b", PartialShape({kUnknown, 37}), dtype);
      const bool is_binary = OpRegistry::Global().Find(op)->inputs.size() == 2;
      const Output middle = s.Call(op, is_binary ? InputList{a, b} : InputList{a});
      s.WithOpName("y").Call("Mul", {middle, b});
      Open(kPass);
      ExpectSame({{"a", Numbers({61, 37}, 1, dtype)}, {"b", Numbers({61, 37}, 2, dtype)}});
      EXPECT_EQ(Count(kFused), 1);
      EXPECT_EQ(Count(std::string(op)), 0);
    }
  }
}

TEST_P(FuseElementwiseTest, AnyNumberOfElementsGivesTheSameBits) {
  Gelu(PartialShape::Unknown());
  Open(kPass);
  // Of none, one, a vector and a bit, a block and a bit, and what is split over threads.
  for (const int64_t n : {0, 1, 9, 1023, 1024, 1025, 5000, 300'001}) {
    SCOPED_TRACE(n);
    ExpectSame({{"x", Numbers({n})}});
    EXPECT_EQ(Count(kFused), 1);
    EXPECT_EQ(Count("Mul") + Count("Sigmoid"), 0);
  }
  ExpectSame({{"x", Numbers({})}});
}

TEST_P(FuseElementwiseTest, SpecialNumbersPass) {
  Gelu(PartialShape({kUnknown}));
  Open(kPass);
  Tensor x = Numbers({2000});
  x.MutableElements<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  x.MutableElements<float>()[4] = std::numeric_limits<float>::infinity();
  x.MutableElements<float>()[1999] = -std::numeric_limits<float>::infinity();
  x.MutableElements<float>()[5] = -0.0f;
  x.MutableElements<float>()[6] = 1e-42f;
  ExpectSame({{"x", x}});
}

TEST_P(FuseElementwiseTest, ADiamondIsOneNode) {
  const Output x = Placeholder("x", PartialShape({kUnknown}));
  const Output e = s.Call("Exp", {x});
  s.WithOpName("y").Call("RealDiv", {e, s.Call("AddV2", {e, 1.0f})});
  Open(kPass);
  ExpectSame({{"x", Numbers({3000})}});
  EXPECT_EQ(Count(kFused), 1);
  EXPECT_EQ(Count("Exp"), 0);
}

TEST_P(FuseElementwiseTest, WhatIsFetchedInBetweenStays) {
  Gelu(PartialShape({kUnknown}));
  Open(kPass);
  ExpectSame({{"x", Numbers({3000})}}, {"y", "scaled"});
  EXPECT_EQ(Count("Mul"), 1);  // Of what is fetched.
  EXPECT_EQ(Count(kFused), 1);
  ExpectSame({{"x", Numbers({3000})}}, {"y", "gate"});
  EXPECT_EQ(Count("Mul"), 1);
  EXPECT_EQ(Count(kFused), 1);
}

TEST_P(FuseElementwiseTest, ATargetWithoutConsumersIsFusedToo) {
  Gelu(PartialShape({kUnknown}));
  Open(kPass);
  Run({{"x", Numbers({10})}}, {}, {"y"});
  EXPECT_EQ(Count(kFused), 1);
}

TEST_P(FuseElementwiseTest, SeveralConsumersGetTheSameValue) {
  // `middle` feeds two chains: it is the result of one fused node and an input of two.
  const Output x = Placeholder("x", PartialShape({kUnknown}));
  const Output middle = s.Call("Tanh", {s.Call("Neg", {x})});
  s.WithOpName("a").Call("Square", {s.Call("Exp", {middle})});
  s.WithOpName("b").Call("Neg", {s.Call("Abs", {middle})});
  Open(kPass);
  ExpectSame({{"x", Numbers({3000})}}, {"a", "b"});
  EXPECT_EQ(Count(kFused), 3);
}

TEST_P(FuseElementwiseTest, AValueThatIsReadAgainIsNotOverwritten) {
  // The fed value and the result of MatMul are needed after the fused nodes that could reuse their
  // memory.
  const Output x = Placeholder("x", PartialShape({kUnknown, 8}));
  const Output product = s.Call("MatMul", {x, Numbers({8, 8}, 2)});
  const Output y = s.WithOpName("y").Call("Neg", {s.Call("Square", {product})});
  s.WithControlDependencies({y.node}).WithOpName("z").Call("Identity", {product});
  Open(kPass);
  for (int i = 0; i < 2; ++i) ExpectSame({{"x", Numbers({500, 8})}}, {"y", "z"});
  EXPECT_EQ(Count(kFused), 1);
}

TEST_P(FuseElementwiseTest, ShapesThatTurnOutToBroadcastDo) {
  const Output a = Placeholder("a", PartialShape::Unknown());
  const Output b = Placeholder("b", PartialShape::Unknown());
  const Output c = Placeholder("c", PartialShape::Unknown());
  s.WithOpName("y").Call("Exp", {s.Call("Mul", {s.Call("Sub", {a, b}), s.Call("Neg", {c})})});
  Open(kPass);
  const std::vector<std::vector<Shape>> all = {
      {{40, 50}, {50}, {40, 1}},
      {{50}, {40, 1}, {1}},
      {{}, {}, {40}},
      {{1}, {}, {1, 1}},
      {{}, {}, {}},
      {{3, 0}, {1}, {}},
      {{40, 50}, {}, {40, 50}},
      {{2000}, {2000}, {2000}},
  };
  for (const std::vector<Shape>& shapes : all) {
    SCOPED_TRACE(shapes[0].DebugString() + shapes[1].DebugString() + shapes[2].DebugString());
    ExpectSame(
        {{"a", Numbers(shapes[0], 1)}, {"b", Numbers(shapes[1], 2)}, {"c", Numbers(shapes[2], 3)}});
    EXPECT_EQ(Count(kFused), 1);
  }
  (void)Fails({{"a", Numbers({3})}, {"b", Numbers({4})}, {"c", Numbers({3})}}, {"y"});
}

TEST_P(FuseElementwiseTest, OpsThatDoNotBroadcastStillRefuse) {
  const Output y = Placeholder("a", PartialShape::Unknown());
  const Output dy = Placeholder("b", PartialShape::Unknown());
  s.WithOpName("y").Call("Neg", {s.Call("TanhGrad", {y, s.Call("Square", {dy})})});
  Open(kPass);
  ExpectSame({{"a", Numbers({7})}, {"b", Numbers({7}, 2)}});
  const absl::Status status = Fails({{"a", Numbers({7})}, {"b", Numbers({}, 2)}}, {"y"});
  EXPECT_NE(status.message().find("TanhGrad"), std::string::npos) << status;
  EXPECT_EQ(Count(kFused), 1);
}

TEST_P(FuseElementwiseTest, KnownBroadcastsAndScalarsStayAlone) {
  const Output x = Placeholder("x", PartialShape({kUnknown, 8}));
  const Output row = Placeholder("row", PartialShape({8}));
  const Output one = Placeholder("one", PartialShape({}));
  const Output scaled = s.Call("Mul", {x, s.Call("Neg", {row})});
  const Output rate = s.Call("Square", {s.Call("Neg", {one})});
  s.WithOpName("y").Call("Mul", {s.Call("Tanh", {scaled}), rate});
  Open(kPass);
  ExpectSame({{"x", Numbers({30, 8})}, {"row", Numbers({8}, 2)}, {"one", Numbers({}, 3)}});
  EXPECT_EQ(Count(kFused), 1);
  EXPECT_EQ(Count("Mul"), 1);
  EXPECT_EQ(Count("Neg"), 2);
  EXPECT_EQ(Count("Square"), 1);
  EXPECT_EQ(Count("Tanh"), 0);
}

TEST_P(FuseElementwiseTest, ALongChainIsCut) {
  Output y = Placeholder("x", PartialShape({kUnknown}));
  for (int i = 0; i < 100; ++i) y = s.Call(i % 2 == 0 ? "Tanh" : "Neg", {y});
  s.WithOpName("y").Call("Neg", {y});
  Open(kPass);
  ExpectSame({{"x", Numbers({3000})}});
  EXPECT_EQ(Count("Tanh") + Count("Neg"), 0);
  EXPECT_GT(Count(kFused), 1);
  EXPECT_LT(Count(kFused), 10);
}

TEST_P(FuseElementwiseTest, ControlEdgesStayAround) {
  const Output v =
      s.WithOpName("v").Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  Node* const set = s.WithOpName("set").AddNode("AssignVariableOp", {v, 1.0f});
  const Output x = Placeholder("x", PartialShape({kUnknown}));
  const Output inner = s.WithControlDependencies({set}).Call("Neg", {x});
  const Output y = s.WithOpName("y").Call("Exp", {inner});
  Node* const add = s.WithControlDependencies({y.node}).WithOpName("add").AddNode(
      "AssignAddVariableOp", {v, 1.0f});
  s.WithControlDependencies({add}).WithOpName("read").Call("ReadVariableOp", {v},
                                                           {{"dtype", kFloat32}});
  Open(kPass);
  const Results r = Run({{"x", Numbers({10})}}, {"read"});
  EXPECT_EQ(r.fused[0].ScalarValue<float>(), 2.0f);
  EXPECT_EQ(Count(kFused), 1);
}

TEST_P(FuseElementwiseTest, WhatSomebodyWaitsForStays) {
  // Neg → (waits) Tanh → Mul with Neg's result: Neg and Mul in one node would wait for itself.
  const Output x = Placeholder("x", PartialShape({kUnknown}));
  const Output neg = s.Call("Neg", {x});
  const Output tanh = s.WithControlDependencies({neg.node}).Call("Identity", {x});
  s.WithOpName("y").Call("Mul", {neg, tanh});
  Open(kPass);
  ExpectSame({{"x", Numbers({10})}});
  EXPECT_EQ(Count("Neg"), 1);
}

TEST_P(FuseElementwiseTest, TypesAreNotMixed) {
  const Output x = Placeholder("x", PartialShape({kUnknown}));
  const Output wide = s.Call("Cast", {s.Call("Neg", {s.Call("Exp", {x})})}, {{"DstT", kFloat64}});
  s.WithOpName("y").Call("Neg", {s.Call("Exp", {wide})});
  const Output n = Placeholder("n", PartialShape({kUnknown}), kInt32);
  s.WithOpName("z").Call("Neg", {s.Call("Square", {n})});
  Open(kPass);
  ExpectSame({{"x", Numbers({3000})}});
  EXPECT_EQ(Count(kFused), 2);
  Run({{"n", Tensor::Vector<int32_t>({1, 2})}}, {"z"});
  EXPECT_EQ(Count(kFused), 0);
}

TEST_P(FuseElementwiseTest, ReferencesAreReadAsTheyAreWhenTheNodeRuns) {
  const Output v = s.WithOpName("v").Call("VariableV2", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({100})}});
  s.WithOpName("init").Call("Assign", {v, Numbers({100})});
  s.WithOpName("add").Call("AssignAdd", {v, Numbers({100}, 2)});
  s.WithOpName("y").Call("Exp", {s.Call("Neg", {v})});
  Open(kPass);
  Do("init");
  ExpectSame({});
  Do("add");
  ExpectSame({});
  EXPECT_EQ(Count(kFused), 1);
  // The variable is as it was: the fused node has not written to its memory.
  ExpectSame({}, {"v"});
}

TEST_P(FuseElementwiseTest, BranchesOfTensorFlow1StayRight) {
  if (GetParam() != kCpu) return;  // Predicates are in host memory; this is about dead values.
  const Output x = Placeholder("x", PartialShape({kUnknown}));
  const Output p = Placeholder("p", PartialShape({}), kBool);
  const std::vector<Output> branches = s.CallMulti("Switch", {x, p});
  const Output negative = s.Call("Neg", {s.Call("Exp", {branches[0]})});
  const Output positive = s.Call("Exp", {s.Call("Neg", {branches[1]})});
  s.WithOpName("y").Call("Merge", {negative, positive});
  Open(kPass);
  for (const bool value : {false, true}) {
    ExpectSame({{"x", Numbers({10})}, {"p", Tensor::Scalar<bool>(value)}});
    EXPECT_EQ(Count(kFused), 1);
  }
}

TEST_P(FuseElementwiseTest, LoopsOfTensorFlow1StayRight) {
  if (GetParam() != kCpu) return;  // Of placement nothing is asked here.
  // Five times x = exp(-x).
  const AttrMap frame = {{"frame_name", "loop"}};
  const auto merge = [&](const std::string& name, const Output& enter) {
    NodeSpec spec;
    spec.name = name;
    spec.op = "Merge";
    spec.inputs = {enter};
    spec.attrs = {{"N", 2}, {"T", enter.dtype()}};
    spec.first_missing_input = 1;
    return *s.graph()->AddNode(spec);
  };
  Node* const i = merge("i", s.Call("Enter", {s.Constant(0)}, frame));
  Node* const x =
      merge("x_in", s.Call("Enter", {Placeholder("x", PartialShape({kUnknown}))}, frame));
  const Output go_on = s.Call("LoopCond", {s.Call("Less", {i->output(0), 5})});
  const std::vector<Output> i_next = s.CallMulti("Switch", {i->output(0), go_on});
  const std::vector<Output> x_next = s.CallMulti("Switch", {x->output(0), go_on});
  const Output added = s.Call("NextIteration", {s.Call("AddV2", {i_next[1], 1})});
  const Output changed = s.Call("NextIteration", {s.Call("Exp", {s.Call("Neg", {x_next[1]})})});
  ASSERT_TRUE(s.graph()->SetInput(i, 1, added).ok());
  ASSERT_TRUE(s.graph()->SetInput(x, 1, changed).ok());
  s.WithOpName("y").Call("Exit", {x_next[0]});
  Open(kPass);
  ExpectSame({{"x", Numbers({100})}});
  EXPECT_EQ(Count(kFused), 5);
}

INSTANTIATE_TEST_SUITE_P(Devices, FuseElementwiseTest, ::testing::Values(kCpu, kSim));

}  // namespace
}  // namespace tandem
