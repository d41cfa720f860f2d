// What the numbers (keras_test.cc) do not show of optimizers: slots, options, shared scalars,
// errors.
#include <cmath>
#include <map>

#include "gtest/gtest.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/optimizer/testing.h"

namespace tandem::optimizer {
namespace {

TEST(Optimizers, AHyperparameterThatATypeRoundsToOneIsRefused) {
  const auto training =
      TestTraining::Create(Adam({}), {{"x", Shape({1}), {0.5}}}, {.dtype = kBfloat16});
  EXPECT_EQ(training.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(training.status().message()).find("beta2"), std::string::npos)
      << training.status();
}

TEST(Optimizers, SayWhatTheyWereMadeWith) {
  using List = OptionList;
  EXPECT_EQ(Adam({.beta1 = 0.8})->DescribeOptions(),
            (List{{"beta1", "0.8"}, {"beta2", "0.999"}, {"epsilon", "1e-07"}, {"amsgrad", "0"}}));
  EXPECT_EQ(AdamW({.exclude = {"bias", "gamma"}})->DescribeOptions().back().second, "bias,gamma");
  EXPECT_EQ(Accumulate(ClipByGlobalNorm(Sgd({.momentum = 0.9, .nesterov = true}), 0.5), 3)
                ->DescribeOptions(),
            (List{{"momentum", "0.9"},
                  {"nesterov", "1"},
                  {"ClipByGlobalNorm", "0.5"},
                  {"Accumulate", "3"}}));
  for (const OptimizerPtr& optimizer :
       {Adagrad({}), RmsProp({}), Adadelta({}), Ftrl({}), AdamW({})}) {
    EXPECT_GE(optimizer->DescribeOptions().size(), 2u) << optimizer->name();
  }
}

TEST(Optimizers, SlotsHaveTheirNamesAndInitialValues) {
  const auto training = TestTraining::Create(RmsProp({.centered = true}), {{"x", Shape({1}), {1}}});
  ASSERT_TRUE(training.ok()) << training.status();
  for (const std::string slot : {"velocity", "momentum", "average_gradient"}) {
    const auto value = (*training)->Read("x/rmsprop/" + slot);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, std::vector<double>{0}) << slot;
  }
  const auto adagrad = TestTraining::Create(Adagrad({}), {{"x", Shape({1}), {1}}});
  ASSERT_TRUE(adagrad.ok()) << adagrad.status();
  EXPECT_EQ(*(*adagrad)->Read("x/adagrad/accumulator"), std::vector<double>{0.1});
}

TEST(Optimizers, ScalarsAndEmptyVariablesAreTrained) {
  const auto training =
      TestTraining::Create(Adam({}), {{"x", Shape({}), {2}}, {"y", Shape({0, 3}), {}}});
  ASSERT_TRUE(training.ok()) << training.status();
  ASSERT_TRUE((*training)->Step({{{1}}, {{}}}).ok());
  EXPECT_LT((*(*training)->Read("x"))[0], 2);
  EXPECT_TRUE((*training)->Read("y")->empty());
}

TEST(Optimizers, WeightDecayLeavesExcludedVariablesAlone) {
  const auto training = TestTraining::Create(
      AdamW({.learning_rate = 0.5, .weight_decay = 0.5, .exclude = {"/bias", "norm/gamma"}}),
      {{"dense/kernel", Shape({1}), {1}},
       {"dense/bias", Shape({1}), {1}},
       {"norm/gamma", Shape({1}), {1}},
       {"my_norm/gammas", Shape({1}), {1}}});
  ASSERT_TRUE(training.ok()) << training.status();
  ASSERT_TRUE((*training)->Step({{{0}}, {{0}}, {{0}}, {{0}}}).ok());
  EXPECT_EQ((*(*training)->Read("dense/kernel"))[0], 0.75);
  EXPECT_EQ((*(*training)->Read("dense/bias"))[0], 1);
  EXPECT_EQ((*(*training)->Read("norm/gamma"))[0], 1);
  EXPECT_EQ((*(*training)->Read("my_norm/gammas"))[0], 0.75);
}

// What a pass needs that makes one update of many.
TEST(Optimizers, UpdatesAtOneCopyReadTheSameScalars) {
  std::vector<TestVariable> variables;
  for (const char* name : {"a", "b", "c"}) variables.push_back({name, Shape({2}), {1, 2}});
  const auto training =
      TestTraining::Create(Adam({}), variables, {.devices = {"/device:CPU:0", "/device:CPU:1"}});
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ((*training)->CountNodes("Pow"), 4);  // Two betas, two copies.
  std::map<std::string, const Node*> first;      // By device.
  for (const Node* node : (*training)->graph().nodes()) {
    if (node->op().name != "ResourceApplyAdam") continue;
    const Node*& other = first.emplace(node->requested_device(), node).first->second;
    for (int i = 3; i < 9; ++i) {
      EXPECT_EQ(node->input(i).node, other->input(i).node) << node->name() << " input " << i;
    }
    EXPECT_EQ(node->control_inputs(), other->control_inputs());
  }
  EXPECT_EQ(first.size(), 2u);
}

TEST(Optimizers, AScheduleTakesTheLearningRatesPlace) {
  const auto training =
      TestTraining::Create(Sgd({.learning_rate = 100, .schedule = StepDecay({0}, {0.5, 0.25})}),
                           {{"x", Shape({1}), {1}}});
  ASSERT_TRUE(training.ok()) << training.status();
  ASSERT_TRUE((*training)->Step({{{1}}}).ok());
  EXPECT_EQ(*(*training)->Read("x"), std::vector<double>{0.5});
  ASSERT_TRUE((*training)->Step({{{1}}}).ok());
  EXPECT_EQ(*(*training)->Read("x"), std::vector<double>{0.25});
}

TEST(Optimizers, ARowOutsideTheVariableIsAnError) {
  for (const OptimizerPtr& optimizer : {Sgd({}), Adam({}), Adagrad({})}) {
    const auto training =
        TestTraining::Create(optimizer, {{"x", Shape({2, 1}), {1, 2}, /*is_sparse=*/true}});
    ASSERT_TRUE(training.ok()) << training.status();
    const absl::Status status = (*training)->Step({{{1, 1}, {0, 2}}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(*(*training)->Read("x"), (std::vector<double>{1, 2}));
  }
}

TEST(Optimizers, WrongOptionsAreInvalidArgument) {
  const double nan = std::nan("");
  const std::vector<OptimizerPtr> wrong = {
      Sgd({.learning_rate = -1}),
      Sgd({.learning_rate = nan}),
      Sgd({.momentum = 1.5}),
      Sgd({.momentum = -0.1}),
      Sgd({.schedule = ExponentialDecay(1, 0, 0.5)}),
      Adam({.learning_rate = -1e-3}),
      Adam({.beta1 = 1}),
      Adam({.beta2 = nan}),
      Adam({.epsilon = -1}),
      AdamW({.weight_decay = -1}),
      AdamW({.beta1 = -1}),
      Adagrad({.initial_accumulator = -1}),
      Adagrad({.initial_accumulator = 0, .epsilon = 0}),
      RmsProp({.rho = 1}),
      RmsProp({.momentum = 2}),
      Adadelta({.rho = -0.5}),
      Adadelta({.epsilon = INFINITY}),
      Ftrl({.learning_rate = 0}),
      Ftrl({.learning_rate_power = 1}),
      Ftrl({.l1 = -1}),
      Ftrl({.l2 = -1}),
      Ftrl({.schedule = WarmUp(Constant(1), 10)}),
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(wrong[i]->Check().code(), absl::StatusCode::kInvalidArgument) << i;
    const auto training = TestTraining::Create(wrong[i], {{"x", Shape({1}), {1}}});
    EXPECT_EQ(training.status().code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_NE(std::string(training.status().message()).find(wrong[i]->name() + ": "),
              std::string::npos)
        << training.status();
  }
}

}  // namespace
}  // namespace tandem::optimizer
