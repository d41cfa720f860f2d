// What a shard is given: graphs, programs and variables, and what it refuses.
#include "core/graph/export.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/shard_test_util.h"
#include "runtime/session/session.h"

namespace tandem::parameter_server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Extend(Shard& shard, const Definition& definition) {
  return shard.Extend(definition.graph, definition.programs, definition.variables);
}

std::unique_ptr<Shard> EmptyShard() {
  absl::StatusOr<std::unique_ptr<Shard>> shard = Shard::Create({});
  EXPECT_TRUE(shard.ok()) << shard.status();
  return *std::move(shard);
}

// A variable v that is set to 3, and doubled.
Definition Small() {
  DefinitionBuilder b;
  const Output v = b.AddVariable("v", kFloat32, {1});
  b.scope().WithOpName("init").AddNode("AssignVariableOp", {v, {3.f}});
  b.AddPush("init/push", {}, {"init"});
  const Output read =
      b.scope().WithOpName("read").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  b.scope().WithOpName("double").AddNode("AssignAddVariableOp", {v, read});
  b.AddPush("double/push", {}, {"double"});
  return b.Finish();
}

tensorflow::NodeDef* FindNode(tensorflow::GraphDef& graph, const std::string& name) {
  for (tensorflow::NodeDef& node : *graph.mutable_node()) {
    if (node.name() == name) return &node;
  }
  ADD_FAILURE() << "no node " << name;
  return nullptr;
}

TEST(ShardGraph, ARepeatedExtendChangesNothing) {
  const auto shard = MakeShard(Small());
  ASSERT_TRUE(StartPush(*shard, Id(7, 1), "double/push", {}).status().ok());
  EXPECT_TRUE(Extend(*shard, Small()).ok());
  EXPECT_TRUE(shard->Extend({}, {}, {}).ok());
  EXPECT_THAT(Floats((*shard->Read({"v"}))[0]), ElementsAre(6));
  EXPECT_EQ(shard->version(), 2);
  EXPECT_THAT(shard->variables(), ElementsAre("v"));
}

