#include "core/passes/fold_constants.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/graph/scope.h"
#include "core/kernel/factories.h"
#include "core/op/shape_context.h"
#include "gtest/gtest.h"
#include "runtime/device/device.h"
#include "runtime/session/kernel_evaluator.h"

namespace tandem {
namespace {

constexpr char kHost[] = "/job:localhost/replica:0/task:0/device:CPU:0";

// An op with an effect that others could see.
absl::Status PairShape(ShapeContext& c) { return c.SetOutput(0, PartialShape({2})); }
TANDEM_OP("_TestEffect").Outputs("output:float32").Stateful().Shape(PairShape);

class FoldConstantsTest : public ::testing::Test {
 protected:
  FoldConstantsTest() : devices_(*DeviceSet::Create({{kCpu, 1}})), evaluator_(*devices_, 1) {}

  Output X(PartialShape shape, DataType dtype = kFloat32) {
    return s_.WithOpName("x").Call("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
  }

  // Keeps `value` alive as a run's result would, and says what is there after the pass.
  Node* Keep(const Output& value) {
    return s_.AddNode("_Retval", {value}, {{"index", num_kept_++}});
  }

  void Fold(Evaluator* evaluator) {
    ASSERT_TRUE(s_.ok()) << s_.status();
    for (Node* node : s_.graph()->nodes()) node->set_device(kHost);
    const absl::Status status = FoldConstants(evaluator, *s_.graph());
    ASSERT_TRUE(status.ok()) << status;
  }
  void Fold() { Fold(&evaluator_); }

  static std::string TypeOf(const Node* kept) { return kept->input(0).node->type(); }
  static std::string ValueOf(const Node* kept) {
    const Tensor* const value = kept->input(0).node->Attr<Tensor>("value");
    return value == nullptr ? "no constant" : value->DebugString();
  }
  static std::vector<std::string> ControlInputs(const Node* kept) {
    std::vector<std::string> names;
    for (const Node* control : kept->input(0).node->control_inputs()) {
      names.push_back(control->name());
    }
    absl::c_sort(names);
    return names;
  }

  Scope s_ = Scope::NewRoot();
  std::shared_ptr<DeviceSet> devices_;
  KernelEvaluator evaluator_;
  int num_kept_ = 0;
};

TEST_F(FoldConstantsTest, ComputesWhatHangsOnConstantsAlone) {
  Node* const kept = Keep(s_.Call("Mul", {s_.Call("AddV2", {2.0f, 3.0f}), 4.0f}));
  Fold();
  EXPECT_EQ(ValueOf(kept), Tensor::Scalar<float>(20).DebugString());
  EXPECT_EQ(kept->input(0).node->device(), kHost);
}

TEST_F(FoldConstantsTest, GivesEveryOutputItsConstant) {
  const std::vector<Output> axes = s_.CallMulti("BroadcastGradientArgs", {{2, 1}, {2, 3}});
  ASSERT_EQ(axes.size(), 2u) << s_.status();
  Node* const first = Keep(axes[0]);
  Node* const second = Keep(axes[1]);
  Fold();
  EXPECT_EQ(ValueOf(first), Tensor::Vector<int32_t>({1}).DebugString());
  EXPECT_EQ(ValueOf(second), Tensor(kInt32, Shape({0})).DebugString());
}

TEST_F(FoldConstantsTest, HandsConstantsOnWithoutKernels) {
  Node* const kept = Keep(s_.Call("Identity", {s_.Call("StopGradient", {7.0f})}));
  Node* const sum = Keep(s_.Call("AddV2", {2.0f, 3.0f}));
  Fold(nullptr);
  EXPECT_EQ(ValueOf(kept), Tensor::Scalar<float>(7).DebugString());
  EXPECT_EQ(TypeOf(sum), "AddV2");
}

TEST_F(FoldConstantsTest, KnowsShapesBeforeTheRun) {
  const Output x = X({2, 3});
  Node* const shape = Keep(s_.Call("Shape", {x}));
  Node* const size = Keep(s_.Call("Size", {x}, {{"out_type", kInt64}}));
  Node* const rank = Keep(s_.Call("Rank", {x}));
  Node* const unknown = Keep(s_.Call("Shape", {s_.Call("Placeholder", {}, {{"dtype", kFloat32}})}));
  Fold(nullptr);
  EXPECT_EQ(ValueOf(shape), Tensor::Vector<int32_t>({2, 3}).DebugString());
  EXPECT_EQ(ValueOf(size), Tensor::Scalar<int64_t>(6).DebugString());
  EXPECT_EQ(ValueOf(rank), Tensor::Scalar<int32_t>(2).DebugString());
  EXPECT_EQ(TypeOf(unknown), "Shape");
  // They wait for nothing any more.
  EXPECT_EQ(ControlInputs(shape), std::vector<std::string>());
}

TEST_F(FoldConstantsTest, ShapesTooLargeForTheirTypeStay) {
  Node* const kept = Keep(s_.Call("Size", {X({1 << 20, 1 << 20})}));
  Fold();
  EXPECT_EQ(TypeOf(kept), "Size");
}

TEST_F(FoldConstantsTest, AShapeStillComesAfterEffects) {
  const Output effect = s_.WithOpName("effect").Call("_TestEffect", {});
  Node* const shape = Keep(s_.Call("Shape", {s_.WithOpName("neg").Call("Neg", {effect})}));
  Fold();
  EXPECT_EQ(ValueOf(shape), Tensor::Vector<int32_t>({2}).DebugString());
  EXPECT_EQ(ControlInputs(shape), std::vector<std::string>({"neg"}));
}

TEST_F(FoldConstantsTest, KeepsAllControlInputs) {
  Node* const first = s_.WithOpName("first").AddNode("NoOp", {});
  Node* const second = s_.WithOpName("second").AddNode("NoOp", {});
  // Scope::Constant waits for nothing.
  const Output a = s_.WithControlDependencies({first}).Call(
      "Const", {}, {{"dtype", kFloat32}, {"value", Tensor::Scalar<float>(1)}});
  Node* const sum = s_.WithControlDependencies({second}).AddNode("AddV2", {a, 2.0f});
  Node* const kept = Keep(Output(sum, 0));
  Node* const after = s_.WithControlDependencies({sum}).AddNode("NoOp", {});
  Fold();
  EXPECT_EQ(ValueOf(kept), Tensor::Scalar<float>(3).DebugString());
  EXPECT_EQ(ControlInputs(kept), std::vector<std::string>({"first", "second"}));
  ASSERT_EQ(after->control_inputs().size(), 1u);
  EXPECT_EQ(after->control_inputs()[0], kept->input(0).node);
}

TEST_F(FoldConstantsTest, LeavesStateAndChanceAlone) {
  Node* const random = Keep(s_.Call("RandomUniform", {{2}}, {{"dtype", kFloat32}}));
  Node* const seeded = Keep(s_.Call("StatelessRandomUniform", {{2}, {1, 2}}));
  Fold();
  EXPECT_EQ(TypeOf(random), "RandomUniform");
  EXPECT_EQ(TypeOf(seeded), "Const") << "the same seed gives the same numbers in every run";
}

TEST_F(FoldConstantsTest, AnErrorIsLeftToTheRun) {
  Node* const kept = Keep(s_.Call("FloorDiv", {1, 0}));
  Fold();
  EXPECT_EQ(TypeOf(kept), "FloorDiv");
}

TEST_F(FoldConstantsTest, LargeResultsAreLeftToTheRun) {
  Node* const large = Keep(s_.Call("Fill", {{1024, 1024}, 1.0f}));
  Node* const small = Keep(s_.Call("Fill", {{16, 16}, 1.0f}));
  // As large as its input, which is there anyway.
  Node* const shifted = Keep(s_.Call("Neg", {Tensor::Zeros(kFloat32, Shape({1024, 1024}))}));
  Fold();
  EXPECT_EQ(TypeOf(large), "Fill");
  EXPECT_EQ(TypeOf(small), "Const");
  EXPECT_EQ(TypeOf(shifted), "Const");
}

TEST_F(FoldConstantsTest, DropsWhatChangesNothing) {
  const Output x = X({2, 3});
  std::vector<Node*> dropped = {
      Keep(s_.Call("Mul", {x, 1.0f})),
      Keep(s_.Call("Mul", {1.0f, x})),
      Keep(s_.Call("RealDiv", {x, 1.0f})),
      Keep(s_.Call("Sub", {x, 0.0f})),
      Keep(s_.Call("AddV2", {x, -0.0f})),
      Keep(s_.Call("Mul", {x, {1.0f, 1.0f, 1.0f}})),
      Keep(s_.Call("Mul", {x, {{1.0f}, {1.0f}}})),
  };
  Fold();
  for (const Node* node : dropped) EXPECT_EQ(node->input(0), x) << node->name();
}

TEST_F(FoldConstantsTest, KeepsWhatChangesSignsOrShapes) {
  const Output x = X({2, 3});
  const Output any = s_.Call("Placeholder", {}, {{"dtype", kFloat32}});
  const Output vector = s_.Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", Shape({1})}});
  std::vector<Node*> kept = {
      Keep(s_.Call("AddV2", {x, 0.0f})),    // -0.0 would become 0.0.
      Keep(s_.Call("Sub", {x, -0.0f})),     // So here.
      Keep(s_.Call("Sub", {0.0f, x})),      // Another number.
      Keep(s_.Call("RealDiv", {1.0f, x})),  // So here.
      Keep(s_.Call("Mul", {x, 1.5f})),
      Keep(s_.Call("Mul", {any, {1.0f}})),           // A scalar would become a vector.
      Keep(s_.Call("Mul", {vector, {1.0f, 1.0f}})),  // One element would become two.
  };
  Fold();
  for (const Node* node : kept) EXPECT_NE(TypeOf(node), "Placeholder") << node->name();
}

TEST_F(FoldConstantsTest, AddingAWholeZeroChangesNothing) {
  const Output x = X({2}, kInt32);
  Node* const kept = Keep(s_.Call("AddV2", {x, 0}));
  Fold();
  EXPECT_EQ(kept->input(0), x);
}

TEST_F(FoldConstantsTest, DoesNotLookThroughConditionals) {
  const Output pred = s_.Call("Placeholder", {}, {{"dtype", kBool}, {"shape", Shape()}});
  const std::vector<Output> branches = s_.CallMulti("Switch", {{1.0f, 2.0f}, pred});
  ASSERT_EQ(branches.size(), 2u) << s_.status();
  Node* const value = Keep(s_.Call("Identity", {branches[1]}));
  Node* const direct = Keep(s_.Call("Shape", {branches[1]}));
  Node* const behind = Keep(s_.Call("Shape", {s_.WithOpName("neg").Call("Neg", {branches[0]})}));
  Fold();
  EXPECT_EQ(TypeOf(value), "Identity");
  EXPECT_EQ(TypeOf(direct), "Shape");
  // Dead when the branch is.
  EXPECT_EQ(ValueOf(behind), Tensor::Vector<int32_t>({2}).DebugString());
  EXPECT_EQ(ControlInputs(behind), std::vector<std::string>({"neg"}));
}

}  // namespace
}  // namespace tandem
