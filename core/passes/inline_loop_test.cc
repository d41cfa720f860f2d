// Loops and branches give the same whether their functions are called or stand in their place.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/passes/inline_call.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

using Values = std::vector<Output>;
using Body = std::function<Values(const Scope&, const Values&)>;

class InlineLoopTest : public ::testing::Test {
 protected:
  // `effects`: nodes that run although no result depends on them.
  FunctionRef Define(const std::string& name, const std::vector<DataType>& args, const Body& body,
                     const std::vector<std::string>& effects = {}) {
    Scope inside = Scope::NewRoot();
    Values values;
    for (size_t i = 0; i < args.size(); ++i) {
      values.push_back(FunctionArg(inside, static_cast<int>(i), args[i]));
    }
    const Values results = body(inside, values);
    EXPECT_TRUE(inside.ok()) << inside.status();
    for (size_t i = 0; i < results.size(); ++i) {
      FunctionResult(inside, static_cast<int>(i), results[i]);
    }
    std::vector<Node*> run;
    for (const std::string& effect : effects) run.push_back(inside.graph()->FindNode(effect));
    const absl::Status status =
        DefineFunction(name, *inside.graph(), run, &s_.graph()->functions());
    EXPECT_TRUE(status.ok()) << status;
    return {name, {}};
  }

  Output Placeholder(const std::string& name, DataType dtype) {
    return s_.WithOpName(name).Call("Placeholder", {},
                                    {{"dtype", dtype}, {"shape", PartialShape({})}});
  }