TEST(ShardGraph, GrowsAroundWhatItHas) {
  const auto shard = MakeShard(Small());
  // A program over nodes that are there, and a variable beside the other one.
  Definition more = Small();
  DefinitionBuilder b;
  const Output u = b.AddVariable("u", kFloat32, {2});
  b.scope().WithOpName("init_u").AddNode("AssignVariableOp", {u, {1.f, 2.f}});
  Definition other = b.Finish();
  *more.graph.mutable_node()->Add() = other.graph.node(0);
  for (int i = 1; i < other.graph.node_size(); ++i) {
    *more.graph.mutable_node()->Add() = other.graph.node(i);
  }
  more.variables.push_back(other.variables[0]);
  Program& init = more.programs.emplace_back();
  init.set_name("init_u/push");
  init.set_updates(true);
  init.add_targets("init_u");
  Program& read = more.programs.emplace_back();
  read.set_name("read/pull");
  read.add_fetches("read:0");
  ASSERT_TRUE(Extend(*shard, more).ok()) << Extend(*shard, more);
  const auto pulled = StartPull(*shard, "read/pull").Wait();
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(Floats(pulled->results[0]), ElementsAre(3));
  EXPECT_EQ(shard->Capture().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(StartPush(*shard, Id(7, 1), "init_u/push", {}).status().ok());
  // Programs of both times work on the same variables.
  ASSERT_TRUE(StartPush(*shard, Id(7, 2), "double/push", {}).status().ok());
  const auto state = shard->Capture();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_EQ(state->variables.size(), 2u);
  EXPECT_EQ(state->variables[0].first, "v");
  EXPECT_THAT(Floats(state->variables[0].second), ElementsAre(6));
  EXPECT_THAT(Floats(state->variables[1].second), ElementsAre(1, 2));
}

TEST(ShardGraph, NodesMayComeThatTakeFromThoseThatAreThere) {
  const auto shard = MakeShard(Small());
  Definition more;
  tensorflow::NodeDef& node = *more.graph.add_node();
  node.set_name("twice");
  node.set_op("AddV2");
  node.add_input("read");
  node.add_input("read");
  (*node.mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  Program& program = more.programs.emplace_back();
  program.set_name("twice/pull");
  program.add_fetches("twice:0");
  ASSERT_TRUE(Extend(*shard, more).ok()) << Extend(*shard, more);
  const auto pulled = StartPull(*shard, "twice/pull").Wait();
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_THAT(Floats(pulled->results[0]), ElementsAre(6));
}

TEST(ShardGraph, WhatIsThereAndDiffersIsRefused) {
  const auto shard = MakeShard(Small());
  Definition node = Small();
  FindNode(node.graph, "read")->set_device("/device:CPU:0");
  Definition program = Small();
  program.programs[1].add_targets("init");
  Definition variable = Small();
  variable.variables[0].set_offset(5);
  Definition same_handle = Small();
  same_handle.variables.push_back(same_handle.variables[0]);
  same_handle.variables.back().set_name("other");
  Definition twice = Small();
  twice.programs.push_back(twice.programs[0]);
  twice.programs.back().set_name("new/push");
  twice.programs.push_back(twice.programs.back());
  twice.programs.back().add_targets("double");
  for (const Definition& other : {node, program, variable, same_handle, twice}) {
    const absl::Status status = Extend(*shard, other);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  EXPECT_EQ(StartPush(*shard, Id(7, 1), "new/push", {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ShardGraph, AfterARefusalNothingHasChanged) {
  const auto shard = EmptyShard();
  Definition bad = Small();
  bad.programs[1].set_targets(0, "duoble");
  const absl::Status refused = Extend(*shard, bad);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("double"));
  EXPECT_TRUE(shard->variables().empty());
  EXPECT_EQ(StartPush(*shard, Id(7, 1), "init/push", {}).status().code(),
            absl::StatusCode::kNotFound);
  // Nodes of the same names, and others.
  Definition good = Small();
  FindNode(good.graph, "read")->set_device("/device:CPU:0");
  EXPECT_TRUE(Extend(*shard, good).ok()) << Extend(*shard, good);
  ASSERT_TRUE(StartPush(*shard, Id(7, 1), "init/push", {}).status().ok());
  ASSERT_TRUE(StartPush(*shard, Id(7, 2), "double/push", {}).status().ok());
  EXPECT_THAT(Floats((*shard->Read({"v"}))[0]), ElementsAre(6));
}

TEST(ShardGraph, ProgramsAndVariablesThatMakeNoSense) {
  const auto changed = [](auto change) {
    Definition definition = CounterDefinition();
    change(definition);
    return definition;
  };
  const auto program = [](Definition& d, const std::string& name) -> Program& {
    for (Program& one : d.programs) {
      if (one.name() == name) return one;
    }
    ADD_FAILURE() << name;
    return d.programs[0];
  };
  const std::vector<Definition> bad = {
      changed([&](Definition& d) { program(d, "count/push").add_fetches("read_count:0"); }),
      changed([&](Definition& d) { program(d, "count/push").add_combinations(SUM); }),
      changed([&](Definition& d) { program(d, "count/push").set_feeds(0, "nowhere:0"); }),
      changed([&](Definition& d) { program(d, "count/push").set_feeds(0, "^n"); }),
      changed([&](Definition& d) { program(d, "count/push").set_feeds(0, "n:3"); }),
      changed([&](Definition& d) { program(d, "count/push").clear_targets(); }),
      changed([&](Definition& d) {
        program(d, "count/push").set_combinations(0, static_cast<Combination>(9));
      }),
      changed([&](Definition& d) { program(d, "read/pull").set_fetches(0, "nowhere:0"); }),
      changed([&](Definition& d) { d.variables[0].set_handle("nowhere"); }),
      changed([&](Definition& d) { d.variables[0].set_handle("zeros"); }),
      changed([&](Definition& d) { d.variables[0].set_handle("count:1"); }),
      changed([&](Definition& d) { d.variables[0].set_name(""); }),
      changed([&](Definition& d) { d.variables[0].set_name("_tandem/shard"); }),
      changed([&](Definition& d) { d.variables[1].set_name("count"); }),
      changed([&](Definition& d) { d.graph.mutable_node(0)->set_op("_TandemAllReduce"); }),
      changed([&](Definition& d) { d.graph.mutable_node(0)->set_op("_Arg"); }),
      changed([&](Definition& d) { d.graph.mutable_node(0)->set_name("tandem_shard/read/0"); }),
      changed([&](Definition& d) { d.graph.mutable_node(0)->set_device("/job:/x"); }),
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    const auto shard = EmptyShard();
    const absl::Status status = Extend(*shard, bad[i]);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << i << ": " << status;
    EXPECT_TRUE(Extend(*shard, CounterDefinition()).ok()) << i;
  }
}

TEST(ShardGraph, OptionsThatMakeNoSense) {
  ShardOptions unordered;
  unordered.on_applied = [](AppliedPush, absl::AnyInvocable<void(absl::Status)> answered) {
    answered(absl::OkStatus());
  };
  EXPECT_EQ(Shard::Create(std::move(unordered)).status().code(),
            absl::StatusCode::kInvalidArgument);
  ShardOptions no_memory;
  no_memory.max_waiting_bytes = 0;
  EXPECT_EQ(Shard::Create(std::move(no_memory)).status().code(),
            absl::StatusCode::kInvalidArgument);
  ShardOptions no_patience;
  no_patience.patience = absl::ZeroDuration();
  EXPECT_EQ(Shard::Create(std::move(no_patience)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A shard's updates have the bits that a session's have, which runs the same nodes.
TEST(ShardGraph, OptimizersComputeWhatTheyDoInASession) {
  const auto shard = MakeShard(OptimizerDefinition());
  Scope s = Scope::NewRoot();
  const auto variable = [&](const std::string& name, const Input& value, PartialShape shape) {
    const Output handle =
        s.WithOpName(name).Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", shape}});
    s.WithOpName("init_" + name).AddNode("AssignVariableOp", {handle, value});
    s.WithOpName("read_" + name).Call("ReadVariableOp", {handle}, {{"dtype", kFloat32}});
    return handle;
  };
  const Output w = variable("w", {0.1f, -0.2f, 0.3f}, {3});
  const Output m = variable("m", {0.f, 0.f, 0.f}, {3});
  const Output v = variable("v", {0.f, 0.f, 0.f}, {3});
  const Output rows = s.Call("Fill", {{10, 2}, 0.5f});
  const Output table = variable("table", rows, {10, 2});
  const Output accum = variable("accum", rows, {10, 2});
  const auto placeholder = [&](const std::string& name, DataType dtype) {
    return s.WithOpName(name).Call("Placeholder", {}, {{"dtype", dtype}});
  };
  s.WithOpName("adam").AddNode("ResourceApplyAdam", {w, m, v, 0.9f, 0.999f, 0.01f, 0.9f, 0.999f,
                                                     1e-8f, placeholder("grad", kFloat32)});
  s.WithOpName("adagrad").AddNode(
      "ResourceSparseApplyAdagrad",
      {table, accum, 0.1f, placeholder("values", kFloat32), placeholder("rows", kInt64)});
  ASSERT_TRUE(s.ok()) << s.status();
  const auto session = Session::Create(*s.graph(), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(
      (*session)->Run({}, {}, {"init_w", "init_m", "init_v", "init_table", "init_accum"}).ok());
  for (int step = 1; step <= 5; ++step) {
    const auto x = static_cast<float>(step);
    const Tensor grad = Tensor::Vector<float>({0.1f * x, -0.3f, 0.7f / x});
    const Tensor values = Tensor::FromValues<float>({2, 2}, {x, 0.5f * x, -x, 1.f / x});
    const Tensor indices = Tensor::Vector<int64_t>({step, 9});
    ASSERT_TRUE(
        StartPush(*shard, Id(7, step), "train/push", {grad, values, indices}).status().ok());
    ASSERT_TRUE(
        (*session)
            ->Run({{"grad", grad}, {"values", values}, {"rows", indices}}, {}, {"adam", "adagrad"})
            .ok());
  }
  const auto got = shard->Read({"w", "w/m", "w/v", "table", "table/accum"});
  const auto expected =
      (*session)->Run({}, {"read_w", "read_m", "read_v", "read_table", "read_accum"});
  ASSERT_TRUE(got.ok() && expected.ok()) << got.status() << expected.status();
  for (size_t i = 0; i < got->size(); ++i) {
    EXPECT_TRUE(SameBits((*got)[i], (*expected)[i]))
        << i << ": " << (*got)[i].DebugString(20) << " and " << (*expected)[i].DebugString(20);
  }
}

}  // namespace
}  // namespace tandem::parameter_server
