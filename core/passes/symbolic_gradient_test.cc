// What SymbolicGradient answers for functions is compared with TensorFlow in tests/golden; here are
// the ways to name a gradient, and mistakes.
#include "core/passes/symbolic_gradient.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

const std::vector<DataType> kOne = {kFloat32};

void DefineUnary(const Scope& scope, const std::string& name, const std::vector<std::string>& ops) {
  const Scope inside = Scope::NewRoot();
  Output value = FunctionArg(inside, 0, kFloat32);
  for (const std::string& op : ops) value = inside.Call(op, {value});
  FunctionResult(inside, 0, value);
  ASSERT_TRUE(inside.ok()) << inside.status();
  ASSERT_TRUE(DefineFunction(name, *inside.graph(), {}, &scope.graph()->functions()).ok());
}

absl::StatusOr<std::vector<Tensor>> FetchGradient(const Scope& scope) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(*scope.graph()));
  return session->Run({}, {"dx"});
}

TEST(SymbolicGradient, OfAnOp) {
  const Scope scope = Scope::NewRoot();
  scope.WithOpName("dx").CallMulti(
      "SymbolicGradient", {3.f, 4.f, 10.f},
      {{"Tout", std::vector<DataType>{kFloat32, kFloat32}}, {"f", FunctionRef{"Mul", {}}}});
  const auto result = FetchGradient(scope);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].ScalarValue<float>(), 40.f);
}

TEST(SymbolicGradient, OfAFunctionThatNamesItsGradientIsThat) {
  const Scope scope = Scope::NewRoot();
  DefineUnary(scope, "f", {"Square"});
  // (x, dy) → x + dy, which is not the derivative.
  const Scope inside = Scope::NewRoot();
  const Output x = FunctionArg(inside, 0, kFloat32);
  FunctionResult(inside, 0, inside.Call("AddV2", {x, FunctionArg(inside, 1, kFloat32)}));
  FunctionLibrary& functions = scope.graph()->functions();
  ASSERT_TRUE(DefineFunction("f_gradient", *inside.graph(), {}, &functions).ok());
  ASSERT_TRUE(functions.SetGradient("f", "f_gradient").ok());
  scope.WithOpName("dx").Call("SymbolicGradient", {3.f, 10.f},
                              {{"Tout", kOne}, {"f", FunctionRef{"f", {}}}});
  const auto result = FetchGradient(scope);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].ScalarValue<float>(), 13.f);
}

TEST(SymbolicGradient, CompilingAgainAddsNoFunctions) {
  const Scope scope = Scope::NewRoot();
  DefineUnary(scope, "f", {"Square"});
  const Output dx = scope.WithOpName("dx").Call("SymbolicGradient", {3.f, 10.f},
                                                {{"Tout", kOne}, {"f", FunctionRef{"f", {}}}});
  scope.WithOpName("other").Call("Neg", {dx});
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto session = Session::Create(*scope.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({}, {"dx"}).ok());
  const size_t count = scope.graph()->functions().Names().size();
  ASSERT_TRUE((*session)->Run({}, {"other"}).ok());
  EXPECT_EQ(scope.graph()->functions().Names().size(), count);
}

absl::Status ErrorOf(const Scope& scope, const InputList& inputs, const std::string& function) {
  scope.WithOpName("dx").CallMulti("SymbolicGradient", inputs,
                                   {{"Tout", kOne}, {"f", FunctionRef{function, {}}}});
  return FetchGradient(scope).status();
}

TEST(SymbolicGradient, NamesAFunctionThatIsMissing) {
  const absl::Status status = ErrorOf(Scope::NewRoot(), {3.f, 10.f}, "nowhere");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "nowhere")) << status;
}

TEST(SymbolicGradient, RefusesAnotherNumberOfGradients) {
  const Scope scope = Scope::NewRoot();
  DefineUnary(scope, "f", {"Square"});
  const absl::Status status = ErrorOf(scope, {3.f, 10.f, 10.f}, "f");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(SymbolicGradient, NamesTheNodeThatHasNoGradient) {
  const Scope scope = Scope::NewRoot();
  DefineUnary(scope, "f", {"Square", "PreventGradient"});
  const absl::Status status = ErrorOf(scope, {3.f, 10.f}, "f");
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(absl::StrContains(status.message(), "'PreventGradient'")) << status;
}

}  // namespace
}  // namespace tandem
