#include "strategies/parameter_server/coordinator.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tandem::parameter_server {
namespace {

// A step that adds "x" to a variable and fetches 1000 / x.
class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    strategy_ = *Strategy::OneDevice({});
    builder_ = *strategy_->NewBuilder();
    VariableSpec spec;
    spec.name = "sum";
    spec.dtype = kInt64;
    spec.initializer = [](const Scope& scope) { return scope.Constant(int64_t{0}); };
    StrategyVariable* const sum = *builder_->Variable(spec);
    const Output x = builder_->host_scope().WithOpName("x").Call(
        "Placeholder", {}, {{"dtype", kInt64}, {"shape", PartialShape({})}});
    ASSERT_TRUE(builder_->BeginStep("add").ok());
    const Output quotient =
        builder_->host_scope().WithOpName("quotient").Call("FloorDiv", {int64_t{1000}, x});
    ASSERT_TRUE(builder_
                    ->Update(*sum,
                             [&](const Scope& scope, Output handle, int) -> absl::StatusOr<Node*> {
                               // Not if the division fails.
                               return scope.WithControlDependencies({quotient.node})
                                   .AddNode("AssignAddVariableOp", {handle, x});
                             })
                    .ok());
    Node* const done = *builder_->EndStep();
    signature_.feeds = {"x:0"};
    signature_.fetches = {quotient.name()};
    signature_.targets = {done->name()};
  }

  void Make(int most_scheduled = 256) {
    Coordinator::Options options;
    options.most_scheduled = most_scheduled;
    auto coordinator = Coordinator::Create(*strategy_, *builder_, options);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    const absl::StatusOr<int> program = coordinator_->AddProgram(signature_);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *program;
  }
  absl::StatusOr<ScheduledStep> Schedule(int64_t x) {
    StepInput input;
    input.values = {Tensor::Scalar<int64_t>(x)};
    return coordinator_->Schedule(program_, std::move(input));
  }
  int64_t Sum() {
    const absl::StatusOr<Tensor> sum = coordinator_->runner().ReadVariable("sum");
    EXPECT_TRUE(sum.ok()) << sum.status();
    return sum.ok() ? sum->ScalarValue<int64_t>() : -1;
  }

  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<StrategyBuilder> builder_;
  std::unique_ptr<Coordinator> coordinator_;
  RunSignature signature_;
  int program_ = 0;
};

TEST_F(CoordinatorTest, EachScheduledStepCountsOnce) {
  Make();
  std::vector<ScheduledStep> steps;
  for (int64_t x = 1; x <= 100; ++x) {
    auto step = Schedule(x);
    ASSERT_TRUE(step.ok()) << step.status();
    steps.push_back(*step);
  }
  ASSERT_TRUE(coordinator_->Join().ok());
  EXPECT_TRUE(coordinator_->Done());
  EXPECT_EQ(Sum(), 5050);
  const auto values = Coordinator::Fetch(steps);
  ASSERT_TRUE(values.ok()) << values.status();
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ((*values)[i][0].ScalarValue<int64_t>(), 1000 / static_cast<int64_t>(i + 1));
    EXPECT_TRUE(steps[i].HasEnded());
  }
}

TEST_F(CoordinatorTest, SchedulesFromManyThreadsAndNoMoreThanItMay) {
  Make(/*most_scheduled=*/3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(Schedule(2).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(coordinator_->Join().ok());
  EXPECT_EQ(Sum(), 400);
}

TEST_F(CoordinatorTest, AnErrorReachesTheNextJoinOnce) {
  Make();
  ASSERT_TRUE(Schedule(1).ok());
  const auto bad = Schedule(0);
  ASSERT_TRUE(bad.ok());
  const absl::Status status = coordinator_->Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(bad->Fetch().status(), status);
  EXPECT_TRUE(coordinator_->Join().ok());
  EXPECT_EQ(Sum(), 1);
  ASSERT_TRUE(Schedule(4).ok());
  ASSERT_TRUE(coordinator_->Join().ok());
  EXPECT_EQ(Sum(), 5);
}

TEST_F(CoordinatorTest, AnErrorReachesTheNextSchedule) {
  Make(/*most_scheduled=*/1);
  const auto bad = Schedule(0);
  ASSERT_TRUE(bad.ok());
  EXPECT_FALSE(bad->Fetch().ok());
  // It is told once the step has ended for the coordinator, too: room for one means waiting for it.
  const auto refused = Schedule(1);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Schedule(1).ok());
  EXPECT_TRUE(coordinator_->Join().ok());
  EXPECT_EQ(Sum(), 1);
}

TEST_F(CoordinatorTest, WhatIsScheduledAfterAFailureIsCancelled) {
  Make();
  std::vector<ScheduledStep> steps;
  steps.push_back(*Schedule(0));
  bool was_refused = false;
  for (int i = 0; i < 50 && !was_refused; ++i) {
    auto step = Schedule(1);
    was_refused = !step.ok();
    if (step.ok()) steps.push_back(*step);
  }
  if (!was_refused) {
    EXPECT_FALSE(coordinator_->Join().ok());
  }
  EXPECT_TRUE(coordinator_->Join().ok());
  int64_t counted = 0;
  for (const ScheduledStep& step : steps) {
    ASSERT_TRUE(step.HasEnded());
    const auto values = step.Fetch();
    if (values.ok()) ++counted;
    if (!values.ok() && &step != &steps[0]) {
      EXPECT_EQ(values.status().code(), absl::StatusCode::kCancelled) << values.status();
    }
  }
  EXPECT_EQ(Sum(), counted);
}

TEST_F(CoordinatorTest, RefusesWhatMakesNoSense) {
  Coordinator::Options options;
  options.most_scheduled = 0;
  EXPECT_EQ(Coordinator::Create(*strategy_, *builder_, options).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto other = *Strategy::OneDevice({});
  EXPECT_EQ(Coordinator::Create(*other, *builder_).status().code(),
            absl::StatusCode::kInvalidArgument);
  Make();
  const auto unknown = coordinator_->Schedule(17, {});
  ASSERT_TRUE(unknown.ok());
  EXPECT_FALSE(unknown->Fetch().ok());
  EXPECT_FALSE(coordinator_->Join().ok());
}

}  // namespace
}  // namespace tandem::parameter_server
