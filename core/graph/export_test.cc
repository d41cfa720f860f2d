#include "core/graph/export.h"

#include "core/graph/scope.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

TEST(ExportTest, NodesAreWrittenInFull) {
  const Scope root = Scope::NewRoot();
  const Output x =
      root.WithOpName("x").WithDevice("/cpu:0").Call("Placeholder", {}, {{"dtype", kFloat32}});
  const std::vector<Output> top = root.WithOpName("top").CallMulti("TopKV2", {x, x}, {});
  EXPECT_TRUE(top.empty());  // k must be an integer: the error stays, so start again.

  const Scope again = Scope::ForGraph(root.graph());
  Node* const first = again.WithOpName("first").AddNode("NoOp", {});
  Node* const y = again.WithOpName("y").WithControlDependencies({first}).AddNode("MatMul", {x, x});
  ASSERT_NE(y, nullptr) << again.status();
  y->set_device("/job:a/replica:0/task:0/device:CPU:1");
  const auto def = ExportGraphDef(*root.graph());
  ASSERT_TRUE(def.ok()) << def.status();
  tensorflow::GraphDef expected;
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString(R"pb(
                                                      node {
                                                        name: "x"
                                                        op: "Placeholder"
                                                        device: "/device:CPU:0"
                                                        attr {
                                                          key: "dtype"
                                                          value { type: DT_FLOAT }
                                                        }
                                                        attr {
                                                          key: "shape"
                                                          value { shape { unknown_rank: true } }
                                                        }
                                                      }
                                                      node { name: "first" op: "NoOp" }
                                                      node {
                                                        name: "y"
                                                        op: "MatMul"
                                                        input: "x"
                                                        input: "x"
                                                        input: "^first"
                                                        attr {
                                                          key: "T"
                                                          value { type: DT_FLOAT }
                                                        }
                                                        attr {
                                                          key: "transpose_a"
                                                          value { b: false }
                                                        }
                                                        attr {
                                                          key: "transpose_b"
                                                          value { b: false }
                                                        }
                                                      }
                                                      library {}
                                                      versions { producer: 2474 })pb",
                                                    &expected));
  EXPECT_EQ(def->DebugString(), expected.DebugString());

  ExportOptions placed;
  placed.placed_devices = true;
  EXPECT_EQ(ExportGraphDef(*root.graph(), placed)->node(2).device(),
            "/job:a/replica:0/task:0/device:CPU:1");
}

TEST(ExportTest, OutputsOtherThanTheFirstHaveAnIndex) {
  const Scope root = Scope::NewRoot();
  const Output x = root.Call("Placeholder", {}, {{"dtype", kFloat32}});
  const std::vector<Output> top = root.CallMulti("TopKV2", {x, 3});
  ASSERT_EQ(top.size(), 2u) << root.status();
  root.WithOpName("i").Call("Identity", {top[1]});
  const auto def = ExportGraphDef(*root.graph());
  EXPECT_EQ(def->node(def->node_size() - 1).input(0), "TopKV2:1");
}

TEST(ExportTest, AnInputThatIsMissingIsAnError) {
  Graph graph;
  NodeSpec spec;
  spec.name = "merge";
  spec.op = "Merge";
  spec.attrs = {{"T", kFloat32}, {"N", 2}};
  spec.first_missing_input = 0;
  ASSERT_TRUE(graph.AddNode(std::move(spec)).ok());
  const absl::Status status = ExportGraphDef(graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 'merge' (Merge)"));
}

TEST(ExportTest, InternalOpsStayInTheProcess) {
  OpRegistry registry;
  ASSERT_TRUE(registry.Register(OpDefBuilder("_TandemFused").Shape(NoOutputs)).ok());
  Graph graph(registry);
  NodeSpec spec;
  spec.name = "fused";
  spec.op = "_TandemFused";
  ASSERT_TRUE(graph.AddNode(std::move(spec)).ok());
  EXPECT_EQ(ExportGraphDef(graph).status().code(), absl::StatusCode::kFailedPrecondition);
  ExportOptions options;
  options.internal_ops = true;
  EXPECT_TRUE(ExportGraphDef(graph, options).ok());
}

TEST(ExportTest, BytesDependOnTheGraphAlone) {
  std::string first;
  for (int run = 0; run < 5; ++run) {
    const Scope root = Scope::NewRoot();
    const Output x = root.Constant({1.0f, 2.0f});
    root.Call("Conv2D", {x, x},
              {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}});
    ASSERT_TRUE(root.ok()) << root.status();
    const std::string bytes = DeterministicBytes(*ExportGraphDef(*root.graph()));
    if (run == 0) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

}  // namespace
}  // namespace tandem
