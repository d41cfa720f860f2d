// Sessions run the optimization passes that their options and the environment ask for, on the
// graphs of signatures and on functions' bodies.
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/passes/optimize.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

class SessionPasses : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("TANDEM_PASSES"); }
  void TearDown() override { unsetenv("TANDEM_PASSES"); }

  // The ops that a run of `fetch` executed.
  static std::set<std::string> OpsRun(const Scope& scope, const std::string& fetch,
                                      const SessionOptions& session_options = {}) {
    EXPECT_TRUE(scope.ok()) << scope.status();
    const auto session = Session::Create(*scope.graph(), session_options);
    EXPECT_TRUE(session.ok()) << session.status();
    RunOptions options;
    options.trace = true;
    RunMetadata metadata;
    const auto results = (*session)->Run(options, {}, {fetch}, {}, &metadata);
    EXPECT_TRUE(results.ok()) << results.status();
    if (results.ok()) {
      EXPECT_EQ((*results)[0].ScalarValue<float>(), 5);
    }
    std::set<std::string> ops;
    for (const StepTracer::Event& event : metadata.events) ops.insert(event.op);
    return ops;
  }

  static Scope Sum() {
    const Scope scope = Scope::NewRoot();
    scope.WithOpName("sum").Call("AddV2", {2.0f, 3.0f});
    return scope;
  }
};

TEST_F(SessionPasses, WhatIsFoldedIsNotRun) { EXPECT_EQ(OpsRun(Sum(), "sum").count("AddV2"), 0u); }

TEST_F(SessionPasses, OptionsSwitchAPassOff) {
  SessionOptions options;
  options.optimize.fold_constants = false;
  EXPECT_EQ(OpsRun(Sum(), "sum", options).count("AddV2"), 1u);
}

TEST_F(SessionPasses, TheEnvironmentSwitchesAPassOff) {
  ASSERT_EQ(setenv("TANDEM_PASSES", "-fold_constants", 1), 0);
  EXPECT_EQ(OpsRun(Sum(), "sum").count("AddV2"), 1u);
}

TEST_F(SessionPasses, AWrongWordInTheEnvironmentIsRefused) {
  ASSERT_EQ(setenv("TANDEM_PASSES", "-fold", 1), 0);
  const Scope scope = Sum();
  const absl::Status status = Session::Create(*scope.graph()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "TANDEM_PASSES")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "fold_constants")) << status;
}

TEST_F(SessionPasses, FunctionsGoThroughThemToo) {
  const Scope body = Scope::NewRoot();
  FunctionResult(body.WithOpName("result"), 0, body.Call("AddV2", {2.0f, 3.0f}));
  const Scope scope = Scope::NewRoot();
  const absl::Status defined =
      DefineFunction("five", *body.graph(), {}, &scope.graph()->functions());
  ASSERT_TRUE(defined.ok()) << defined;
  scope.WithOpName("call").Call("PartitionedCall", {},
                                {{"Tin", std::vector<DataType>()},
                                 {"Tout", std::vector<DataType>{kFloat32}},
                                 {"f", FunctionRef{"five", {}}}});
  EXPECT_EQ(OpsRun(scope, "call").count("AddV2"), 0u);
  SessionOptions options;
  options.optimize.fold_constants = false;
  EXPECT_EQ(OpsRun(scope, "call", options).count("AddV2"), 1u);
}

}  // namespace
}  // namespace tandem
