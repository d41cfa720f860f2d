#include "core/passes/fuse_updates.h"

#include <map>
#include <thread>

#include "core/passes/fusion_test_util.h"

namespace tandem {
namespace {

using ::tandem::testing::ExpectSameBits;
using ::tandem::testing::Numbers;

constexpr char kPass[] = "fuse_updates";

class FuseUpdatesTest : public testing::FusionTest {
 protected:
  void StartAgain() {
    s = Scope::NewRoot();
    inits_.clear();
    reads_.clear();
  }
  // A variable with its "init_NAME" and "read_NAME".
  Output Variable(const std::string& name, const Tensor& value) {
    const Output v = s.WithOpName(name).Call(
        "VarHandleOp", {}, {{"dtype", value.dtype()}, {"shape", PartialShape(value.shape())}});
    inits_.push_back(s.WithOpName("init_" + name).AddNode("AssignVariableOp", {v, value}));
    s.WithOpName("read_" + name).Call("ReadVariableOp", {v}, {{"dtype", value.dtype()}});
    reads_.push_back("read_" + name);
    return v;
  }
  void OpenAndInitialize(const std::string& passes = kPass) {
    s.WithControlDependencies(inits_).WithOpName("init").AddNode("NoOp", {});
    Open(passes);
    Do("init");
  }
  void ExpectSameVariables() {
    const Results r = Run({}, reads_);
    for (size_t i = 0; i < r.fused.size(); ++i) {
      SCOPED_TRACE(reads_[i]);
      ExpectSameBits(r.fused[i], r.plain[i]);
    }
  }
  Node* Train(const std::vector<Node*>& updates) {
    return s.WithControlDependencies(updates).WithOpName("train").AddNode("NoOp", {});
  }
  // Updates of variables of many sizes, by the op with these slots and scalars in its order, "" for
  // the gradient.
  std::vector<Node*> Updates(const std::string& op, int slots,
                             const std::vector<std::string>& scalars, const AttrMap& attrs = {},
                             int count = 30) {
    std::vector<Node*> updates;
    std::map<std::string, Output> shared;
    for (int i = 0; i < count; ++i) {
      const Shape shape = i % 5 == 4   ? Shape({0, 3})
                          : i % 5 == 3 ? Shape({300, 200})
                          : i % 5 == 2 ? Shape({})
                                       : Shape({i + 1, 3});
      const std::string name = "v" + std::to_string(i);
      InputList inputs = {Variable(name, Numbers(shape, i))};
      for (int slot = 0; slot < slots; ++slot) {
        Tensor value = Numbers(shape, 1000 + i);
        // Second moments are positive.
        for (float& x : value.MutableElements<float>()) x = x * x;
        inputs.push_back(Variable(name + "_slot" + std::to_string(slot), value));
      }
      for (const std::string& scalar : scalars) {
        if (scalar.empty()) {
          inputs.push_back(s.Constant(Numbers(shape, 2000 + i)));
          continue;
        }
        Output& value = shared[scalar];
        if (!value.valid())
          value = s.WithOpName(scalar).Constant(0.1f + 0.07f * static_cast<float>(shared.size()));
        inputs.push_back(value);
      }
      updates.push_back(s.AddNode(op, inputs, attrs));
    }
    return updates;
  }

