// What a user hands to a builder and cannot be right. What is right is the conformance suite's
// affair (strategies/conformance).
#include "strategies/local/replica_builder.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

class Builder : public ::testing::Test {
 protected:
  Builder() : builder_(*NewReplicaBuilder({.devices = {"/device:CPU:0", "/device:CPU:1"}})) {}

  static VariableSpec Spec() {
    VariableSpec spec;
    spec.name = "v";
    spec.shape = Shape({});
    spec.initializer = [](const Scope& scope) { return scope.Constant(1.0f); };
    return spec;
  }

  static void ExpectRefused(const absl::Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
  }

  Gradient Dense() { return Gradient(builder_->host_scope().Constant(1.0f)); }
  Gradient Sparse() {
    const Scope scope = builder_->host_scope();
    return Gradient(scope.Constant({{1.0f}}), scope.Constant({0}), scope.Constant({4, 1}));
  }

  const std::unique_ptr<StrategyBuilder> builder_;
};

TEST_F(Builder, AVariableNeedsAnInitializer) {
  VariableSpec spec = Spec();
  spec.initializer = nullptr;
  ExpectRefused(builder_->Variable(spec).status(), "'v' has no initializer");
  spec.initializer = [](const Scope&) { return Output(); };
  ExpectRefused(builder_->Variable(spec).status(), "initializer of variable 'v'");
}

TEST_F(Builder, GradientsAreOneOfEachReplicaAndAlike) {
  const auto reduce = [&](PerReplicaGradient gradient) {
    return builder_->ReduceGradients({{Gradient(), Gradient()}, std::move(gradient)}).status();
  };
  EXPECT_TRUE(reduce({Dense(), Dense()}).ok());
  EXPECT_TRUE(reduce({Sparse(), Sparse()}).ok());
  ExpectRefused(reduce({}), "0 entries for 2 replicas");
  ExpectRefused(reduce({Dense()}), "1 entries for 2 replicas");
  ExpectRefused(reduce({Dense(), Dense(), Dense()}), "3 entries for 2 replicas");
  ExpectRefused(reduce({Dense(), Gradient()}), "replica 1 has none");
  ExpectRefused(reduce({Gradient(), Dense()}), "replica 0 has none");
  ExpectRefused(reduce({Dense(), Sparse()}), "sparse float32");
  ExpectRefused(reduce({Dense(), Gradient(builder_->host_scope().Constant(1.0))}), "dense float64");
}

TEST_F(Builder, AnInvalidOutputIsNotAssigned) {
  VariableSpec on_read = Spec();
  on_read.name = "on_read";
  on_read.synchronization = Synchronization::kOnRead;
  VariableSpec first = Spec();
  first.name = "first";
  first.aggregation = Aggregation::kOnlyFirstReplica;
  ASSERT_TRUE(builder_->BeginStep("test").ok());
  for (const VariableSpec& spec : {Spec(), on_read, first}) {
    const auto variable = builder_->Variable(spec);
    ASSERT_TRUE(variable.ok()) << variable.status();
    ExpectRefused(builder_->Run([&](const ReplicaContext& replica) {
      return replica.Assign(**variable, Output());
    }),
                  "'" + spec.name + "'");
  }
}

TEST_F(Builder, UpdatesAreOfMirroredVariablesAndHeldForNodesThatExist) {
  ASSERT_TRUE(builder_->BeginStep("test").ok());
  ExpectRefused(builder_->HoldUpdates(nullptr), "null");
  VariableSpec spec = Spec();
  spec.synchronization = Synchronization::kOnRead;
  const auto variable = builder_->Variable(spec);
  ASSERT_TRUE(variable.ok()) << variable.status();
  ExpectRefused(builder_->Update(**variable,
                                 [](const Scope&, Output, int) -> absl::StatusOr<Node*> {
                                   return static_cast<Node*>(nullptr);
                                 }),
                "synchronized on read");
}

TEST_F(Builder, AStepInWhichReplicasReduceUnequallyOftenIsRefused) {
  ASSERT_TRUE(builder_->BeginStep("test").ok());
  const absl::Status status = builder_->Run([](const ReplicaContext& replica) {
    for (int i = 0; i < 3 - replica.replica(); ++i) {
      replica.AllReduce(Reduction::kSum, {replica.scope().Constant(1.0f)});
    }
    return replica.scope().status();
  });
  ASSERT_TRUE(status.ok()) << status;
  const absl::Status ended = builder_->EndStep().status();
  ExpectRefused(ended, "replica 0 reduces values over the replicas 3 times");
  ExpectRefused(ended, "replica 1 does 2 times");
}

TEST_F(Builder, OutsideAStepNothingIsReduced) {
  std::vector<Output> results;
  const absl::Status status = builder_->Run([&](const ReplicaContext& replica) {
    results = replica.AllReduce(Reduction::kSum, {replica.scope().Constant(1.0f)});
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  ASSERT_EQ(results.size(), 1u);
  EXPECT_FALSE(results[0].valid());
}

// The control edges of a step in which so many replicas reduce a gradient.
int64_t ControlEdges(int replicas) {
  ReplicaBuilderOptions options;
  for (int i = 0; i < replicas; ++i) {
    options.devices.push_back(absl::StrCat("/device:CPU:", i));
  }
  const auto builder = NewReplicaBuilder(options);
  EXPECT_TRUE(builder.ok()) << builder.status();
  EXPECT_TRUE((*builder)->BeginStep("train").ok());
  const Gradient gradient((*builder)->host_scope().Constant(1.0f));
  const PerReplicaGradient gradients(static_cast<size_t>(replicas), gradient);
  EXPECT_TRUE((*builder)->ReduceGradients({gradients, gradients}).ok());
  EXPECT_TRUE((*builder)->EndStep().ok());
  int64_t edges = 0;
  for (const Node* node : (*builder)->graph()->nodes()) {
    edges += static_cast<int64_t>(node->control_inputs().size());
  }
  return edges;
}

TEST(ReplicaBuilder, TheGraphGrowsWithTheReplicasAndNotWithTheirSquare) {
  const int64_t few = ControlEdges(8);
  EXPECT_LE(ControlEdges(64), 8 * few);
}

}  // namespace
}  // namespace tandem
