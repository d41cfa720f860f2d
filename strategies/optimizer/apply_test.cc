// What a step may ask for when it applies gradients. What comes of it is in the other tests.
#include "strategies/optimizer/apply.h"

#include "gtest/gtest.h"
#include "strategies/mirrored/mirrored.h"
#include "strategies/optimizer/accumulate.h"

namespace tandem::optimizer {
namespace {

class ApplyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ReplicaBuilderOptions options;
    options.devices = {"/device:CPU:0"};
    auto builder = NewMirroredBuilder(options);
    ASSERT_TRUE(builder.ok()) << builder.status();
    builder_ = *std::move(builder);
    const Scope host = builder_->host_scope();
    learning_rate_ = host.Constant(0.5f);
    step_ = host.Constant(int64_t{0});
    gradient_ = Gradient(host.Constant({1.0f, 2.0f}));
    ASSERT_TRUE(builder_->BeginStep("train", step_).ok());
  }

  StrategyVariable* Variable(const std::string& name,
                             Synchronization synchronization = Synchronization::kMirrored) {
    VariableSpec spec;
    spec.name = name;
    spec.shape = Shape({2});
    spec.initializer = [](const Scope& scope) { return scope.Constant({1.0f, 2.0f}); };
    spec.synchronization = synchronization;
    const absl::StatusOr<StrategyVariable*> variable = builder_->Variable(spec);
    EXPECT_TRUE(variable.ok()) << variable.status();
    return variable.value_or(nullptr);
  }

  absl::StatusCode Apply(const std::vector<StrategyVariable*>& variables,
                         std::vector<std::vector<Gradient>> gradients) {
    return ApplyGradients(*builder_, *Adam({}), variables, std::move(gradients), learning_rate_,
                          step_)
        .code();
  }

  std::unique_ptr<StrategyBuilder> builder_;
  Output learning_rate_;
  Output step_;
  Gradient gradient_;
};

TEST_F(ApplyTest, AVariableWithoutAGradientGetsNoSlots) {
  StrategyVariable* const x = Variable("x");
  StrategyVariable* const y = Variable("y");
  EXPECT_EQ(Apply({x, y}, {{Gradient()}, {gradient_}}), absl::StatusCode::kOk);
  std::vector<std::string> names;
  for (const StrategyVariable* variable : builder_->variables()) {
    names.push_back(variable->name());
    EXPECT_EQ(variable->spec().trainable, variable == x || variable == y) << variable->name();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y", "y/adam/momentum", "y/adam/velocity"}));
}

TEST_F(ApplyTest, RefusesGradientsThatDoNotFitTheVariables) {
  StrategyVariable* const x = Variable("x");
  EXPECT_EQ(Apply({x}, {}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Apply({x}, {{}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Apply({x}, {{gradient_, gradient_}}), absl::StatusCode::kInvalidArgument);
}

TEST_F(ApplyTest, RefusesAGradientOfAnotherShape) {
  const Gradient wrong(builder_->host_scope().Constant({1.0f, 2.0f, 3.0f}));
  EXPECT_EQ(Apply({Variable("x")}, {{wrong}}), absl::StatusCode::kInvalidArgument);
}

TEST_F(ApplyTest, RefusesVariablesThatAreNotMirrored) {
  EXPECT_EQ(Apply({Variable("x", Synchronization::kOnRead)}, {{gradient_}}),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ApplyTest, RefusesAStepThatIsNoInt64) {
  step_ = builder_->host_scope().Constant(1.0f);
  EXPECT_EQ(Apply({Variable("x")}, {{gradient_}}), absl::StatusCode::kInvalidArgument);
  step_ = Output();
  EXPECT_EQ(Apply({Variable("x")}, {{gradient_}}), absl::StatusCode::kInvalidArgument);
}

TEST_F(ApplyTest, OnlyAnOptimizerThatAccumulatesDoes) {
  EXPECT_EQ(AccumulateGradients(*builder_, *Adam({}), {Variable("x")}, {{gradient_}}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(
      AccumulateGradients(*builder_, *Accumulate(Adam({}), 2), {Variable("x")}, {{gradient_}})
          .ok());
}

}  // namespace
}  // namespace tandem::optimizer
