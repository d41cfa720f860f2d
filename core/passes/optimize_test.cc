#include "core/passes/optimize.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

std::string Enabled(const OptimizeOptions& options) {
  std::vector<std::string> on;
  if (options.fold_constants) on.push_back("fold_constants");
  if (options.merge_common) on.push_back("merge_common");
  if (options.fuse_bias_and_activation) on.push_back("fuse_bias_and_activation");
  if (options.fuse_elementwise) on.push_back("fuse_elementwise");
  if (options.fuse_updates) on.push_back("fuse_updates");
  if (options.plan_memory) on.push_back("plan_memory");
  return absl::StrJoin(on, ",");
}

TEST(SwitchPasses, AllPassesAreOnUnlessSwitchedOff) {
  EXPECT_EQ(Enabled(OptimizeOptions()), absl::StrJoin(PassNames(), ","));
}

TEST(SwitchPasses, WordsCountInTheirOrder) {
  OptimizeOptions options;
  ASSERT_TRUE(SwitchPasses("-fold_constants, -fuse_elementwise", &options).ok());
  EXPECT_EQ(Enabled(options), "merge_common,fuse_bias_and_activation,fuse_updates,plan_memory");
  ASSERT_TRUE(SwitchPasses("", &options).ok());
  EXPECT_EQ(Enabled(options), "merge_common,fuse_bias_and_activation,fuse_updates,plan_memory");
  ASSERT_TRUE(SwitchPasses("none,merge_common,+fuse_updates", &options).ok());
  EXPECT_EQ(Enabled(options), "merge_common,fuse_updates");
  ASSERT_TRUE(SwitchPasses("all,-merge_common", &options).ok());
  EXPECT_EQ(Enabled(options),
            "fold_constants,fuse_bias_and_activation,fuse_elementwise,fuse_updates,plan_memory");
}

TEST(SwitchPasses, AnUnknownNameListsTheKnownOnesAndChangesNothing) {
  OptimizeOptions options;
  const absl::Status status = SwitchPasses("none,-fold_constant", &options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "'-fold_constant'")) << status;
  for (const std::string& name : PassNames()) {
    EXPECT_TRUE(absl::StrContains(status.message(), name)) << status;
  }
  EXPECT_EQ(Enabled(options), absl::StrJoin(PassNames(), ","));
}

TEST(SwitchPasses, TheEnvironmentSaysWhereAWrongWordCameFrom) {
  OptimizeOptions options;
  ASSERT_EQ(setenv("TANDEM_PASSES", "none", 1), 0);
  EXPECT_TRUE(SwitchPassesFromEnvironment(&options).ok());
  EXPECT_EQ(Enabled(options), "");
  ASSERT_EQ(setenv("TANDEM_PASSES", "fast", 1), 0);
  EXPECT_TRUE(absl::StrContains(SwitchPassesFromEnvironment(&options).message(), "TANDEM_PASSES"));
  ASSERT_EQ(unsetenv("TANDEM_PASSES"), 0);
  EXPECT_TRUE(SwitchPassesFromEnvironment(&options).ok());
}

class OptimizeTest : public ::testing::Test {
 protected:
  void Run(const OptimizeOptions& options = {}) {
    ASSERT_TRUE(s_.ok()) << s_.status();
    for (Node* node : s_.graph()->nodes()) {
      node->set_device("/job:localhost/replica:0/task:0/device:CPU:0");
    }
    const absl::Status status = Optimize(options, *s_.graph());
    ASSERT_TRUE(status.ok()) << status;
  }
  bool Has(const std::string& name) { return s_.graph()->FindNode(name) != nullptr; }

  Scope s_ = Scope::NewRoot();
};

TEST_F(OptimizeTest, RemovesWhatNobodyNeedsAnyMore) {
  const Output x =
      s_.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", Shape({2})}});
  const Output neg = s_.WithOpName("neg").Call("Neg", {x});
  s_.WithOpName("result").AddNode("_Retval", {s_.WithOpName("shape").Call("Shape", {neg})},
                                  {{"index", 0}});
  Run();
  EXPECT_TRUE(Has("result"));
  EXPECT_FALSE(Has("shape"));
  EXPECT_FALSE(Has("neg"));
}

TEST_F(OptimizeTest, KeepsEffectsAndTargets) {
  const Output random = s_.WithOpName("random").Call("RandomUniform", {{2}}, {{"dtype", kFloat32}});
  s_.WithOpName("result").AddNode("_Retval", {s_.WithOpName("shape").Call("Shape", {random})},
                                  {{"index", 0}});
  s_.WithOpName("target").AddNode("NoOp", {});
  s_.WithOpName("unread").Call("AddV2", {1.0f, 2.0f});
  Run();
  EXPECT_FALSE(Has("shape"));
  EXPECT_TRUE(Has("random")) << "the next run would draw other numbers";
  EXPECT_TRUE(Has("target"));
  EXPECT_TRUE(Has("unread"));
}

TEST_F(OptimizeTest, DoesNothingWhenAllPassesAreOff) {
  s_.AddNode("_Retval", {s_.WithOpName("first").Call("Identity", {1.0f})}, {{"index", 0}});
  s_.AddNode("_Retval", {s_.WithOpName("second").Call("Identity", {1.0f})}, {{"index", 1}});
  OptimizeOptions off;
  ASSERT_TRUE(SwitchPasses("none", &off).ok());
  Run(off);
  EXPECT_TRUE(Has("first"));
  EXPECT_TRUE(Has("second"));
}

}  // namespace
}  // namespace tandem
