// What AddGradients refuses. What it computes is tested op by op in tests/gradients.
#include "core/op/gradients.h"

#include "core/graph/scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

Output Number(const Scope& scope, const char* name) {
  return scope.WithOpName(name).Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", Shape()}});
}

void ExpectRefused(const Scope& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                   const GradientOptions& options, const char* message) {
  const int nodes = scope.graph()->id_limit();
  const auto gradients = AddGradients(scope.graph(), ys, xs, options);
  EXPECT_EQ(gradients.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(gradients.status().message(), HasSubstr(message));
  EXPECT_EQ(scope.graph()->id_limit(), nodes) << "the graph is as it was";
}

TEST(AddGradients, RefusesOutputsThatAreNone) {
  const Scope s = Scope::NewRoot();
  const Output x = Number(s, "x");
  const Output y = s.Call("Square", {x});
  ASSERT_TRUE(s.ok()) << s.status();
  ExpectRefused(s, {y}, {Output()}, {}, "does not exist");
  ExpectRefused(s, {Output()}, {x}, {}, "does not exist");
  ExpectRefused(s, {y}, {x}, {.stop_at = {Output()}}, "does not exist");
}

TEST(AddGradients, RefusesOutputsOfAnotherGraph) {
  const Scope s = Scope::NewRoot();
  const Output x = Number(s, "x");
  const Output y = s.Call("Square", {x});
  const Scope other = Scope::NewRoot();
  const Output theirs = Number(other, "theirs");
  // With a number that no node of ours has.
  const Output far = other.Call("Neg", {other.Call("Neg", {other.Call("Neg", {theirs})})});
  ASSERT_TRUE(s.ok() && other.ok());
  for (const Output& foreign : {theirs, far}) {
    ExpectRefused(s, {y}, {foreign}, {}, "an output of another graph");
    ExpectRefused(s, {foreign}, {x}, {}, "an output of another graph");
    ExpectRefused(s, {y}, {x}, {.output_gradients = {foreign}}, "an output of another graph");
  }
}

TEST(AddGradients, WantsOneGradientForEachOutput) {
  const Scope s = Scope::NewRoot();
  const Output x = Number(s, "x");
  const Output y = s.Call("Square", {x});
  ASSERT_TRUE(s.ok()) << s.status();
  ExpectRefused(s, {y}, {x}, {.output_gradients = {x, x}}, "2 gradients were given for 1 outputs");
}

}  // namespace
}  // namespace tandem