 private:
  std::vector<Node*> inits_;
  std::vector<std::string> reads_;
};

TEST_P(FuseUpdatesTest, EveryRuleGivesTheSameBits) {
  struct Case {
    std::string prefix;
    std::string rule;
    int slots;
    std::vector<std::string> scalars;
    AttrMap attrs;
  };
  const std::vector<std::string> momentum = {"lr", "", "momentum"};
  const std::vector<std::string> adam = {"b1p", "b2p", "lr", "b1", "b2", "epsilon", ""};
  const AttrMap nesterov = {{"use_nesterov", true}};
  std::vector<std::string> adamw = adam;
  adamw.insert(adamw.end() - 1, "decay");
  const std::vector<Case> cases = {{"_TandemApply", "AdamW", 2, adamw, {}},
                                   {"ResourceApply", "GradientDescent", 0, {"lr", ""}, {}},
                                   {"ResourceApply", "Momentum", 1, momentum, {}},
                                   {"ResourceApply", "Momentum", 1, momentum, nesterov},
                                   {"ResourceApply", "KerasMomentum", 1, momentum, {}},
                                   {"ResourceApply", "KerasMomentum", 1, momentum, nesterov},
                                   {"ResourceApply", "Adam", 2, adam, {}},
                                   {"ResourceApply", "Adam", 2, adam, nesterov}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.rule);
    StartAgain();
    Train(Updates(c.prefix + c.rule, c.slots, c.scalars, c.attrs));
    OpenAndInitialize();
    for (int step = 0; step < 3; ++step) Do("train");
    EXPECT_EQ(Count("_TandemApplyMany" + c.rule), 1);
    EXPECT_EQ(Count(c.prefix + c.rule), 0);
    ExpectSameVariables();
  }
}

TEST_P(FuseUpdatesTest, WhatDiffersStaysApart) {
  const Output rate = s.Constant(0.1f);
  const Output other_rate = s.Constant(0.2f);
  const Output momentum = s.Constant(0.9f);
  Node* const before = s.WithOpName("before").AddNode("NoOp", {});
  std::vector<Node*> updates;
  const auto update = [&](const Scope& scope, const std::string& name, const Output& lr,
                          const AttrMap& attrs = {}) {
    const Output v = Variable(name, Numbers({3}, 1));
    const Output slot = Variable(name + "_slot", Numbers({3}, 2));
    updates.push_back(
        scope.AddNode("ResourceApplyMomentum", {v, slot, lr, Numbers({3}, 3), momentum}, attrs));
  };
  update(s, "a", rate);
  update(s, "b", rate);
  update(s, "c", other_rate);
  update(s, "d", rate, {{"use_nesterov", true}});
  update(s.WithControlDependencies({before}), "e", rate);
  Train(updates);
  OpenAndInitialize();
  Do("train");
  EXPECT_EQ(Count("_TandemApplyManyMomentum"), 1);
  EXPECT_EQ(Count("ResourceApplyMomentum"), 3);
  ExpectSameVariables();
}

TEST_P(FuseUpdatesTest, OtherTypesStayAlone) {
  const Output rate = s.Constant(Tensor::Scalar<double>(0.1));
  std::vector<Node*> updates;
  for (const char* name : {"a", "b"}) {
    const Output v = Variable(name, Numbers({3}, 1, kFloat64));
    updates.push_back(
        s.AddNode("ResourceApplyGradientDescent", {v, rate, Numbers({3}, 2, kFloat64)}));
  }
  Train(updates);
  OpenAndInitialize();
  Do("train");
  EXPECT_EQ(Count("ResourceApplyGradientDescent"), 2);
  ExpectSameVariables();
}

TEST_P(FuseUpdatesTest, EqualScalarsOfDifferentNodesAreOneAfterMerging) {
  const Output step = s.Constant(3.0f);
  std::vector<Node*> updates;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "v" + std::to_string(i);
    const Output v = Variable(name, Numbers({3}, i));
    const Output m = Variable(name + "_m", Numbers({3}, i + 10));
    const Output n = Variable(name + "_n", Tensor::FromValues<float>({3}, {1, 2, 3}));
    updates.push_back(s.AddNode("ResourceApplyAdam",
                                {v, m, n, s.Call("Pow", {0.9f, step}), s.Call("Pow", {0.99f, step}),
                                 0.1f, 0.9f, 0.99f, 1e-7f, Numbers({3}, i + 20)}));
  }
  Train(updates);
  OpenAndInitialize("merge_common,fuse_updates");
  Do("train");
  EXPECT_EQ(Count("_TandemApplyManyAdam"), 1);
  EXPECT_EQ(Count("Pow"), 2);
  ExpectSameVariables();
}

