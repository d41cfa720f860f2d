#include "core/graph/missing_op.h"

#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "core/graph/import.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// "$x" in `text` is a float placeholder named x, "$T" says that T is float.
tensorflow::GraphDef Parse(std::string text) {
  absl::StrReplaceAll(
      {{"$x",
        "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }"},
       {"$T", "attr { key: 'T' value { type: DT_FLOAT } }"},
       {"$I", "attr { key: 'T' value { type: DT_INT32 } }"}},
      &text);
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def)) << text;
  return def;
}

ImportOptions Keep() {
  ImportOptions options;
  options.keep_unknown_ops = true;
  return options;
}

Graph Import(const std::string& text) {
  absl::StatusOr<Graph> graph = ImportGraphDef(Parse(text), Keep());
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

bool IsMissing(const Graph& graph, const char* name) {
  const Node* const node = graph.FindNode(name);
  EXPECT_NE(node, nullptr) << name;
  return node != nullptr && node->Is(kMissingOp);
}

TEST(MissingOp, StandsInThePlaceOfANodeAndGivesWhatOthersTake) {
  const Graph graph = Import(R"($x
      node { name: 'u' op: 'Unheard' input: 'x' input: '^x' device: '/job:ps'
             attr { key: 'what' value { i: 1 } } }
      node { name: 'a' op: 'Identity' input: 'u:2' $I }
      node { name: 'b' op: 'AddV2' input: 'u' input: 'x' $T })");
  const Node* const node = graph.FindNode("u");
  ASSERT_NE(node, nullptr);
  EXPECT_TRUE(node->Is(kMissingOp));
  EXPECT_EQ(*node->Attr<std::string>("op"), "Unheard");
  EXPECT_EQ(node->num_inputs(), 1);
  EXPECT_EQ(node->control_inputs().size(), 1u);
  EXPECT_EQ(node->requested_device(), "/job:ps");
  ASSERT_EQ(node->num_outputs(), 3);
  EXPECT_EQ(node->output_info(0).dtype, kFloat32);
  EXPECT_EQ(node->output_info(2).dtype, kInt32);
  EXPECT_FALSE(IsMissing(graph, "a"));
  EXPECT_FALSE(IsMissing(graph, "b"));
  const absl::Status status = CheckNoMissingOps(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("node 'u': there is no op 'Unheard'"));
}

TEST(MissingOp, AllAreNamedInOneMessage) {
  const Graph graph = Import(R"($x
      node { name: 'u' op: 'Unheard' input: 'x' }
      node { name: 'v' op: 'Unseen' input: 'u' input: 'u:1' }
      node { name: 'w' op: 'Unheard' input: '^v' })");
  EXPECT_THAT(std::string(CheckNoMissingOps(graph).message()),
              HasSubstr("2 names: 'Unheard' (node 'u' and 1 other); 'Unseen' (node 'v')"));
}

TEST(MissingOp, AGraphWithoutThemHasNone) {
  const Graph graph = Import("$x node { name: 'y' op: 'Identity' input: 'x' $T }");
  EXPECT_TRUE(CheckNoMissingOps(graph).ok());
}

TEST(MissingOp, ThoseInFunctionsAreNamedTooWhenSomethingIsMissing) {
  const std::string library = R"(
      library { function {
        signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT }
                    output_arg { name: 'r' type: DT_FLOAT } }
        node_def { name: 'n' op: 'Unseen' input: 'a' }
        node_def { name: 'i' op: 'Identity' input: 'a' $T }
        ret { key: 'r' value: 'i:output:0' } } })";
  const std::string call = "node { name: 'call' op: 'f' input: 'x' }";
  // Nobody knows yet whether it will be called.
  EXPECT_TRUE(CheckNoMissingOps(Import("$x" + call + library)).ok());
  const Graph graph = Import("$x" + call + "node { name: 'u' op: 'Unheard' }" + library);
  const absl::Status status = CheckNoMissingOps(graph);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'Unseen' (node 'f/n')"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'Unheard' (node 'u')"));
}

