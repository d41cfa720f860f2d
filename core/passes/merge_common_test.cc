#include "core/passes/merge_common.h"

#include <string>
#include <vector>

#include "core/graph/scope.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

constexpr char kHost[] = "/job:localhost/replica:0/task:0/device:CPU:0";
constexpr char kOther[] = "/job:localhost/replica:0/task:0/device:CPU:1";

class MergeCommonTest : public ::testing::Test {
 protected:
  Output X() { return s_.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}}); }
  Node* Keep(const Output& value) {
    return s_.AddNode("_Retval", {value}, {{"index", num_kept_++}});
  }
  void Merge() {
    ASSERT_TRUE(s_.ok()) << s_.status();
    for (Node* node : s_.graph()->nodes()) {
      if (node->device().empty()) node->set_device(kHost);
    }
    const absl::Status status = MergeCommon(*s_.graph());
    ASSERT_TRUE(status.ok()) << status;
  }

  Scope s_ = Scope::NewRoot();
  int num_kept_ = 0;
};

TEST_F(MergeCommonTest, EqualChainsBecomeOne) {
  const Output x = X();
  const Output first = s_.Call("Abs", {s_.Call("Mul", {x, 2.0f})});
  const Output second = s_.Call("Abs", {s_.Call("Mul", {x, 2.0f})});
  Node* const a = Keep(first);
  Node* const b = Keep(second);
  Merge();
  EXPECT_EQ(a->input(0), first);
  EXPECT_EQ(b->input(0), first);
}

TEST_F(MergeCommonTest, WhateverDiffersKeepsNodesApart) {
  const Output x = X();
  Node* const before = s_.AddNode("NoOp", {});
  std::vector<Output> values = {
      s_.Call("Neg", {x}),
      s_.Call("Abs", {x}),                                    // The op,
      s_.Call("Neg", {s_.Call("Abs", {x})}),                  // an input,
      s_.Call("Cast", {x}, {{"DstT", kFloat64}}),             // an attribute,
      s_.Call("Cast", {x}, {{"DstT", kInt32}}),               //
      s_.WithControlDependencies({before}).Call("Neg", {x}),  // a control input,
      s_.Call("Neg", {x}),                                    // the device.
  };
  ASSERT_TRUE(s_.ok()) << s_.status();
  values.back().node->set_device(kOther);
  std::vector<Node*> kept;
  for (const Output& value : values) kept.push_back(Keep(value));
  Merge();
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i]->input(0), values[i]) << i;
}

TEST_F(MergeCommonTest, ConstantsWithTheSameBytesBecomeOne) {
  const Output a = s_.Constant({1.0f, 2.0f});
  const Output b = s_.Constant({1.0f, 2.0f});
  const Output other = s_.Constant({1.0f, 3.0f});
  const Output minus = s_.Constant(-0.0f);
  const Output plus = s_.Constant(0.0f);
  std::vector<Node*> kept;
  for (const Output& value : {a, b, other, minus, plus}) kept.push_back(Keep(value));
  Merge();
  EXPECT_EQ(kept[1]->input(0), a);
  EXPECT_EQ(kept[2]->input(0), other);
  EXPECT_EQ(kept[3]->input(0), minus);
  EXPECT_EQ(kept[4]->input(0), plus) << "0.0 and -0.0 are equal numbers, not the same";
}

TEST_F(MergeCommonTest, LongConstantsAreComparedToTheirEnd) {
  Tensor a = Tensor::Zeros(kFloat32, Shape({10'000}));
  Tensor b = Tensor::Zeros(kFloat32, Shape({10'000}));
  b.MutableElements<float>()[9'999] = 1;
  Node* const first = Keep(s_.Constant(a));
  const Output second = s_.Constant(b);
  Node* const kept = Keep(second);
  Merge();
  EXPECT_NE(kept->input(0), first->input(0));
}

TEST_F(MergeCommonTest, TextsAreComparedByTheirCharacters) {
  const Output a = s_.Constant({"one", "two"});
  Node* const same = Keep(s_.Constant({"one", "two"}));
  Node* const other = Keep(s_.Constant({"one", "three"}));
  Keep(a);
  Merge();
  EXPECT_EQ(same->input(0), a);
  EXPECT_NE(other->input(0), a);
}

TEST_F(MergeCommonTest, StateStaysApart) {
  const auto random = [&] { return s_.Call("RandomUniform", {{2}}, {{"dtype", kFloat32}}); };
  const Output a = random();
  const Output b = random();
  Keep(a);
  Node* const kept = Keep(b);
  const Output p = s_.Call("Placeholder", {}, {{"dtype", kFloat32}});
  Keep(X());
  Node* const placeholder = Keep(p);
  Merge();
  EXPECT_EQ(kept->input(0), b);
  EXPECT_EQ(placeholder->input(0), p);
}

TEST_F(MergeCommonTest, ControlFlowStaysApart) {
  const Output pred = s_.Call("Placeholder", {}, {{"dtype", kBool}, {"shape", Shape()}});
  const Output x = X();
  const Output a = s_.CallMulti("Switch", {x, pred})[0];
  const Output b = s_.CallMulti("Switch", {x, pred})[0];
  Keep(a);
  Node* const kept = Keep(b);
  Merge();
  EXPECT_EQ(kept->input(0), b);
}

TEST_F(MergeCommonTest, WhoWaitsForTheOneWaitsForTheOther) {
  const Output x = X();
  const Output a = s_.Call("Neg", {x});
  const Output b = s_.Call("Neg", {x});
  Keep(a);
  Keep(b);
  Node* const after = s_.WithControlDependencies({b.node}).AddNode("NoOp", {});
  Merge();
  ASSERT_EQ(after->control_inputs().size(), 1u);
  EXPECT_EQ(after->control_inputs()[0], a.node);
}

}  // namespace
}  // namespace tandem