  std::vector<Tensor> Run(const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                          const std::string& before = "") {
    SessionOptions options;
    options.devices = *DeviceSet::Create({{"CPU", 2}});
    const auto session = Session::Create(*s_.graph(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return {};
    if (!before.empty()) {
      EXPECT_TRUE((*session)->Run({}, {}, {before}).ok());
    }
    auto results = (*session)->Run(feeds, fetches);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *std::move(results) : std::vector<Tensor>();
  }

  // Replaces all calls, those that come to light by it too.
  void InlineAll() {
    for (bool found = true; found;) {
      found = false;
      for (Node* node : s_.graph()->nodes()) {
        if (!CanInlineCall(*node)) continue;
        const absl::Status status = InlineCall(node, "/device:CPU:0", *s_.graph());
        ASSERT_TRUE(status.ok()) << status;
        found = true;
        break;
      }
    }
  }

  // Before and after.
  void Check(const std::vector<Session::Feeds>& runs, const std::vector<std::string>& fetches,
             const std::string& before = "") {
    ASSERT_TRUE(s_.ok()) << s_.status();
    std::vector<std::vector<Tensor>> wanted;
    for (const Session::Feeds& feeds : runs) wanted.push_back(Run(feeds, fetches, before));
    InlineAll();
    for (size_t r = 0; r < runs.size(); ++r) {
      const std::vector<Tensor> found = Run(runs[r], fetches, before);
      ASSERT_EQ(found.size(), fetches.size());
      ASSERT_EQ(wanted[r].size(), fetches.size());
      for (size_t i = 0; i < fetches.size(); ++i) {
        EXPECT_EQ(AttrValue(found[i]), AttrValue(wanted[r][i])) << fetches[i] << ", run " << r;
      }
    }
  }

  static Session::Feeds Number(const std::string& name, int value) {
    return {{name, Tensor::Scalar<int32_t>(value)}};
  }

  Scope s_ = Scope::NewRoot();
};

TEST_F(InlineLoopTest, ValuesGoRound) {
  const std::vector<DataType> types = {kInt32, kFloat32, kFloat32, kInt32};
  const FunctionRef cond = Define("cond", types, [](const Scope& in, const Values& v) -> Values {
    return {in.Call("Less", {v[0], v[3]})};
  });
  // Two values change places, and one stays.
  const FunctionRef body = Define("body", types, [](const Scope& in, const Values& v) -> Values {
    return {in.Call("AddV2", {v[0], 1}), v[2],
            in.WithDevice("/device:CPU:1").Call("Mul", {v[1], 2.f}), v[3]};
  });
  const Output n = Placeholder("n", kInt32);
  s_.WithOpName("loop").CallMulti("While", {0, 1.0f, 3.0f, n}, {{"cond", cond}, {"body", body}});
  ASSERT_TRUE(s_.ok()) << s_.status();
  for (int i = 0; i < 4; ++i) {
    s_.WithOpName("y" + std::to_string(i))
        .Call("Identity", {Output(s_.graph()->FindNode("loop"), i)});
  }
  Check({Number("n", 0), Number("n", 1), Number("n", 5), Number("n", 300)},
        {"y0", "y1", "y2", "y3"});
}

// The counter in the variable is read, and goes up, in every round; and the loop goes on while it
// is small. Nothing but the variable goes round.
TEST_F(InlineLoopTest, EffectsOfARoundComeBeforeTheNextOne) {
  const std::vector<DataType> types = {kResource};
  const AttrMap of_float = {{"dtype", kFloat32}};
  const FunctionRef cond = Define("cond", types, [&](const Scope& in, const Values& v) -> Values {
    return {in.Call("Less", {in.Call("ReadVariableOp", {v[0]}, of_float), 20.0f})};
  });
  const FunctionRef body = Define(
      "body", types,
      [&](const Scope& in, const Values& v) -> Values {
        const Output read = in.Call("ReadVariableOp", {v[0]}, of_float);
        in.WithOpName("write").AddNode("AssignVariableOp", {v[0], in.Call("Mul", {read, 2.0f})});
        return {v[0]};
      },
      {"write"});
  const Output variable = s_.WithOpName("v").Call(
      "VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s_.WithOpName("set").AddNode("AssignVariableOp", {variable, 3.0f});
  Node* const loop =
      s_.WithOpName("loop").AddNode("While", {variable}, {{"cond", cond}, {"body", body}});
  ASSERT_TRUE(s_.ok()) << s_.status();
  s_.WithOpName("after").WithControlDependencies({loop}).Call("ReadVariableOp", {variable},
                                                              of_float);
  s_.WithOpName("through").Call("ReadVariableOp", {Output(loop, 0)}, of_float);
  Check({{}}, {"after", "through"}, "set");
  const std::vector<Tensor> found = Run({}, {"after"}, "set");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ScalarValue<float>(), 24);
}

TEST_F(InlineLoopTest, LoopsAndBranchesNest) {
  const std::vector<DataType> two = {kInt32, kInt32};
  const std::vector<DataType> one = {kInt32};
  const FunctionRef less = Define("less", two, [](const Scope& in, const Values& v) -> Values {
    return {in.Call("Less", {v[0], v[1]})};
  });
  const FunctionRef inner = Define("inner", two, [](const Scope& in, const Values& v) -> Values {
    return {in.Call("AddV2", {v[0], 3}), v[1]};
  });
  const FunctionRef thrice = Define("thrice", one, [](const Scope& in, const Values& v) -> Values {
    return {in.Call("Mul", {v[0], 3})};
  });
  const FunctionRef five = Define(
      "five", one, [](const Scope& in, const Values&) -> Values { return {in.Constant(5)}; });
  const FunctionRef minus = Define("minus", one, [&](const Scope& in, const Values& v) -> Values {
    // A loop in a branch of a loop.
    return {in.CallMulti("StatelessWhile", {in.Call("Neg", {v[0]}), v[0]},
                         {{"cond", less}, {"body", inner}})[0]};
  });
  const FunctionRef outer = Define("outer", two, [&](const Scope& in, const Values& v) -> Values {
    const Output branch = in.Call("FloorMod", {v[0], 4});
    const Output chosen =
        in.Call("Case", {branch, v[0]},
                {{"branches", std::vector<FunctionRef>{thrice, five, minus}}, {"Tout", one}});
    const Output plus = in.Call("StatelessIf", {branch, chosen},
                                {{"then_branch", five}, {"else_branch", thrice}, {"Tout", one}});
    return {in.Call("AddV2", {v[0], in.Call("AddV2", {in.Call("FloorMod", {plus, 7}), 1})}), v[1]};
  });
  const Output n = Placeholder("n", kInt32);
  const Values results = s_.CallMulti("While", {1, n}, {{"cond", less}, {"body", outer}});
  ASSERT_EQ(results.size(), 2u) << s_.status();
  s_.WithOpName("y").Call("Identity", {results[0]});
  Check({Number("n", 0), Number("n", 2), Number("n", 10), Number("n", 100)}, {"y"});
}

TEST_F(InlineLoopTest, ACaseOutOfRangeTakesTheLastBranch) {
  std::vector<FunctionRef> branches;
  for (const int factor : {10, 100, 1000}) {
    branches.push_back(Define("times" + std::to_string(factor), {kInt32},
                              [=](const Scope& in, const Values& v) -> Values {
                                return {in.Call("Mul", {v[0], factor})};
                              }));
  }
  const Output n = Placeholder("n", kInt32);
  s_.WithOpName("y").Call(
      "Identity", {s_.Call("StatelessCase", {n, n},
                           {{"branches", branches}, {"Tout", std::vector<DataType>{kInt32}}})});
  Check({Number("n", 0), Number("n", 1), Number("n", 2), Number("n", 3), Number("n", -1)}, {"y"});
}

// Numbers and texts count as conditions.
TEST_F(InlineLoopTest, ConditionsNeedNotBeBool) {
  const FunctionRef same =
      Define("same", {kInt32}, [](const Scope&, const Values& v) { return v; });
  const FunctionRef down = Define("down", {kInt32}, [](const Scope& in, const Values& v) -> Values {
    return {in.Call("Sub", {v[0], 1})};
  });
  const Output n = Placeholder("n", kInt32);
  const Output end = s_.Call("StatelessWhile", {n}, {{"cond", same}, {"body", down}});
  s_.WithOpName("end").Call("Identity", {end});
  const Output chosen = s_.Call(
      "If", {n, n},
      {{"then_branch", down}, {"else_branch", same}, {"Tout", std::vector<DataType>{kInt32}}});
  s_.WithOpName("chosen").Call("Identity", {chosen});
  Check({Number("n", 0), Number("n", 4)}, {"end", "chosen"});
}

TEST_F(InlineLoopTest, ALoopThatExchangesHandlesIsRefused) {
  const std::vector<DataType> types = {kResource, kResource};
  const FunctionRef cond = Define("cond", types, [](const Scope& in, const Values& v) -> Values {
    return {in.Call("ReadVariableOp", {v[0]}, {{"dtype", kBool}})};
  });
  const FunctionRef body = Define("body", types, [](const Scope&, const Values& v) -> Values {
    return {v[1], v[0]};
  });
  const AttrMap of_bool = {{"dtype", kBool}, {"shape", PartialShape({})}};
  const Output a = s_.Call("VarHandleOp", {}, of_bool);
  const Output b = s_.Call("VarHandleOp", {}, of_bool);
  Node* const loop =
      s_.WithOpName("loop").AddNode("While", {a, b}, {{"cond", cond}, {"body", body}});
  ASSERT_TRUE(s_.ok()) << s_.status();
  const absl::Status status = InlineCall(loop, "", *s_.graph());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(status.message(), "'loop'")) << status;
}

TEST_F(InlineLoopTest, ABodyOfAnotherSizeIsRefused) {
  const FunctionRef cond = Define("cond", {kBool}, [](const Scope&, const Values& v) { return v; });
  const FunctionRef body = Define("body", {kBool}, [](const Scope&, const Values& v) -> Values {
    return {v[0], v[0]};
  });
  Node* const loop = s_.AddNode("While", {true}, {{"cond", cond}, {"body", body}});
  ASSERT_TRUE(s_.ok()) << s_.status();
  EXPECT_EQ(InlineCall(loop, "", *s_.graph()).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