TEST(MissingOp, WhoTakesAReferenceOrAnotherTypeIsMissingToo) {
  const Graph graph = Import(R"($x
      node { name: 'v' op: 'StrangeVariable' }
      node { name: 'set' op: 'Assign' input: 'v' input: 'x' $T }
      node { name: 'after' op: 'Identity' input: 'set' $T }
      node { name: 'u' op: 'Unheard' }
      node { name: 'float' op: 'Identity' input: 'u' $T }
      node { name: 'int' op: 'Identity' input: 'u' $I }
      node { name: 'next' op: 'Identity' input: 'int' $I })");
  EXPECT_TRUE(IsMissing(graph, "set"));
  EXPECT_FALSE(IsMissing(graph, "after"));
  EXPECT_FALSE(IsMissing(graph, "float"));
  EXPECT_TRUE(IsMissing(graph, "int"));
  EXPECT_FALSE(IsMissing(graph, "next"));
  // They are no ops that anybody lacks.
  const absl::Status status = CheckNoMissingOps(graph);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'StrangeVariable'"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("Assign")));
}

TEST(MissingOp, LoopsMayHoldSome) {
  const Graph graph = Import(R"($x
      node { name: 'enter' op: 'Enter' input: 'x' $T attr { key: 'frame_name' value { s: 'f' } } }
      node { name: 'merge' op: 'Merge' input: 'enter' input: 'next' $T
             attr { key: 'N' value { i: 2 } } }
      node { name: 'less' op: 'Less' input: 'merge' input: 'merge' $T }
      node { name: 'cond' op: 'LoopCond' input: 'less' }
      node { name: 'switch' op: 'Switch' input: 'merge' input: 'cond' $T }
      node { name: 'push' op: 'StackPushV9' input: 'switch:1' }
      node { name: 'next' op: 'NextIteration' input: 'push' $T }
      node { name: 'exit' op: 'Exit' input: 'switch' $T })");
  EXPECT_TRUE(IsMissing(graph, "push"));
  EXPECT_EQ(graph.FindNode("merge")->input(1).node, graph.FindNode("next"));
}

TEST(MissingOp, ExtensionsTakeMoreOfTheirOutputs) {
  Graph graph = Import("node { name: 'u' op: 'Unheard' }");
  ImportOptions options = Keep();
  options.inputs_from_graph = true;
  ASSERT_TRUE(
      ImportInto(&graph, Parse("node { name: 'a' op: 'Identity' input: 'u:1' $T }"), options).ok());
  ASSERT_TRUE(ImportInto(&graph,
                         Parse("node { name: 'b' op: 'Identity' input: 'u:1' $T }"
                               "node { name: 'c' op: 'Identity' input: 'u:1' $I }"
                               "node { name: 'd' op: 'Unseen' input: 'u:3' }"),
                         options)
                  .ok());
  EXPECT_EQ(graph.FindNode("u")->num_outputs(), 4);
  EXPECT_FALSE(IsMissing(graph, "a"));
  EXPECT_FALSE(IsMissing(graph, "b"));
  EXPECT_TRUE(IsMissing(graph, "c"));
}

TEST(MissingOp, IsRefusedFromOutsideAndWithoutTheOption) {
  EXPECT_EQ(
      ImportGraphDef(Parse("node { name: 'u' op: '_TandemMissingOp' }"), Keep()).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ImportGraphDef(Parse("node { name: 'u' op: 'Unheard' }")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(MissingOp, AFewBytesCannotAskForManyOutputs) {
  const auto graph =
      ImportGraphDef(Parse("node { name: 'u' op: 'Unheard' }"
                           "node { name: 'a' op: 'Identity' input: 'u:999999999' $T }"),
                     Keep());
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("node 'a'"));
}

TEST(MissingOp, OtherErrorsAreWhatTheyWere) {
  const auto graph = ImportGraphDef(Parse("node { name: 'u' op: 'Unheard' }"
                                          "node { name: 'a' op: 'Identity' input: 'u' }"),
                                    Keep());
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("'T'"));
}

}  // namespace
}  // namespace tandem
