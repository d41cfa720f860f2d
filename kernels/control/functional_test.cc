// Calls, conditionals and loops over functions, in sessions. What TensorFlow answers is compared in
// tests/golden, and cancellation in tests/cancellation.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

using Body = std::function<std::vector<Output>(const Scope&, const std::vector<Output>&)>;

FunctionRef Define(const Scope& scope, const std::string& name, const std::vector<DataType>& args,
                   const Body& body) {
  Scope inside = Scope::NewRoot();
  std::vector<Output> values;
  for (size_t i = 0; i < args.size(); ++i) {
    values.push_back(FunctionArg(inside, static_cast<int>(i), args[i]));
  }
  const std::vector<Output> results = body(inside, values);
  for (size_t i = 0; i < results.size(); ++i) {
    FunctionResult(inside, static_cast<int>(i), results[i]);
  }
  EXPECT_TRUE(inside.ok()) << inside.status();
  const absl::Status status =
      DefineFunction(name, *inside.graph(), {}, &scope.graph()->functions());
  EXPECT_TRUE(status.ok()) << status;
  return FunctionRef{name, {}};
}

const std::vector<DataType> kOneFloat = {kFloat32};

Output Placeholder(const Scope& scope, const std::string& name, DataType dtype = kFloat32) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", dtype}, {"shape", PartialShape({})}});
}

std::unique_ptr<Session> Open(const Scope& scope) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*scope.graph());
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

float Fetch(Session& session, const Session::Feeds& feeds, const std::string& name) {
  const auto results = session.Run(feeds, {name});
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? (*results)[0].ScalarValue<float>() : -12345.f;
}

std::vector<Output> Square(const Scope& s, const std::vector<Output>& args) {
  return {s.Call("Mul", {args[0], args[0]})};
}

TEST(Call, AFunctionMayCallItself) {
  Scope s = Scope::NewRoot();
  Define(s, "one", kOneFloat, [](const Scope& in, const std::vector<Output>&) {
    return std::vector<Output>{in.Constant(1.0f)};
  });
  Define(s, "times_rest", kOneFloat, [](const Scope& in, const std::vector<Output>& args) {
    const Output rest = in.Call("PartitionedCall", {in.Call("Sub", {args[0], 1.0f})},
                                {{"f", FunctionRef{"factorial", {}}}, {"Tout", kOneFloat}});
    return std::vector<Output>{in.Call("Mul", {args[0], rest})};
  });
  Define(s, "factorial", kOneFloat, [](const Scope& in, const std::vector<Output>& args) {
    return std::vector<Output>{in.Call("StatelessIf", {in.Call("Less", {args[0], 2.0f}), args[0]},
                                       {{"then_branch", FunctionRef{"one", {}}},
                                        {"else_branch", FunctionRef{"times_rest", {}}},
                                        {"Tout", kOneFloat}})};
  });
  s.WithOpName("y").Call("PartitionedCall", {Placeholder(s, "x")},
                         {{"f", FunctionRef{"factorial", {}}}, {"Tout", kOneFloat}});
  auto session = Open(s);
  EXPECT_EQ(Fetch(*session, {{"x", Tensor::Scalar<float>(5)}}, "y"), 120);
  EXPECT_EQ(Fetch(*session, {{"x", Tensor::Scalar<float>(1)}}, "y"), 1);
}

TEST(Call, NamesAFunctionThatIsMissing) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("PartitionedCall", {1.0f},
                         {{"f", FunctionRef{"nowhere", {}}}, {"Tout", kOneFloat}});
  const auto results = Open(s)->Run({}, {"y"});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kNotFound) << results.status();
  EXPECT_TRUE(absl::StrContains(results.status().message(), "nowhere")) << results.status();
}