TEST_P(FuseUpdatesTest, AnUpdateThatWaitsForAnotherStaysApart) {
  // b's gradient is what a holds after its update; c waits for nobody.
  const Output rate = s.Constant(0.5f);
  const Output a = Variable("a", Numbers({3}, 1));
  const Output b = Variable("b", Numbers({3}, 2));
  const Output c = Variable("c", Numbers({3}, 3));
  Node* const first = s.AddNode("ResourceApplyGradientDescent", {a, rate, Numbers({3}, 4)});
  const Output changed =
      s.WithControlDependencies({first}).Call("ReadVariableOp", {a}, {{"dtype", kFloat32}});
  Node* const second = s.AddNode("ResourceApplyGradientDescent", {b, rate, changed});
  Node* const third = s.AddNode("ResourceApplyGradientDescent", {c, rate, Numbers({3}, 5)});
  Train({first, second, third});
  OpenAndInitialize();
  Do("train");
  EXPECT_EQ(Count("_TandemApplyManyGradientDescent"), 1);
  EXPECT_EQ(Count("ResourceApplyGradientDescent"), 1);
  ExpectSameVariables();
}

TEST_P(FuseUpdatesTest, TwoGroupsDoNotWaitForEachOther) {
  // a1 → b1 and b2 → a2: with {a1, a2} and {b1, b2} as one node each, both would wait for ever.
  const Output rate_a = s.Constant(0.5f);
  const Output rate_b = s.Constant(0.25f);
  const auto update = [&](const std::string& name, const Output& rate, const Output& gradient) {
    return s.AddNode("ResourceApplyGradientDescent",
                     {Variable(name, Numbers({3})), rate, gradient});
  };
  const auto value_after = [&](Node* node) {
    return s.WithControlDependencies({node}).Call("ReadVariableOp", {node->input(0)},
                                                  {{"dtype", kFloat32}});
  };
  const Output g = s.Constant(Numbers({3}, 7));
  Node* const a1 = update("a1", rate_a, g);
  Node* const b2 = update("b2", rate_b, g);
  Node* const b1 = update("b1", rate_b, value_after(a1));
  Node* const a2 = update("a2", rate_a, value_after(b2));
  Train({a1, a2, b1, b2});
  OpenAndInitialize();
  Do("train");
  ExpectSameVariables();
}

TEST_P(FuseUpdatesTest, WhoWaitedForOneWaitsForAll) {
  const Output rate = s.Constant(1.0f);
  const Output a = Variable("a", Numbers({3}, 1));
  const Output b = Variable("b", Numbers({3}, 2));
  Node* const first = s.AddNode("ResourceApplyGradientDescent", {a, rate, Numbers({3}, 4)});
  Node* const second = s.AddNode("ResourceApplyGradientDescent", {b, rate, Numbers({3}, 5)});
  for (const auto& [node, name] :
       {std::make_pair(first, "new_a"), std::make_pair(second, "new_b")}) {
    s.WithControlDependencies({node}).WithOpName(name).Call("ReadVariableOp", {node->input(0)},
                                                            {{"dtype", kFloat32}});
  }
  OpenAndInitialize();
  const Results r = Run({}, {"new_a", "new_b"});
  for (size_t i = 0; i < 2; ++i) ExpectSameBits(r.fused[i], r.plain[i]);
  EXPECT_EQ(Count("_TandemApplyManyGradientDescent"), 1);
}

TEST_P(FuseUpdatesTest, WhatWasReadBeforeStays) {
  Train(Updates("ResourceApplyGradientDescent", 0, {"lr", ""}, {}, 5));
  OpenAndInitialize();
  const std::vector<std::string> reads = {"read_v0", "read_v1", "read_v3"};
  const Results before = Run({}, reads);
  std::vector<Tensor> copies;
  for (const Tensor& value : before.fused) copies.push_back(*value.Clone());
  Do("train");
  for (size_t i = 0; i < copies.size(); ++i) ExpectSameBits(before.fused[i], copies[i]);
  ExpectSameVariables();
}

TEST_P(FuseUpdatesTest, OneVariableMayBeUpdatedTwice) {
  const Output rate = s.Constant(1.0f);
  const Output v = Variable("v", Tensor::Vector<float>({10, 20}));
  const Output w = Variable("w", Tensor::Vector<float>({1, 2}));
  const Output same =
      s.Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", Shape({2})}, {"shared_name", "v"}});
  std::vector<Node*> updates;
  for (const Output& handle : {v, w, v, same}) {
    updates.push_back(
        s.AddNode("ResourceApplyGradientDescent", {handle, rate, Tensor::Vector<float>({1, 3})}));
  }
  Train(updates);
  OpenAndInitialize();
  Do("train");
  EXPECT_EQ(Count("_TandemApplyManyGradientDescent"), 1);
  const Results r = Run({}, {"read_v", "read_w"});
  ExpectSameBits(r.fused[0], Tensor::Vector<float>({7, 11}));
  ExpectSameBits(r.fused[1], Tensor::Vector<float>({0, -1}));
}

