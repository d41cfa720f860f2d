// A call gives the same whether it is made or its body stands in its place.
#include "core/passes/inline_call.h"

#include "absl/strings/match.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

// x + factor, computed on `device`; before that the counter, which is the first argument, goes up.
void Define(Graph& graph, const std::string& name, float addend, const std::string& device) {
  Scope body = Scope::NewRoot();
  const Output counter = FunctionArg(body.WithOpName("counter"), 0, kResource);
  const Output x = FunctionArg(body.WithOpName("x"), 1, kFloat32);
  Node* const count = body.WithOpName("count").AddNode("AssignAddVariableOp", {counter, 1.0f});
  const Output sum = body.WithOpName("sum").WithDevice(device).Call("Add", {x, addend});
  FunctionResult(body.WithOpName("result"), 0, sum);
  FunctionResult(body.WithOpName("same"), 1, x);
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_TRUE(DefineFunction(name, *body.graph(), {count}, &graph.functions()).ok());
}

class InlineCallTest : public ::testing::Test {
 protected:
  InlineCallTest() {
    Define(*s_.graph(), "plus_two", 2, "/device:CPU:1");
    Define(*s_.graph(), "plus_five", 5, "");
    const std::vector<DataType> results = {kFloat32, kFloat32};
    const Output counter = s_.WithOpName("counter").Call(
        "VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
    s_.WithOpName("set").AddNode("AssignVariableOp", {counter, 0.0f});
    const Output x = s_.WithOpName("x").Call("Placeholder", {},
                                             {{"dtype", kFloat32}, {"shape", PartialShape({})}});
    const Output p =
        s_.WithOpName("p").Call("Placeholder", {}, {{"dtype", kBool}, {"shape", PartialShape({})}});
    call_ = s_.WithOpName("call").AddNode("StatefulPartitionedCall", {counter, x},
                                          {{"f", FunctionRef{"plus_two", {}}}, {"Tout", results}});
    if_ = s_.WithOpName("if").AddNode("If", {p, counter, Output(call_, 0)},
                                      {{"Tout", results},
                                       {"then_branch", FunctionRef{"plus_two", {}}},
                                       {"else_branch", FunctionRef{"plus_five", {}}}});
    s_.WithOpName("y").Call("AddN", {{Output(if_, 0), Output(if_, 1), Output(call_, 1)}});
    s_.WithOpName("after").WithControlDependencies({if_}).Call("ReadVariableOp", {counter},
                                                               {{"dtype", kFloat32}});
    EXPECT_TRUE(s_.ok()) << s_.status();
  }

  // y, and how many functions had run when the conditional was over.
  std::pair<float, float> Run(bool taken) {
    SessionOptions options;
    options.devices = *DeviceSet::Create({{"CPU", 2}});
    const auto session = Session::Create(*s_.graph(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    EXPECT_TRUE((*session)->Run({}, {}, {"set"}).ok());
    const auto results = (*session)->Run(
        {{"x", Tensor::Scalar<float>(10)}, {"p", Tensor::Scalar<bool>(taken)}}, {"y", "after"});
    EXPECT_TRUE(results.ok()) << results.status();
    if (!results.ok()) return {};
    return {(*results)[0].ScalarValue<float>(), (*results)[1].ScalarValue<float>()};
  }

  Scope s_ = Scope::NewRoot();
  Node* call_ = nullptr;
  Node* if_ = nullptr;
};

TEST_F(InlineCallTest, ResultsAndEffectsStay) {
  const auto taken = Run(true);
  const auto not_taken = Run(false);
  EXPECT_EQ(taken, std::make_pair(36.f, 2.f));
  EXPECT_EQ(not_taken, std::make_pair(39.f, 2.f));
  ASSERT_TRUE(CanInlineCall(*call_) && CanInlineCall(*if_));
  for (Node* node : {if_, call_}) {
    const absl::Status status = InlineCall(node, "/device:CPU:0", *s_.graph());
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(s_.graph()->FindNode("call"), nullptr);
  EXPECT_EQ(s_.graph()->FindNode("if"), nullptr);
  EXPECT_EQ(s_.graph()->GetNode("call/sum").value()->requested_device(), "/device:CPU:1");
  EXPECT_EQ(s_.graph()->GetNode("if/else/sum").value()->requested_device(), "/device:CPU:0");
  // Who is given a handle wishes nothing.
  EXPECT_EQ(s_.graph()->GetNode("if/then/count").value()->requested_device(), "");
  EXPECT_EQ(Run(true), taken);
  EXPECT_EQ(Run(false), not_taken);
}

TEST_F(InlineCallTest, AFunctionThatIsNotThereIsAnError) {
  s_.graph()->SetAttr(call_, "f", FunctionRef{"nobody", {}});
  EXPECT_EQ(InlineCall(call_, "", *s_.graph()).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem
