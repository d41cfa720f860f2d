#include "strategies/parameter_server/parameter_builder.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "strategies/parameter_server/parameter_test_util.h"

namespace tandem::parameter_server {
namespace {

std::unique_ptr<ParameterBuilder> Builder(ParameterBuilderOptions options) {
  auto builder = NewParameterBuilder(options);
  EXPECT_TRUE(builder.ok()) << builder.status();
  return builder.ok() ? *std::move(builder) : nullptr;
}

VariableSpec Spec(const std::string& name, const Shape& shape, float value = 0) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = shape;
  spec.initializer = [shape, value](const Scope& scope) {
    return scope.Call("Fill", {Tensor::Vector<int64_t>(shape.dims()), Tensor::Scalar(value)});
  };
  return spec;
}

StrategyVariable* Add(ParameterBuilder& builder, const VariableSpec& spec) {
  const auto variable = builder.Variable(spec);
  EXPECT_TRUE(variable.ok()) << variable.status();
  return variable.ok() ? *variable : nullptr;
}

TEST(ParameterBuilder, RefusesOptionsThatMakeNoSense) {
  for (const ParameterBuilderOptions& options :
       {ParameterBuilderOptions{.shards = 0}, ParameterBuilderOptions{.min_part_bytes = -2},
        ParameterBuilderOptions{.max_part_bytes = -1}, ParameterBuilderOptions{.parts = -1}}) {
    EXPECT_EQ(NewParameterBuilder(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ParameterBuilder, CutsVariablesAndSpreadsThemOverTheServers) {
  const auto builder = Builder({.shards = 3, .min_part_bytes = 40});
  const auto parts = builder->PartsOf(*Add(*builder, Spec("table", Shape({10, 5}))));
  ASSERT_EQ(parts.size(), 3u);
  std::set<int> shards;
  int64_t next = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    shards.insert(parts[p].shard);
    EXPECT_EQ(parts[p].variable.name(), "table/part_" + std::to_string(p));
    EXPECT_EQ(parts[p].variable.handle(), "table/part_" + std::to_string(p));
    EXPECT_EQ(parts[p].variable.offset(), next);
    EXPECT_EQ(parts[p].variable.stride(), 1);
    next += parts[p].shape.dim(0);
    EXPECT_EQ(parts[p].shape.dim(1), 5);
  }
  EXPECT_EQ(next, 10);
  EXPECT_EQ(shards.size(), 3u);

  VariableSpec spread = Spec("spread", Shape({10, 5}));
  spread.spread_rows = true;
  const auto rows = builder->PartsOf(*Add(*builder, spread));
  ASSERT_EQ(rows.size(), 3u);
  for (int p = 0; p < 3; ++p) {
    EXPECT_EQ(rows[static_cast<size_t>(p)].variable.offset(), p);
    EXPECT_EQ(rows[static_cast<size_t>(p)].variable.stride(), 3);
    EXPECT_EQ(rows[static_cast<size_t>(p)].shape.dim(0), p == 0 ? 4 : 3);
  }

  const auto whole = builder->PartsOf(*Add(*builder, Spec("small", Shape({2}))));
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].variable.name(), "small");
  EXPECT_EQ(whole[0].variable.stride(), 1);
  EXPECT_EQ(whole[0].shape, Shape({2}));
}

TEST(ParameterBuilder, MorePartsThanServersLieOnEach) {
  const auto builder = Builder({.shards = 2, .min_part_bytes = 0, .parts = 5});
  const auto parts = builder->PartsOf(*Add(*builder, Spec("v", Shape({7}))));
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(std::count_if(parts.begin(), parts.end(),
                          [](const VariablePart& part) { return part.shard == 0; }),
            3);
}

TEST(ParameterBuilder, SlotsLieBesideTheirVariable) {
  const auto builder = Builder({.shards = 3, .min_part_bytes = 40, .balance_by_bytes = false});
  const auto table = builder->PartsOf(*Add(*builder, Spec("a/table", Shape({10, 5}))));
  Add(*builder, Spec("a/bias", Shape({1})));  // The next server's turn comes out of step.
  const auto slot = builder->PartsOf(*Add(*builder, Spec("a/table/adam/m", Shape({10, 5}))));
  ASSERT_EQ(slot.size(), table.size());
  for (size_t p = 0; p < slot.size(); ++p) {
    EXPECT_EQ(slot[p].shard, table[p].shard);
    EXPECT_EQ(slot[p].variable.offset(), table[p].variable.offset());
    EXPECT_EQ(slot[p].shape, table[p].shape);
  }
  // Of another shape it is no slot.
  EXPECT_EQ(builder->PartsOf(*Add(*builder, Spec("a/table/adam/t", Shape({})))).size(), 1u);
}

TEST(ParameterBuilder, AsksTwiceForOneVariable) {
  const auto builder = Builder({});
  StrategyVariable* const first = Add(*builder, Spec("v", Shape({3})));
  EXPECT_EQ(Add(*builder, Spec("v", Shape({3}))), first);
  EXPECT_EQ(builder->variables().size(), 1u);
  EXPECT_EQ(builder->Variable(Spec("v", Shape({4}))).status().code(),
            absl::StatusCode::kInvalidArgument);
  VariableSpec nothing = Spec("w", Shape({3}));
  nothing.initializer = nullptr;
  EXPECT_EQ(builder->Variable(nothing).status().code(), absl::StatusCode::kInvalidArgument);
  nothing.initializer = [](const Scope&) { return Output(); };
  EXPECT_EQ(builder->Variable(nothing).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ParameterBuilder, TooManyPartsAreAMistake) {
  const auto builder = Builder({.shards = 2, .max_part_bytes = 1});
  const auto variable = builder->Variable(Spec("v", Shape({100000})));
  EXPECT_EQ(variable.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(variable.status().message(), "max_part_bytes"));
}

TEST(ParameterBuilder, SaysHowResultsOfSeveralWorkersBecomeOne) {
  const auto builder = Builder({});
  const Output x = builder->host_scope().Constant(1.0f);
  const auto sum = builder->ReduceToHost(Reduction::kSum, {x});
  const auto mean = builder->ReduceToHost(Reduction::kMean, {x});
  const auto least = builder->ReduceToHost(Reduction::kMin, {x});
  const auto rows = builder->GatherToHost({x}, 0);
  ASSERT_TRUE(sum.ok() && mean.ok() && least.ok() && rows.ok());
  // One value in several ways: names tell them apart.
  EXPECT_EQ(builder->JoinOf(sum->name()).value_or(Join::kMax), Join::kSum);
  EXPECT_EQ(builder->JoinOf(sum->name() + ":0").value_or(Join::kMax), Join::kSum);
  EXPECT_EQ(builder->JoinOf(mean->name()).value_or(Join::kMax), Join::kMean);
  EXPECT_EQ(builder->JoinOf(least->name()).value_or(Join::kMax), Join::kMin);
  EXPECT_EQ(builder->JoinOf(rows->name()).value_or(Join::kMax), Join::kConcat);
  EXPECT_EQ(builder->JoinOf(x.name()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(builder->GatherToHost({x}, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(builder->ReduceToHost(Reduction::kSum, {x, x}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(builder->ReduceToHost(Reduction::kSum, {Output()}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ParameterBuilder, StepsBeginAndEnd) {
  const auto builder = Builder({});
  StrategyVariable* const variable = Add(*builder, Spec("v", Shape({3})));
  VariableSpec spec = Spec("own", Shape({3}));
  spec.synchronization = Synchronization::kOnRead;
  StrategyVariable* const own = Add(*builder, spec);
  const Output x = builder->host_scope().Constant(Tensor::Vector<float>({1, 2, 3}));
  const auto assign = [&] {
    return builder->Run(
        [&](const ReplicaContext& replica) { return replica.Assign(*variable, x); });
  };
  EXPECT_EQ(assign().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(builder->EndStep().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(builder->BeginStep("first").ok());
  EXPECT_EQ(builder->BeginStep("second").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(builder->HoldUpdates(nullptr).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      builder
          ->Update(*own, [](const Scope&, Output, int) -> absl::StatusOr<Node*> { return nullptr; })
          .code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(assign().ok());
  EXPECT_TRUE(builder->EndStep().ok());

  // Which of several processes' values would it be?
  spec = Spec("none", Shape({3}));
  spec.aggregation = Aggregation::kNone;
  StrategyVariable* const none = Add(*builder, spec);
  ASSERT_TRUE(builder->BeginStep("second").ok());
  ASSERT_TRUE(
      builder->Run([&](const ReplicaContext& replica) { return replica.Assign(*none, x); }).ok());
  EXPECT_EQ(builder->EndStep().status().code(), absl::StatusCode::kInvalidArgument);
}

// --- With shards

class ShardsTest : public ::testing::Test {
 protected:
  void Make(ParameterBuilderOptions options) {
    builder_ = Builder(options);
    auto shards = InProcessShards::Create(options.shards);
    ASSERT_TRUE(shards.ok()) << shards.status();
    shards_ = *std::move(shards);
  }
  void Initialize() {
    const auto step = CutGraph(*builder_->graph(), {{}, {}, {builder_->initializer()}},
                               {.name = "initialize", .shards_compute = true});
    ASSERT_TRUE(step.ok()) << step.status();
    absl::Status status = shards_->Define(*step, *builder_);
    ASSERT_TRUE(status.ok()) << status;
    PushId id;
    id.set_client(1);
    id.set_sequence(1);
    status = shards_->RunWithoutWorker(*step, id);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<float> Value(const StrategyVariable& variable) {
    const auto value = shards_->Read(*builder_, variable);
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok()) return {};
    const auto elements = value->Elements<float>();
    return {elements.begin(), elements.end()};
  }

  std::unique_ptr<ParameterBuilder> builder_;
  std::shared_ptr<InProcessShards> shards_;
};

TEST_F(ShardsTest, PartsBeginWithTheirRowsOfTheWhole) {
  Make({.shards = 3, .min_part_bytes = 16});
  for (const bool spread : {false, true}) {
    VariableSpec spec = Spec(spread ? "spread" : "ranges", Shape({7, 2}));
    spec.spread_rows = spread;
    spec.initializer = [](const Scope& scope) {
      return scope.Call(
          "Reshape", {scope.Call("Range", {0.0f, 14.0f, 1.0f}), Tensor::Vector<int32_t>({7, 2})});
    };
    EXPECT_EQ(Add(*builder_, spec)->num_copies(), 3);
  }
  Initialize();
  for (const StrategyVariable* variable : builder_->variables()) {
    const std::vector<float> values = Value(*variable);
    ASSERT_EQ(values.size(), 14u);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<float>(i)) << variable->name();
    }
  }
}

TEST_F(ShardsTest, OfALargeVariableEachServerComputesItsRowsAlone) {
  Make({.shards = 2, .min_part_bytes = 16, .most_initial_bytes = 32});
  VariableSpec spec = Spec("large", Shape({8, 4}));
  bool whole_was_asked_for = false;
  spec.initializer = [&](const Scope& scope) {
    whole_was_asked_for = true;
    return scope.Constant(0.0f);
  };
  spec.part_initializer = [](const Scope& scope, const Shape& rows, int64_t first) {
    return scope.Call(
        "Fill", {Tensor::Vector<int64_t>(rows.dims()), Tensor::Scalar(static_cast<float>(first))});
  };
  StrategyVariable* const large = Add(*builder_, spec);
  EXPECT_FALSE(whole_was_asked_for);
  // What cannot do so computes the whole.
  spec = Spec("whole", Shape({8, 4}), 3);
  spec.part_initializer = [](const Scope&, const Shape&, int64_t) { return Output(); };
  StrategyVariable* const whole = Add(*builder_, spec);
  Initialize();
  const std::vector<float> values = Value(*large);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[15], 0);
  EXPECT_EQ(values[16], 4);
  EXPECT_EQ(values[31], 4);
  EXPECT_EQ(Value(*whole)[31], 3);
}

// --- Variables that replicas assign

// Runs a step `times` times, in which each worker adds its part of the batch to variables.
absl::StatusOr<StrategyState> Count(int workers, int times) {
  InProcessOptions options;
  options.workers = workers;
  TANDEM_ASSIGN_OR_RETURN(const auto strategy, InProcessParameterStrategy::Create(options));
  TANDEM_ASSIGN_OR_RETURN(const auto builder, strategy->NewBuilder());
  const Output batch = builder->host_scope().WithOpName("batch").Call(
      "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({-1})}});
  struct Kind {
    std::string name;
    Synchronization synchronization;
    Aggregation aggregation;
  };
  std::vector<StrategyVariable*> variables;
  for (const Kind& kind :
       {Kind{"own_sum", Synchronization::kOnRead, Aggregation::kSum},
        Kind{"own_mean", Synchronization::kOnRead, Aggregation::kMean},
        Kind{"mirrored_sum", Synchronization::kMirrored, Aggregation::kSum},
        Kind{"mirrored_mean", Synchronization::kMirrored, Aggregation::kMean},
        Kind{"first", Synchronization::kMirrored, Aggregation::kOnlyFirstReplica}}) {
    VariableSpec spec;
    spec.name = kind.name;
    spec.initializer = [](const Scope& scope) { return scope.Constant(0.0f); };
    spec.synchronization = kind.synchronization;
    spec.aggregation = kind.aggregation;
    TANDEM_ASSIGN_OR_RETURN(StrategyVariable * variable, builder->Variable(spec));
    variables.push_back(variable);
  }
  TANDEM_RETURN_IF_ERROR(builder->BeginStep("count"));
  TANDEM_RETURN_IF_ERROR(builder->Run([&](const ReplicaContext& replica) -> absl::Status {
    const Output sum = replica.scope().Call("Sum", {batch, 0});
    for (StrategyVariable* variable : variables) {
      const bool adds = absl::StrContains(variable->name(), "own");
      const Output value =
          adds ? replica.scope().Call("AddV2", {replica.Read(*variable), sum}) : sum;
      TANDEM_RETURN_IF_ERROR(replica.Assign(*variable, value));
    }
    return replica.scope().status();
  }));
  TANDEM_ASSIGN_OR_RETURN(Node * done, builder->EndStep());
  TANDEM_ASSIGN_OR_RETURN(const auto runner, strategy->NewRunner(*builder));
  TANDEM_RETURN_IF_ERROR(runner->Initialize());
  TANDEM_ASSIGN_OR_RETURN(const int program, runner->AddProgram({{"batch"}, {}, {done->name()}}));
  for (int i = 0; i < times; ++i) {
    StepInput input;
    input.batch = {Tensor::Vector<float>({1, 2, 3, 4})};
    TANDEM_RETURN_IF_ERROR(runner->Run(program, std::move(input)).status());
  }
  return runner->CaptureState();
}

TEST(ParameterBuilder, AssignmentsOfSeveralWorkersBecomeWhatTheVariableSays) {
  const auto one = Count(1, 3);
  ASSERT_TRUE(one.ok()) << one.status();
  const std::vector<float> alone = {30, 30, 10, 10, 10};
  const auto two = Count(2, 3);
  ASSERT_TRUE(two.ok()) << two.status();
  // Parts of 3 and 7: what each has counted for itself is added up, or its mean taken.
  const std::vector<float> together = {30, 15, 10, 5, 3};
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ((*one)[i].second.ScalarValue<float>(), alone[i]) << (*one)[i].first;
    EXPECT_EQ((*two)[i].second.ScalarValue<float>(), together[i]) << (*two)[i].first;
  }
}

// The numbers of rows are a variable, too: a pull whose arguments are those of another one.
TEST(ParameterBuilder, RowsWhoseNumbersWereReadAreLookedUp) {
  InProcessOptions options;
  options.builder.shards = 2;
  options.builder.min_part_bytes = 16;
  const auto strategy = InProcessParameterStrategy::Create(options);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  const auto builder = (*strategy)->NewBuilder();
  ASSERT_TRUE(builder.ok()) << builder.status();
  VariableSpec spec;
  spec.name = "numbers";
  spec.dtype = kInt64;
  spec.shape = Shape({2, 2});
  spec.initializer = [](const Scope& scope) {
    Tensor numbers(kInt64, Shape({2, 2}));
    int64_t* const values = numbers.MutableElements<int64_t>().data();
    values[0] = 5;
    values[1] = 1;
    values[2] = 5;
    values[3] = 3;
    return scope.Constant(numbers);
  };
  const auto numbers = (*builder)->Variable(spec);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  spec = Spec("table", Shape({6, 3}));
  spec.initializer = [](const Scope& scope) {
    return scope.Call("Reshape",
                      {scope.Call("Range", {0.0f, 18.0f, 1.0f}), Tensor::Vector<int32_t>({6, 3})});
  };
  const auto table = (*builder)->Variable(spec);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ((*table)->num_copies(), 2);
  Output rows;
  ASSERT_TRUE((*builder)->BeginStep("look").ok());
  ASSERT_TRUE((*builder)
                  ->Run([&](const ReplicaContext& replica) -> absl::Status {
                    rows = replica.Lookup(**table, replica.Read(**numbers), replica.scope());
                    return replica.scope().status();
                  })
                  .ok());
  ASSERT_TRUE((*builder)->EndStep().ok());
  const auto runner = (*strategy)->NewRunner(**builder);
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_TRUE((*runner)->Initialize().ok());
  const auto program = (*runner)->AddProgram({{}, {rows.name()}, {}});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto fetched = (*runner)->Run(*program, {});
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_EQ((*fetched)[0].shape(), Shape({2, 2, 3}));
  const std::vector<float> expected = {15, 16, 17, 3, 4, 5, 15, 16, 17, 9, 10, 11};
  const auto got = (*fetched)[0].Elements<float>();
  EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin()));
  std::set<std::string> programs;
  for (const TestCall& call : (*strategy)->shards().TakeCalls()) programs.insert(call.program);
  EXPECT_EQ(programs, (std::set<std::string>{"program_0/pull", "program_0/pull_1"}));
}

}  // namespace
}  // namespace tandem::parameter_server
