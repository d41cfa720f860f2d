// Where random ops stand that go on from run to run: at the top of a graph, in functions, in loops.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Positions = std::vector<std::pair<std::string, Tensor>>;

Output Uniform(const Scope& scope, int64_t seed) {
  return scope.WithOpName("uniform").Call(
      "RandomUniform", {Tensor::Vector<int32_t>({2})},
      {{"dtype", kFloat32}, {"seed", seed}, {"seed2", int64_t{1}}});
}

void Define(const Scope& scope, const std::string& name, DataType argument,
            const std::function<std::vector<Output>(const Scope&, Output)>& body) {
  const Scope inside = Scope::NewRoot();
  const Output x = FunctionArg(inside.WithOpName("x"), 0, argument);
  int index = 0;
  for (const Output& result : body(inside, x)) FunctionResult(inside, index++, result);
  ASSERT_TRUE(inside.ok()) << inside.status();
  const absl::Status defined =
      DefineFunction(name, *inside.graph(), {}, &scope.graph()->functions());
  ASSERT_TRUE(defined.ok()) << defined;
}

// "top" draws at the top, "called" in a function, "nested" in one that another calls, "looped" in
// the body of a loop of three rounds.
Scope Graph() {
  const Scope s = Scope::NewRoot();
  const std::vector<DataType> floats = {kFloat32};
  Define(s, "draw", kFloat32, [](const Scope& in, Output x) -> std::vector<Output> {
    return {in.Call("AddV2", {x, Uniform(in, 2)})};
  });
  Define(s, "outer", kFloat32, [&](const Scope& in, Output x) -> std::vector<Output> {
    return {in.Call("StatefulPartitionedCall", {in.Call("Mul", {x, 2.0f})},
                    {{"f", FunctionRef{"inner", {}}}, {"Tin", floats}, {"Tout", floats}})};
  });
  Define(s, "inner", kFloat32, [](const Scope& in, Output x) -> std::vector<Output> {
    return {in.Call("AddV2", {x, Uniform(in, 3)})};
  });
  Define(s, "below_three", kFloat32, [](const Scope& in, Output x) -> std::vector<Output> {
    const Output first =
        in.Call("Reshape",
                {in.Call("Slice", {x, Tensor::Vector<int32_t>({0}), Tensor::Vector<int32_t>({1})}),
                 Tensor::Zeros(kInt32, Shape({0}))});
    return {in.Call("Less", {first, 3.0f})};
  });
  Define(s, "round", kFloat32, [](const Scope& in, Output x) -> std::vector<Output> {
    const Output noise = in.Call("Mul", {Uniform(in, 4), Tensor::Vector<float>({0, 1})});
    return {in.Call("AddV2", {in.Call("AddV2", {x, Tensor::Vector<float>({1, 0})}), noise})};
  });
  const Tensor zeros = Tensor::Vector<float>({0, 0});
  s.WithOpName("top").Call("Identity", {Uniform(s, 1)});
  s.WithOpName("called").Call("StatefulPartitionedCall", {zeros},
                              {{"f", FunctionRef{"draw", {}}}, {"Tin", floats}, {"Tout", floats}});
  s.WithOpName("nested").Call("StatefulPartitionedCall", {zeros},
                              {{"f", FunctionRef{"outer", {}}}, {"Tin", floats}, {"Tout", floats}});
  s.WithOpName("looped").Call("While", {zeros},
                              {{"T", floats},
                               {"cond", FunctionRef{"below_three", {}}},
                               {"body", FunctionRef{"round", {}}}});
  return s;
}

std::unique_ptr<Session> Open(const Scope& scope) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*scope.graph());
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

const std::vector<std::string> kDraws = {"top", "called", "nested", "looped"};

// What all four give.
std::vector<float> Draw(Session& session, const std::vector<std::string>& names = kDraws) {
  std::vector<float> drawn;
  const auto results = session.Run({}, names);
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok()) return drawn;
  for (const Tensor& result : *results) {
    for (const float value : result.Elements<float>()) drawn.push_back(value);
  }
  return drawn;
}

TEST(RandomPositions, OfOpsInFunctionsAreSavedAndRestored) {
  const Scope scope = Graph();
  const auto first = Open(scope);
  for (int i = 0; i < 3; ++i) Draw(*first);
  const Positions positions = first->RandomPositions();
  ASSERT_EQ(positions.size(), 4u);
  EXPECT_EQ(positions[0].first, "uniform");
  EXPECT_THAT(positions[1].first, HasSubstr("draw@/job:localhost"));
  EXPECT_THAT(positions[2].first, HasSubstr("inner@"));
  EXPECT_THAT(positions[3].first, HasSubstr("round@"));
  const std::vector<float> fourth = Draw(*first);

  // One whose functions were compiled, at other places.
  const auto used = Open(scope);
  EXPECT_NE(Draw(*used), fourth);
  for (const auto& [node, position] : positions) {
    ASSERT_TRUE(used->SetRandomPosition(node, position).ok()) << node;
  }
  EXPECT_EQ(Draw(*used), fourth);

  // One that has not called them yet, as in a process that was just started.
  const auto fresh = Open(scope);
  ASSERT_TRUE(fresh->MakeCallable({{}, kDraws, {}}).ok());
  for (const auto& [node, position] : positions) {
    ASSERT_TRUE(fresh->SetRandomPosition(node, position).ok()) << node;
  }
  EXPECT_EQ(fresh->RandomPositions().size(), 4u);
  EXPECT_EQ(Draw(*fresh), fourth);
  EXPECT_EQ(Draw(*fresh), Draw(*first));
}

TEST(RandomPositions, ThatAreNotUsedYetAreSavedAgain) {
  const Scope scope = Graph();
  const auto first = Open(scope);
  Draw(*first, {"called"});
  Draw(*first, {"nested"});
  const Positions before = first->RandomPositions();
  const std::vector<float> next = Draw(*first, {"nested"});
  const auto second = Open(scope);
  for (const auto& [node, position] : before) {
    ASSERT_TRUE(second->SetRandomPosition(node, position).ok());
  }
  Draw(*second, {"called"});
  const auto third = Open(scope);
  for (const auto& [node, position] : second->RandomPositions()) {
    ASSERT_TRUE(third->SetRandomPosition(node, position).ok());
  }
  EXPECT_EQ(Draw(*third, {"nested"}), next);
}

TEST(RandomPositions, GoWithTheFunctionToAnotherDevice) {
  const Scope scope = Graph();
  const auto first = Open(scope);
  Draw(*first, {"called"});
  const Positions before = first->RandomPositions();
  ASSERT_EQ(before.size(), 1u);
  const std::vector<float> next = Draw(*first, {"called"});
  const std::string elsewhere = "draw@/job:localhost/replica:0/task:0/device:CPU:9 uniform";
  const auto second = Open(scope);
  ASSERT_TRUE(second->SetRandomPosition(elsewhere, before[0].second).ok());
  EXPECT_EQ(Draw(*second, {"called"}), next);
}

TEST(RandomPositions, OfWhatIsNotThereAreNotFound) {
  const auto session = Open(Graph());
  Draw(*session);
  const Positions positions = session->RandomPositions();
  ASSERT_EQ(positions.size(), 4u);
  const Tensor position = positions[1].second;
  const std::string key = positions[1].first;
  const auto code = [&](const std::string& name, const Tensor& value) {
    return session->SetRandomPosition(name, value).code();
  };
  EXPECT_EQ(code(key, position), absl::StatusCode::kOk);
  EXPECT_EQ(code("uniforms", position), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(key + "s", position), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("no" + key, position), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(key, Tensor::Scalar<float>(1)), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