TEST_P(FuseUpdatesTest, SignaturesWithDifferentNumbersOfUpdatesShareAKernel) {
  const std::vector<Node*> updates = Updates("ResourceApplyMomentum", 1, {"lr", "", "momentum"});
  Train(updates);
  s.WithControlDependencies({updates[0], updates[1]}).WithOpName("two").AddNode("NoOp", {});
  s.WithControlDependencies({updates[0]}).WithOpName("one").AddNode("NoOp", {});
  OpenAndInitialize();
  for (const char* target : {"two", "train", "one", "two", "train"}) Do(target);
  ExpectSameVariables();
}

TEST_P(FuseUpdatesTest, ErrorsNameTheVariable) {
  const Output rate = s.Constant(1.0f);
  const Output a = Variable("a", Numbers({3}, 1));
  const Output b = s.WithOpName("weights").Call(
      "VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape::Unknown()}});
  const Output g = Placeholder("g", PartialShape::Unknown());
  std::vector<Node*> updates;
  for (const Output& handle : {a, b}) {
    updates.push_back(s.AddNode("ResourceApplyGradientDescent", {handle, rate, g}));
  }
  Train(updates);
  s.WithOpName("set").AddNode("AssignVariableOp", {b, Numbers({4}, 1)});
  OpenAndInitialize();
  absl::Status status = Fails({{"g", Numbers({3})}}, {}, {"train"});
  EXPECT_EQ(Count("_TandemApplyManyGradientDescent"), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("weights"), std::string::npos) << status;
  Do("set");
  status = Fails({{"g", Numbers({3})}}, {}, {"train"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("weights"), std::string::npos) << status;
}

TEST_P(FuseUpdatesTest, AnUpdateOnABranchStaysApart) {
  if (GetParam() != kCpu) return;  // Predicates are in host memory; this is about dead values.
  const Output rate = s.Constant(1.0f);
  const Output p = Placeholder("p", PartialShape({}), kBool);
  const Output g = s.Constant(Numbers({3}, 4));
  const std::vector<Output> branches = s.CallMulti("Switch", {g, p});
  s.WithOpName("always").AddNode("ResourceApplyGradientDescent",
                                 {Variable("a", Numbers({3}, 1)), rate, g});
  s.WithOpName("sometimes")
      .AddNode("ResourceApplyGradientDescent", {Variable("b", Numbers({3}, 2)), rate, branches[1]});
  OpenAndInitialize();
  for (const bool taken : {false, true}) {
    Run({{"p", Tensor::Scalar<bool>(taken)}}, {}, {"always", "sometimes"});
    EXPECT_EQ(Count("ResourceApplyGradientDescent"), taken ? 2 : 1);
    EXPECT_EQ(Count("_TandemApplyManyGradientDescent"), 0);
    ExpectSameVariables();
  }
}

TEST_P(FuseUpdatesTest, StepsAtOnceLoseNoUpdate) {
  const Output rate = s.Constant(1.0f);
  std::vector<Node*> updates;
  std::vector<std::string> reads;
  for (int i = 0; i < 60; ++i) {
    const std::string name = "v" + std::to_string(i);
    const Output v = Variable(name, Tensor::Zeros(kFloat32, {100}));
    Tensor ones(kFloat32, {100});
    for (float& x : ones.MutableElements<float>()) x = 1;
    updates.push_back(s.AddNode("ResourceApplyGradientDescent", {v, rate, ones}));
    reads.push_back("read_" + name);
  }
  Train(updates);
  OpenAndInitialize();
  constexpr int kThreads = 4;
  constexpr int kSteps = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kSteps; ++i) EXPECT_TRUE(fused().Run({}, reads, {"train"}).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto results = fused().Run({}, reads);
  ASSERT_TRUE(results.ok()) << results.status();
  for (const Tensor& value : *results) {
    for (const float x : value.Elements<float>()) ASSERT_EQ(x, -kThreads * kSteps);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FuseUpdatesTest, ::testing::Values(kCpu, kSim));

}  // namespace
}  // namespace tandem
