#include "strategies/parameter_server/cut.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/export.h"
#include "gtest/gtest.h"
#include "strategies/optimizer/apply.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/parameter_server/combination.h"
#include "strategies/parameter_server/parameter_builder.h"

namespace tandem::parameter_server {
namespace {

constexpr char kServer0[] = "/job:ps/task:0/device:CPU:0";
constexpr char kServer1[] = "/job:ps/task:1/device:CPU:0";

int Count(const Graph& graph, absl::string_view op) {
  return static_cast<int>(
      absl::c_count_if(graph.nodes(), [&](Node* node) { return node->Is(op); }));
}

const tensorflow::NodeDef* Find(const ShardPart& part, absl::string_view name) {
  for (const tensorflow::NodeDef& node : part.graph.node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

std::vector<std::string> Ops(const ShardPart& part) {
  std::vector<std::string> ops;
  for (const tensorflow::NodeDef& node : part.graph.node()) ops.push_back(node.op());
  std::sort(ops.begin(), ops.end());
  return ops;
}

const Program* FindProgram(const CutStep& step, int shard, absl::string_view name) {
  for (const ShardPart& part : step.shards) {
    if (part.shard != shard) continue;
    for (const Program& program : part.programs) {
      if (program.name() == name) return &program;
    }
  }
  return nullptr;
}

// A small graph with variables on two servers.
class CutTest : public ::testing::Test {
 protected:
  Output Handle(const std::string& name, const char* device, const Shape& shape = Shape({4, 2}),
                DataType dtype = kFloat32) {
    return scope_.WithDevice(device).WithOpName(name).Call(
        "VarHandleOp", {},
        {{"dtype", dtype}, {"shape", PartialShape(shape)}, {"shared_name", name}});
  }
  Output Read(const Output& handle, const char* device, DataType dtype = kFloat32) {
    return scope_.WithDevice(device)
        .WithOpName(handle.node->name() + "/read")
        .Call("ReadVariableOp", {handle}, {{"dtype", dtype}});
  }
  Output Fed(const std::string& name, const PartialShape& shape, DataType dtype = kFloat32) {
    return scope_.WithOpName(name).Call("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
  }
  absl::StatusOr<CutStep> Cut(const RunSignature& signature, bool shards_compute = false) {
    EXPECT_TRUE(scope_.ok()) << scope_.status();
    return CutGraph(*scope_.graph(), signature, {.name = "step", .shards_compute = shards_compute});
  }
  void ExpectRefused(const RunSignature& signature, absl::StatusCode code, const std::string& named,
                     bool shards_compute = false) {
    SCOPED_TRACE(named);
    const auto step = Cut(signature, shards_compute);
    EXPECT_EQ(step.status().code(), code) << step.status();
    EXPECT_TRUE(absl::StrContains(step.status().message(), named)) << step.status();
  }

  const Scope scope_ = Scope::NewRoot();
};

TEST_F(CutTest, AReadIsPulledAndWhatItIsForIsTheWorkers) {
  const Output x = Fed("x", PartialShape({-1, 1}));
  const Output w = Handle("w", kServer1);
  const Output y = scope_.WithOpName("y").Call("Mul", {x, Read(w, kServer1)});
  scope_.WithOpName("unneeded").Call("Neg", {y});
  const auto step = Cut({{"x"}, {"y"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(step->has_worker);
  EXPECT_EQ(step->signature.feeds, (std::vector<std::string>{"x", kRouteFeed}));
  EXPECT_EQ(step->signature.fetches, std::vector<std::string>{"y"});
  EXPECT_EQ(Count(step->worker, "VarHandleOp"), 0);
  EXPECT_EQ(Count(step->worker, "ReadVariableOp"), 0);
  EXPECT_EQ(Count(step->worker, "_TandemPull"), 1);
  EXPECT_EQ(Count(step->worker, "_TandemPush"), 0);
  EXPECT_EQ(step->worker.FindNode("unneeded"), nullptr);
  ASSERT_NE(step->worker.FindNode("y"), nullptr);
  const Node* const pull = step->worker.FindNode("y")->input(1).node;
  EXPECT_EQ(pull->type(), "_TandemPull");
  EXPECT_EQ(*pull->Attr<int64_t>("shard"), 1);
  EXPECT_EQ(*pull->Attr<std::string>("program"), "step/pull");
  EXPECT_EQ(pull->output_info(1).shape, PartialShape({4, 2}));
  for (const Node* node : step->worker.nodes()) {
    EXPECT_FALSE(absl::StrContains(node->requested_device(), "job")) << node->name();
  }
  ASSERT_EQ(step->shards.size(), 1u);
  EXPECT_EQ(step->shards[0].shard, 1);
  EXPECT_EQ(Ops(step->shards[0]), (std::vector<std::string>{"ReadVariableOp", "VarHandleOp"}));
  EXPECT_EQ(Find(step->shards[0], "w")->device(), "/device:CPU:0");
  ASSERT_EQ(step->shards[0].programs.size(), 1u);
  const Program& program = step->shards[0].programs[0];
  EXPECT_EQ(program.name(), "step/pull");
  EXPECT_FALSE(program.updates());
  EXPECT_EQ(program.feeds_size(), 0);
  ASSERT_EQ(program.fetches_size(), 1);
  EXPECT_EQ(program.fetches(0), "w/read:0");
}

TEST_F(CutTest, AllReadsOfAShardAreOnePullAndAllUpdatesOnePush) {
  const Output a = Handle("a", kServer0);
  const Output b = Handle("b", kServer0);
  const Output c = Handle("c", kServer1);
  std::vector<Node*> updates;
  for (const auto& [handle, device] :
       {std::make_pair(a, kServer0), std::make_pair(b, kServer0), std::make_pair(c, kServer1)}) {
    const Output twice = scope_.Call("AddV2", {Read(handle, device), Read(handle, device)});
    updates.push_back(scope_.WithDevice(device).AddNode("AssignAddVariableOp", {handle, twice}));
  }
  scope_.WithControlDependencies(updates).WithOpName("done").AddNode("NoOp", {});
  const auto step = Cut({{}, {}, {"done"}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(Count(step->worker, "_TandemPull"), 2);
  EXPECT_EQ(Count(step->worker, "_TandemPush"), 2);
  const Program* const push = FindProgram(*step, 0, "step/push");
  ASSERT_NE(push, nullptr);
  EXPECT_TRUE(push->updates());
  EXPECT_EQ(push->feeds_size(), 2);
  EXPECT_EQ(push->fetches_size(), 0);
  EXPECT_EQ(push->targets_size(), 2);
  EXPECT_EQ(push->combinations_size(), 2);
  EXPECT_EQ(push->combinations(0), SUM);
  // No push before all that any shard gets is there; the target waits for all pushes.
  int pushes = 0;
  for (const Node* node : step->worker.nodes()) {
    if (!node->Is("_TandemPush")) continue;
    ++pushes;
    EXPECT_EQ(node->input(1).node->type(), "_TandemPull");  // The version that was pulled.
    ASSERT_EQ(node->control_inputs().size(), 1u);
    const auto waits = node->control_inputs()[0]->control_inputs();
    EXPECT_EQ(absl::c_count_if(waits, [](const Node* n) { return n->Is("AddV2"); }), 3);
    EXPECT_EQ(absl::c_count_if(waits, [](const Node* n) { return n->Is("_TandemPull"); }), 2);
    EXPECT_TRUE(absl::c_linear_search(step->worker.FindNode("done")->control_inputs(), node));
  }
  EXPECT_EQ(pushes, 2);
}

TEST_F(CutTest, ALookupWhoseIdsWereReadIsAPullBehindAnother) {
  const Output ids = Handle("ids", kServer0, Shape({3}), kInt64);
  const Output table = Handle("table", kServer0, Shape({10, 2}));
  const Output other = Handle("other", kServer1, Shape({10, 2}));
  const Output read = Read(ids, kServer0, kInt64);
  const Output first = scope_.WithDevice(kServer0).WithOpName("first").Call(
      "ResourceGather", {table, read}, {{"dtype", kFloat32}});
  const Output next = scope_.Call("Cast", {scope_.Call("Sum", {first, 1})}, {{"DstT", kInt64}});
  const Output second = scope_.WithDevice(kServer1).WithOpName("second").Call(
      "ResourceGather", {other, next}, {{"dtype", kFloat32}});
  const Output constant =
      scope_.WithDevice(kServer1)
          .WithOpName("constant")
          .Call("ResourceGather", {other, Tensor::Vector<int64_t>({1, 2})}, {{"dtype", kFloat32}});
  scope_.WithOpName("y").Call("Pack",
                              {scope_.Call("Sum", {second, Tensor::Vector<int32_t>({0, 1})}),
                               scope_.Call("Sum", {constant, Tensor::Vector<int32_t>({0, 1})})});
  const auto step = Cut({{}, {"y"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_EQ(step->shards.size(), 2u);
  ASSERT_NE(FindProgram(*step, 0, "step/pull"), nullptr);
  EXPECT_EQ(FindProgram(*step, 0, "step/pull")->fetches(0), "ids/read:0");
  ASSERT_NE(FindProgram(*step, 0, "step/pull_1"), nullptr);
  EXPECT_EQ(FindProgram(*step, 0, "step/pull_1")->feeds_size(), 1);
  ASSERT_NE(FindProgram(*step, 1, "step/pull_2"), nullptr);
  // Constants are there already.
  ASSERT_NE(FindProgram(*step, 1, "step/pull"), nullptr);
  EXPECT_EQ(FindProgram(*step, 1, "step/pull")->feeds_size(), 0);
  EXPECT_EQ(FindProgram(*step, 1, "step/pull")->fetches(0), "constant:0");
}

TEST_F(CutTest, FetchedReadsAndTargetedUpdatesKeepTheirNames) {
  const Output w = Handle("w", kServer0);
  Read(w, kServer0);
  const Output x = Fed("x", PartialShape({4, 2}));
  scope_.WithDevice(kServer0).WithOpName("add").AddNode("AssignAddVariableOp", {w, x});
  const auto step = Cut({{"x"}, {"w/read"}, {"add"}});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_NE(step->worker.FindNode("w/read"), nullptr);
  EXPECT_EQ(step->worker.FindNode("w/read")->input(0).node->type(), "_TandemPull");
  ASSERT_NE(step->worker.FindNode("add"), nullptr);
  ASSERT_EQ(step->worker.FindNode("add")->control_inputs().size(), 1u);
  EXPECT_EQ(step->worker.FindNode("add")->control_inputs()[0]->type(), "_TandemPush");
}

TEST_F(CutTest, WhatIsFedIsNotRead) {
  const Output w = Handle("w", kServer0);
  const Output read = Read(w, kServer0);
  scope_.WithOpName("y").Call("Neg", {read});
  const auto step = Cut({{"w/read"}, {"y"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(step->shards.empty());
  ASSERT_NE(step->worker.FindNode("w/read"), nullptr);
  EXPECT_EQ(step->worker.FindNode("w/read")->type(), "Placeholder");
  EXPECT_EQ(step->worker.FindNode("y")->input(0).node, step->worker.FindNode("w/read"));
}

TEST_F(CutTest, AReadOfWhichNobodyTakesTheValueIsNotMade) {
  const Output w = Handle("w", kServer0);
  const Output read = Read(w, kServer0);
  scope_.WithControlDependencies({read.node}).WithOpName("y").AddNode("NoOp", {});
  const auto step = Cut({{}, {}, {"y"}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(step->shards.empty());
  EXPECT_EQ(Count(step->worker, "_TandemPull"), 0);
}

TEST_F(CutTest, NodesOfAnUpdateOnTheServersDeviceRunThere) {
  const Output w = Handle("w", kServer0);
  const Output values = Fed("values", PartialShape({-1, 2}));
  const Output rows = Fed("rows", PartialShape({-1}), kInt64);
  const Output rate = Fed("rate", PartialShape({}));
  const Scope there = scope_.WithDevice(kServer0);
  const Output dense = there.Call("UnsortedSegmentSum", {values, rows, Tensor::Scalar<int64_t>(4)});
  there.WithOpName("apply").AddNode("ResourceApplyGradientDescent", {w, rate, dense});
  const auto step = Cut({{"values", "rows", "rate"}, {}, {"apply"}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(Count(step->worker, "UnsortedSegmentSum"), 0);
  const Program* const push = FindProgram(*step, 0, "step/push");
  ASSERT_NE(push, nullptr);
  ASSERT_EQ(push->feeds_size(), 3);
  EXPECT_EQ(push->feeds(0), "values/argument_0:0");
  EXPECT_EQ(push->combinations(0), CONCAT);
  EXPECT_EQ(push->feeds(1), "rows/argument_0:0");
  EXPECT_EQ(push->combinations(1), CONCAT);
  EXPECT_EQ(push->feeds(2), "rate/argument_0:0");
  EXPECT_EQ(push->combinations(2), FIRST);
}

TEST_F(CutTest, AssignedValuesBecomeWhatTheirNodeSays) {
  const Output x = Fed("x", PartialShape({4, 2}));
  for (const char* said : {"", "SUM", "FIRST"}) {
    const Output w = Handle(std::string("w") + said, kServer0);
    AttrMap attrs;
    if (*said != 0) attrs[kCombinationAttr] = said;
    scope_.WithDevice(kServer0)
        .WithOpName(std::string("assign") + said)
        .AddNode("AssignVariableOp", {w, scope_.Call("Neg", {x})}, attrs);
  }
  const auto step = Cut({{"x"}, {}, {"assign", "assignSUM", "assignFIRST"}});
  ASSERT_TRUE(step.ok()) << step.status();
  const Program* const push = FindProgram(*step, 0, "step/push");
  ASSERT_NE(push, nullptr);
  ASSERT_EQ(push->combinations_size(), 3);
  EXPECT_EQ(push->combinations(0), MEAN);
  EXPECT_EQ(push->combinations(1), SUM);
  EXPECT_EQ(push->combinations(2), FIRST);
}

TEST_F(CutTest, WithoutAWorkerShardsComputeAllThatTheyNeed) {
  const Output a = Handle("a", kServer0, Shape({2}));
  const Output b = Handle("b", kServer1, Shape({2}));
  const Output whole = scope_.WithOpName("whole").Call("Range", {0.0f, 4.0f, 1.0f});
  std::vector<Node*> updates;
  for (const auto& [handle, first] : {std::make_pair(a, 0), std::make_pair(b, 2)}) {
    const Output part = scope_.Call(
        "Slice", {whole, Tensor::Vector<int32_t>({first}), Tensor::Vector<int32_t>({2})});
    updates.push_back(scope_.AddNode("AssignVariableOp", {handle, part}));
  }
  scope_.WithControlDependencies(updates).WithOpName("done").AddNode("NoOp", {});
  const auto step = Cut({{}, {}, {"done"}}, /*shards_compute=*/true);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_FALSE(step->has_worker);
  ASSERT_EQ(step->shards.size(), 2u);
  for (const ShardPart& part : step->shards) {
    EXPECT_NE(Find(part, "whole"), nullptr);
    ASSERT_EQ(part.programs.size(), 1u);
    EXPECT_EQ(part.programs[0].name(), "step/push");
    EXPECT_EQ(part.programs[0].feeds_size(), 0);
    EXPECT_EQ(part.programs[0].targets_size(), 1);
  }
  EXPECT_EQ(Find(step->shards[0], "b"), nullptr);
}

TEST_F(CutTest, RefusesWithoutAWorkerWhatOneIsNeededFor) {
  const Output a = Handle("a", kServer0);
  const Output b = Handle("b", kServer1);
  const Output x = Fed("x", PartialShape({4, 2}));
  scope_.WithOpName("across").AddNode("AssignVariableOp", {a, Read(b, kServer1)});
  scope_.WithOpName("fed").AddNode("AssignVariableOp", {a, x});
  scope_.WithOpName("plain").Call("Neg", {x});
  ExpectRefused({{}, {}, {"across"}}, absl::StatusCode::kInvalidArgument, "b/read", true);
  ExpectRefused({{"x"}, {}, {"fed"}}, absl::StatusCode::kInvalidArgument, "feeds", true);
  ExpectRefused({{}, {}, {"plain"}}, absl::StatusCode::kInvalidArgument, "plain", true);
}

TEST_F(CutTest, RefusesWhatCannotBeTakenApart) {
  const Output a = Handle("a", kServer0);
  const Output b = Handle("b", kServer1);
  const Output nowhere = Handle("nowhere", "/job:ps");
  const Output x = Fed("x", PartialShape({4, 2}));
  const Output rate = Fed("rate", PartialShape({}));
  const Scope server = scope_.WithDevice(kServer0);
  using Code = absl::StatusCode;

  server.WithOpName("two").AddNode("ResourceApplyKerasMomentum",
                                   {a, b, rate, x, Tensor::Scalar(0.9f)});
  ExpectRefused({{"x", "rate"}, {}, {"two"}}, Code::kInvalidArgument, "two");

  const Output alias = scope_.WithOpName("alias").Call("Identity", {a});
  scope_.WithOpName("of_alias").Call("ReadVariableOp", {alias}, {{"dtype", kFloat32}});
  ExpectRefused({{}, {"of_alias"}, {}}, Code::kInvalidArgument, "alias");

  ExpectRefused({{}, {"a"}, {}}, Code::kInvalidArgument, "'a'");
  ExpectRefused({{}, {}, {"a"}}, Code::kInvalidArgument, "'a'");

  Node* const add = server.WithOpName("add").AddNode("AssignAddVariableOp", {a, x});
  server.WithControlDependencies({add}).WithOpName("after").Call("ReadVariableOp", {a},
                                                                 {{"dtype", kFloat32}});
  ExpectRefused({{"x"}, {"after"}, {}}, Code::kInvalidArgument, "after");

  server.WithOpName("destroy").AddNode("DestroyResourceOp", {a});
  ExpectRefused({{}, {}, {"destroy"}}, Code::kInvalidArgument, "destroy");

  const Output relu = server.WithOpName("exp").Call("Exp", {x});
  server.WithOpName("of_exp").AddNode("AssignAddVariableOp", {a, relu});
  ExpectRefused({{"x"}, {}, {"of_exp"}}, Code::kInvalidArgument, "exp");

  const Output both = scope_.WithOpName("both").Call("Neg", {x});
  Node* const sum = server.AddNode("AssignAddVariableOp", {a, both});
  Node* const mean = server.AddNode("AssignVariableOp", {a, both});
  scope_.WithControlDependencies({sum, mean}).WithOpName("two_things").AddNode("NoOp", {});
  ExpectRefused({{"x"}, {}, {"two_things"}}, Code::kInvalidArgument, "both");

  scope_.WithOpName("switched").CallMulti("Switch", {a, Tensor::Scalar<bool>(true)});
  ExpectRefused({{}, {"switched"}, {}}, Code::kUnimplemented, "switched");

  scope_.WithOpName("of_nowhere").Call("ReadVariableOp", {nowhere}, {{"dtype", kFloat32}});
  ExpectRefused({{}, {"of_nowhere"}, {}}, Code::kInvalidArgument, "nowhere");

  ExpectRefused({{}, {"absent"}, {}}, Code::kNotFound, "absent");
  ExpectRefused({{}, {}, {}}, Code::kInvalidArgument, "step");
  ExpectRefused({{"x", "x"}, {"both"}, {}}, Code::kInvalidArgument, "twice");
  EXPECT_EQ(CutGraph(*scope_.graph(), {{}, {"both"}, {}}, {}).status().code(),
            Code::kInvalidArgument);

  Fed("route", PartialShape({}));
  ExpectRefused({{"x"}, {"both"}, {}}, Code::kInvalidArgument, "route");
}

TEST_F(CutTest, AProgramWithoutVariablesIsTheWorkersAlone) {
  scope_.WithOpName("y").Call("Neg", {Fed("x", PartialShape({2}))});
  const auto step = Cut({{"x"}, {"y"}, {}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(step->has_worker);
  EXPECT_TRUE(step->shards.empty());
}

// --- Steps of the builder

struct Training {
  std::unique_ptr<ParameterBuilder> builder;
  RunSignature signature;
};

// A table in parts on two servers of which rows are looked up, and a vector.
absl::StatusOr<Training> Build(const optimizer::OptimizerPtr& optimizer) {
  ParameterBuilderOptions options;
  options.shards = 2;
  options.min_part_bytes = 64;
  Training training;
  TANDEM_ASSIGN_OR_RETURN(training.builder, NewParameterBuilder(options));
  ParameterBuilder& builder = *training.builder;
  const Scope host = builder.host_scope();
  const Output ids = host.WithOpName("ids").Call(
      "Placeholder", {}, {{"dtype", kInt32}, {"shape", PartialShape({-1})}});
  const Output rate = host.WithOpName("rate").Call(
      "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  const Output number = host.WithOpName("number").Call(
      "Placeholder", {}, {{"dtype", kInt64}, {"shape", PartialShape({})}});
  const auto variable = [&](const std::string& name, const Shape& shape) {
    VariableSpec spec;
    spec.name = name;
    spec.shape = shape;
    spec.initializer = [shape](const Scope& scope) {
      return scope.Call("Fill", {Tensor::Vector<int64_t>(shape.dims()), Tensor::Scalar(0.5f)});
    };
    return builder.Variable(spec);
  };
  TANDEM_ASSIGN_OR_RETURN(StrategyVariable * table, variable("table", Shape({100, 3})));
  TANDEM_ASSIGN_OR_RETURN(StrategyVariable * vector, variable("vector", Shape({3})));
  TANDEM_RETURN_IF_ERROR(builder.BeginStep("train", number));
  std::vector<PerReplicaGradient> gradients;
  TANDEM_RETURN_IF_ERROR(builder.Run([&](const ReplicaContext& replica) -> absl::Status {
    const Output rows = replica.Lookup(*table, ids, replica.scope());
    const Output weighted = replica.scope().Call("Mul", {rows, replica.Read(*vector)});
    const Output loss = replica.scope().Call("Sum", {weighted, Tensor::Vector<int32_t>({0, 1})});
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> mine,
                            replica.Gradients(loss, {table, vector}));
    for (const Gradient& gradient : mine) gradients.push_back({gradient});
    return absl::OkStatus();
  }));
  TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder.ReduceGradients(gradients));
  TANDEM_RETURN_IF_ERROR(
      optimizer::ApplyGradients(builder, *optimizer, {table, vector}, reduced, rate, number));
  TANDEM_ASSIGN_OR_RETURN(Node * done, builder.EndStep());
  training.signature = {{"ids", "rate", "number"}, {}, {done->name()}};
  return training;
}

struct OptimizerCase {
  std::string name;
  std::function<optimizer::OptimizerPtr()> make;
};

void PrintTo(const OptimizerCase& optimizer, std::ostream* out) { *out << optimizer.name; }

std::vector<OptimizerCase> Optimizers() {
  return {{"Sgd", [] { return optimizer::Sgd({}); }},
          {"Momentum", [] { return optimizer::Sgd({.momentum = 0.9}); }},
          {"Adam", [] { return optimizer::Adam({}); }},
          {"Amsgrad", [] { return optimizer::Adam({.amsgrad = true}); }},
          {"AdamW", [] { return optimizer::AdamW({}); }},
          {"Adagrad", [] { return optimizer::Adagrad({}); }},
          {"RmsProp", [] { return optimizer::RmsProp({}); }},
          {"Centered", [] { return optimizer::RmsProp({.centered = true}); }},
          {"Adadelta", [] { return optimizer::Adadelta({}); }},
          {"Ftrl", [] { return optimizer::Ftrl({}); }}};
}

class CutTraining : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(CutTraining, RowsTravelAndServersUpdate) {
  auto training = Build(GetParam().make());
  ASSERT_TRUE(training.ok()) << training.status();
  const auto step = CutGraph(*training->builder->graph(), training->signature, {.name = "train"});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_EQ(step->shards.size(), 2u);
  for (const Node* node : step->worker.nodes()) {
    EXPECT_FALSE(absl::StartsWith(node->type(), "Resource")) << node->name();
    // Nothing of the table's size is there.
    for (int i = 0; i < node->num_outputs(); ++i) {
      const PartialShape& shape = node->output_info(i).shape;
      EXPECT_FALSE(shape.has_rank() && shape.rank() == 2 && shape.dim(0) >= 50) << node->name();
    }
  }
  for (const ShardPart& part : step->shards) {
    // The table is never read, but by the programs of updates, and there at most its slots.
    EXPECT_EQ(Find(part, "table/ReadVariableOp"), nullptr);
    const Program* const push = FindProgram(*step, part.shard, "train/push");
    ASSERT_NE(push, nullptr);
    ASSERT_EQ(push->combinations_size(), push->feeds_size());
    EXPECT_GE(absl::c_count(push->combinations(), CONCAT), 2);
    ASSERT_NE(FindProgram(*step, part.shard, "train/pull"), nullptr);
  }
  // One of them has the vector, whose gradient is dense.
  int sums = 0;
  for (const ShardPart& part : step->shards) {
    sums += static_cast<int>(
        absl::c_count(FindProgram(*step, part.shard, "train/push")->combinations(), SUM));
  }
  EXPECT_EQ(sums, 1);
}

TEST_P(CutTraining, TheSameProgramIsCutToTheSameBytes) {
  std::vector<std::string> bytes[2];
  for (auto& list : bytes) {
    auto training = Build(GetParam().make());
    ASSERT_TRUE(training.ok()) << training.status();
    const auto step = CutGraph(*training->builder->graph(), training->signature, {.name = "train"});
    ASSERT_TRUE(step.ok()) << step.status();
    const auto worker = ExportGraphDef(step->worker, {.internal_ops = true});
    ASSERT_TRUE(worker.ok()) << worker.status();
    list.push_back(DeterministicBytes(*worker));
    for (const ShardPart& part : step->shards) {
      list.push_back(DeterministicBytes(part.graph));
      for (const Program& program : part.programs) list.push_back(program.SerializeAsString());
    }
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

INSTANTIATE_TEST_SUITE_P(All, CutTraining, ::testing::ValuesIn(Optimizers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::parameter_server