TEST(Call, RefusesResultsOfOtherNumberAndType) {
  Scope s = Scope::NewRoot();
  const FunctionRef square = Define(s, "square", kOneFloat, Square);
  s.WithOpName("two").CallMulti(
      "PartitionedCall", {1.0f},
      {{"f", square}, {"Tout", std::vector<DataType>{kFloat32, kFloat32}}});
  s.WithOpName("whole").Call("PartitionedCall", {1.0f},
                             {{"f", square}, {"Tout", std::vector<DataType>{kInt32}}});
  auto session = Open(s);
  EXPECT_EQ(session->Run({}, {"two"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(session->Run({}, {"whole"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(While, GoesRoundManyTimesWithoutNesting) {
  Scope s = Scope::NewRoot();
  const FunctionRef cond =
      Define(s, "cond", {kInt32}, [](const Scope& in, const std::vector<Output>& args) {
        return std::vector<Output>{in.Call("Less", {args[0], 100000})};
      });
  const FunctionRef body =
      Define(s, "body", {kInt32}, [](const Scope& in, const std::vector<Output>& args) {
        return std::vector<Output>{in.Call("AddV2", {args[0], 1})};
      });
  s.WithOpName("y").Call("While", {0}, {{"cond", cond}, {"body", body}});
  const auto results = Open(s)->Run({}, {"y"});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].ScalarValue<int32_t>(), 100000);
}

TEST(While, EndsWhenItsFunctionsComputeNothing) {
  Scope s = Scope::NewRoot();
  const auto same = [](const Scope&, const std::vector<Output>& args) { return args; };
  const FunctionRef loop = Define(s, "same", {kBool}, same);
  s.WithOpName("y").Call("While", {Placeholder(s, "go", kBool)}, {{"cond", loop}, {"body", loop}});
  auto session = Open(s);
  EXPECT_TRUE(session->Run({{"go", Tensor::Scalar<bool>(false)}}, {"y"}).ok());
  CancellationManager cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  std::thread canceller([&] { cancellation.Cancel(absl::AbortedError("enough")); });
  const auto results =
      session->Run(options, {{"go", Tensor::Scalar<bool>(true)}}, {"y"}, {}, nullptr);
  canceller.join();
  EXPECT_EQ(results.status().code(), absl::StatusCode::kAborted) << results.status();
}

TEST(While, RefusesABodyOfOtherResults) {
  Scope s = Scope::NewRoot();
  const FunctionRef cond =
      Define(s, "cond", {kInt32}, [](const Scope& in, const std::vector<Output>&) {
        return std::vector<Output>{in.Constant(true)};
      });
  const FunctionRef body =
      Define(s, "body", {kInt32}, [](const Scope&, const std::vector<Output>& args) {
        return std::vector<Output>{args[0], args[0]};
      });
  s.WithOpName("y").Call("While", {0}, {{"cond", cond}, {"body", body}});
  const auto results = Open(s)->Run({}, {"y"});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument) << results.status();
}

// Adds "dx", the gradient of `y` with respect to `x`.
void AddGradient(const Scope& s, const Output& y, const Output& x, const std::string& name = "dx") {
  ASSERT_TRUE(s.ok()) << s.status();
  const auto gradients = AddGradients(s.graph(), {y}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_TRUE((*gradients)[0].exists());
  s.WithOpName(name).Call("Identity", {(*gradients)[0].values});
}

TEST(Gradient, OfACallIsACall) {
  Scope s = Scope::NewRoot();
  const FunctionRef square = Define(s, "square", kOneFloat, Square);
  const Output x = Placeholder(s, "x");
  const Output y = s.Call("PartitionedCall", {x}, {{"f", square}, {"Tout", kOneFloat}});
  const Output z = s.Call("PartitionedCall", {y}, {{"f", square}, {"Tout", kOneFloat}});
  AddGradient(s, z, x);
  EXPECT_EQ(Fetch(*Open(s), {{"x", Tensor::Scalar<float>(3)}}, "dx"), 4 * 27);
}

TEST(Gradient, OfAConditionalIsThatOfTheBranchTaken) {
  Scope s = Scope::NewRoot();
  const std::vector<DataType> two = {kFloat32, kFloat32};
  const FunctionRef square = Define(s, "square", two, Square);  // Of the first argument only.
  const FunctionRef product =
      Define(s, "product", two, [](const Scope& in, const std::vector<Output>& args) {
        return std::vector<Output>{in.Call("Mul", {args[0], args[1]})};
      });
  const Output x = Placeholder(s, "x");
  const Output w = Placeholder(s, "w");
  const Output y = s.Call("If", {Placeholder(s, "c", kBool), x, w},
                          {{"then_branch", square}, {"else_branch", product}, {"Tout", kOneFloat}});
  AddGradient(s, y, x, "dx");
  AddGradient(s, y, w, "dw");
  const Output chosen =
      s.Call("Case", {Placeholder(s, "i", kInt32), x, w},
             {{"branches", std::vector<FunctionRef>{square, product}}, {"Tout", kOneFloat}});
  AddGradient(s, chosen, x, "dx_of_case");
  auto session = Open(s);
  Session::Feeds feeds = {{"x", Tensor::Scalar<float>(3)},
                          {"w", Tensor::Scalar<float>(5)},
                          {"c", Tensor::Scalar<bool>(true)},
                          {"i", Tensor::Scalar<int32_t>(1)}};
  EXPECT_EQ(Fetch(*session, {feeds[0], feeds[1], feeds[2]}, "dx"), 6);
  EXPECT_EQ(Fetch(*session, {feeds[0], feeds[1], feeds[2]}, "dw"), 0);
  EXPECT_EQ(Fetch(*session, {feeds[0], feeds[1], feeds[3]}, "dx_of_case"), 5);
  feeds[2].second = Tensor::Scalar<bool>(false);
  EXPECT_EQ(Fetch(*session, {feeds[0], feeds[1], feeds[2]}, "dx"), 5);
  EXPECT_EQ(Fetch(*session, {feeds[0], feeds[1], feeds[2]}, "dw"), 3);
}

TEST(Gradient, ReachesTheVariablesThatAFunctionReads) {
  Scope s = Scope::NewRoot();
  const FunctionRef times = Define(
      s, "times", {kFloat32, kResource}, [](const Scope& in, const std::vector<Output>& args) {
        const Output w = in.Call("ReadVariableOp", {args[1]}, {{"dtype", kFloat32}});
        return std::vector<Output>{in.Call("Mul", {args[0], in.Call("Mul", {w, w})})};
      });
  const Output w =
      s.WithOpName("w").Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("init").AddNode("AssignVariableOp", {w, 4.0f});
  const Output y = s.Call("StatefulPartitionedCall", {Placeholder(s, "x"), w},
                          {{"f", times}, {"Tout", kOneFloat}});
  AddGradient(s, y, w);
  auto session = Open(s);
  ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
  EXPECT_EQ(Fetch(*session, {{"x", Tensor::Scalar<float>(3)}}, "dx"), 24);
}

TEST(Gradient, WhatMustRunOnceRunsOnce) {
  Scope s = Scope::NewRoot();
  const FunctionRef noisy =
      Define(s, "noisy", kOneFloat, [](const Scope& in, const std::vector<Output>& args) {
        const Output noise = in.WithOpName("noise").Call(
            "RandomUniform", {in.Call("Shape", {args[0]})}, {{"dtype", kFloat32}});
        return std::vector<Output>{in.Call("Mul", {args[0], noise})};
      });
  const Output x = Placeholder(s, "x");
  const Output y =
      s.WithOpName("y").Call("StatefulPartitionedCall", {x}, {{"f", noisy}, {"Tout", kOneFloat}});
  AddGradient(s, y, x);
  const auto results = Open(s)->Run({{"x", Tensor::Scalar<float>(2)}}, {"y", "dx"});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_NE((*results)[1].ScalarValue<float>(), 0);
  EXPECT_EQ((*results)[0].ScalarValue<float>(), 2 * (*results)[1].ScalarValue<float>());
}

}  // namespace
}  // namespace tandem
