#include "core/graph/import.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/graph/export.h"
#include "core/graph/scope.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

tensorflow::GraphDef Parse(const std::string& text) {
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def)) << text;
  return def;
}

// "$x" in `text` is a float placeholder named x.
tensorflow::GraphDef ParseShort(std::string text) {
  absl::StrReplaceAll(
      {{"$x",
        "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }"},
       {"$T", "attr { key: 'T' value { type: DT_FLOAT } }"}},
      &text);
  return Parse(text);
}

Graph Import(const tensorflow::GraphDef& def, const ImportOptions& options = {}) {
  absl::StatusOr<Graph> graph = ImportGraphDef(def, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

absl::Status ImportError(const tensorflow::GraphDef& def) { return ImportGraphDef(def).status(); }

std::vector<std::string> Names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node* node : graph.nodes()) names.push_back(node->name());
  return names;
}

constexpr char kLoop[] = R"pb(
  node { name: 'next' op: 'NextIteration' input: 'switch:1' $T }
  node {
    name: 'merge'
    op: 'Merge'
    input: 'enter'
    input: 'next' $T
    attr {
      key: 'N'
      value { i: 2 }
    }
  }
  node {
    name: 'enter'
    op: 'Enter'
    input: 'x' $T
    attr {
      key: 'frame_name'
      value { s: 'f' }
    }
  }
  node { name: 'less' op: 'Less' input: 'merge' input: 'merge' $T }
  node { name: 'cond' op: 'LoopCond' input: 'less' }
  node { name: 'switch' op: 'Switch' input: 'merge' input: 'cond' $T }
  node { name: 'exit' op: 'Exit' input: 'switch' $T } $x)pb";

TEST(ImportTest, NodesMayComeInAnyOrder) {
  const Graph graph = Import(ParseShort(R"pb(
    node { name: 'z' op: 'AddV2' input: 'y:0' input: 'x' input: '^c' $T device: '/cpu:1' }
    node { name: 'y' op: 'Identity' input: 'x' $T } $x
    node { name: 'c' op: 'NoOp' input: '^y' input: '^x' })pb"));
  EXPECT_THAT(Names(graph), ElementsAre("x", "y", "c", "z"));
  const Node* z = graph.FindNode("z");
  EXPECT_EQ(z->input(0).name(), "y");
  EXPECT_EQ(z->input(1).name(), "x");
  EXPECT_THAT(z->control_inputs(), ElementsAre(graph.FindNode("c")));
  EXPECT_EQ(z->requested_device(), "/cpu:1");
}

TEST(ImportTest, NodesInOrderKeepIt) {
  const Graph graph = Import(ParseShort(R"pb(
    node { name: 'b' op: 'NoOp' } $x
    node { name: 'a' op: 'NoOp' input: '^b' }
    node { name: 'y' op: 'Identity' input: 'x' $T })pb"));
  EXPECT_THAT(Names(graph), ElementsAre("b", "x", "a", "y"));
}

TEST(ImportTest, ALoopMayBeClosedByNextIteration) {
  const Graph graph = Import(ParseShort(kLoop));
  EXPECT_EQ(graph.FindNode("merge")->input(1).name(), "next");
  EXPECT_TRUE(graph.TopologicalOrder().ok());
}

TEST(ImportTest, WhatIsExportedIsImportedAgain) {
  const Graph graph = Import(ParseShort(kLoop));
  const auto def = ExportGraphDef(graph);
  ASSERT_TRUE(def.ok()) << def.status();
  const auto again = ExportGraphDef(Import(*def));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(DeterministicBytes(*again), DeterministicBytes(*def));
}

TEST(ImportTest, PrivateAttributesAreKept) {
  const Graph graph = Import(ParseShort(R"pb(
    node {
      name: 'c'
      op: 'NoOp'
      attr {
        key: '_output_shapes'
        value { list { shape { unknown_rank: true } } }
      }
      attr {
        key: '_class'
        value { list { s: 'loc:@c' } }
      }
      attr {
        key: '_empty'
        value { list {} }
      }
      attr {
        key: '_none'
        value {}
      }
    })pb"));
  const auto def = ExportGraphDef(graph);
  ASSERT_TRUE(def.ok());
  EXPECT_EQ(def->node(0).attr_size(), 4);
  EXPECT_TRUE(def->node(0).attr().at("_output_shapes").list().shape(0).unknown_rank());
  EXPECT_EQ(def->node(0).attr().at("_class").list().s(0), "loc:@c");
}

struct BadGraph {
  const char* text;
  absl::StatusCode code;
  std::vector<const char*> messages;
};

TEST(ImportTest, BadGraphsAreRefusedByNode) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const BadGraph cases[] = {
      // Names.
      {"$x $x", kInvalid, {"node 'x' (Placeholder)", "names must differ"}},
      {"node { op: 'NoOp' }", kInvalid, {"node 0", "no name"}},
      {"node { name: 'a b' op: 'NoOp' }", kInvalid, {"a b"}},
      {"node { name: '^a' op: 'NoOp' }", kInvalid, {"^a"}},
      // Ops.
      {"node { name: 'a' op: 'Identitty' }",
       absl::StatusCode::kNotFound,
       {"node 'a'", "Identitty", "Did you mean 'Identity'"}},
      {"node { name: 'a' op: 'Identitty' } node { name: 'b' op: 'Unheard' } $x "
       "node { name: 'c' op: 'Unheard' } node { name: 'd' op: 'Identitty' input: 'a' }",
       absl::StatusCode::kNotFound,
       {"no ops of these 2 names", "'Identitty' (node 'a' and 1 other, did you mean 'Identity'?)",
        "'Unheard' (node 'b' and 1 other)"}},
      // Inputs.
      {"$x node { name: 'y' op: 'Identity' input: 'xx' $T }",
       kInvalid,
       {"node 'y' (Identity)", "'xx'", "not in the graph", "Did you mean 'x'"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x:1' $T }",
       kInvalid,
       {"node 'y'", "which has 1"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x:-1' $T }",
       kInvalid,
       {"node 'y'", "malformed"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x:' $T }", kInvalid, {"node 'y'", "malformed"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x:99999999999' $T }", kInvalid, {"malformed"}},
      {"$x node { name: 'y' op: 'Identity' input: '' $T }", kInvalid, {"node 'y'", "malformed"}},
      {"$x node { name: 'y' op: 'NoOp' input: '^' }", kInvalid, {"node 'y'", "malformed"}},
      {"$x node { name: 'y' op: 'NoOp' input: '^x:0' }", kInvalid, {"node 'y'", "malformed"}},
      {"$x node { name: 'y' op: 'Identity' input: '^x' input: 'x' $T }",
       kInvalid,
       {"node 'y'", "data inputs come first"}},
      {"$x node { name: 'y' op: 'Identity' $T }", kInvalid, {"node 'y'", "1 are wanted"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x' input: 'x' $T }", kInvalid, {"node 'y'"}},
      // Types and attributes.
      {"$x node { name: 'y' op: 'Identity' input: 'x' attr { key: 'T' value { type: DT_INT32 } } }",
       kInvalid,
       {"node 'y'", "float32", "int32"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x' }", kInvalid, {"node 'y'", "'T'", "missing"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x' attr { key: 'T' value { i: 1 } } }",
       kInvalid,
       {"node 'y'", "'T'", "kind type"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x' attr { key: 'T' value {} } }",
       kInvalid,
       {"node 'y'", "'T'"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x' attr { key: 'T' value { type: 99 } } }",
       kInvalid,
       {"node 'y'", "'T'", "99"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x' attr { key: 'T' value { placeholder: 'T' } } "
       "}",
       kInvalid,
       {"node 'y'", "'T'"}},
      {"$x node { name: 'y' op: 'Identity' input: 'x' $T attr { key: 'axes' value { i: 1 } } }",
       kInvalid,
       {"node 'y'", "'axes' is not one of Identity"}},
      {"$x node { name: 'y' op: 'ConcatV2' input: 'x' input: 'x' $T "
       "attr { key: 'N' value { i: 1 } } }",
       kInvalid,
       {"node 'y'", "'N'", "at least 2"}},
      {"$x node { name: 'y' op: 'ConcatV2' input: 'x' input: 'x' $T "
       "attr { key: 'N' value { i: 9000000000000000000 } } }",
       kInvalid,
       {"node 'y'"}},
      {"$x node { name: 'y' op: 'Split' input: 'x' input: 'x' $T "
       "attr { key: 'num_split' value { i: 2000000000 } } }",
       kInvalid,
       {"node 'y'"}},
      // Shapes and tensors.
      {"node { name: 'p' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } attr { "
       "key: "
       "'shape' value { shape { dim { size: 4611686018427387904 } dim { size: 4 } } } } }",
       kInvalid,
       {"node 'p' (Placeholder)", "'shape'"}},
      {"node { name: 'c' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: "
       "'value' value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 3 } } "
       "tensor_content: '1234' } } } }",
       kInvalid,
       {"node 'c' (Const)", "'value'"}},
      // Devices, versions, the library.
      {"node { name: 'a' op: 'NoOp' device: '/cpu' }", kInvalid, {"node 'a' (NoOp)", "/cpu"}},
      {"versions { min_consumer: 99999 }", kInvalid, {"99999", "2474"}},
      {"versions { producer: -1 }", kInvalid, {"-1"}},
      {"versions { bad_consumers: 2474 }", kInvalid, {"2474"}},
      {"library { function { signature { name: 'NoOp' } } }",
       kInvalid,
       {"'NoOp'", "name of an op"}},
      {"library { function { } }", kInvalid, {"no name"}},
      {"library { function { signature { name: 'f' input_arg { name: 'x' } } } }",
       kInvalid,
       {"'f'"}},
      {"library { function { signature { name: 'f' } } function { signature { name: 'f' input_arg "
       "{ "
       "name: 'x' type: DT_FLOAT } } } }",
       kInvalid,
       {"'f'"}},
  };
  for (const BadGraph& bad : cases) {
    const absl::Status status = ImportError(ParseShort(bad.text));
    EXPECT_EQ(status.code(), bad.code) << bad.text << "\n" << status;
    for (const char* message : bad.messages) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << bad.text;
    }
  }
}

TEST(ImportTest, OpsOfTheRuntimeAreNotTakenFromOutside) {
  const char* const graphs[] = {
      "node { name: 'a' op: '_Arg' $T attr { key: 'index' value { i: 1099511627776 } } }",
      "node { name: 'r' op: '_Retval' input: 'x' $T attr { key: 'index' value { i: 3 } } } $x",
      "node { name: 'c' op: '_TandemCopy' input: 'x' $T } $x",
      "library { function { signature { name: 'f' } node_def { name: 'a' op: '_Arg' } } }"};
  for (const char* text : graphs) {
    const absl::Status status = ImportError(ParseShort(text));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("made by the runtime only")) << text;
  }
}

TEST(ImportTest, SizesThatNameExponentiallyManyAreGivenUp) {
  // Each node concatenates the one before ten times: 16 of them name 10^16 sizes.
  std::string text =
      "node { name: 'axis' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } } attr { key: "
      "'value' value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 0 } } } } node { name: "
      "'p0' op: 'Placeholder' attr { key: 'dtype' value { type: DT_INT32 } } }";
  for (int i = 1; i <= 16; ++i) {
    absl::StrAppend(&text, "node { name: 'p", i, "' op: 'ConcatV2' ");
    for (int j = 0; j < 10; ++j) absl::StrAppend(&text, "input: 'p", i - 1, "' ");
    absl::StrAppend(&text,
                    "input: 'axis' attr { key: 'N' value { i: 10 } } attr { key: 'T' value { type: "
                    "DT_INT32 } } }");
  }
  absl::StrAppend(&text,
                  "node { name: 'fill' op: 'Fill' input: 'p16' input: 'axis' attr { key: 'T' value "
                  "{ type: DT_INT32 } } }");
  // Ends at all; whether these ops are linked in here does not matter.
  (void)ImportGraphDef(Parse(text));
}

TEST(ImportTest, CyclesAreShown) {
  const absl::Status status = ImportError(ParseShort(R"pb(
    $x
    node { name: 'a' op: 'AddV2' input: 'x' input: 'c' $T }
    node { name: 'b' op: 'Identity' input: 'a' $T }
    node { name: 'c' op: 'Identity' input: 'b' $T })pb"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node 'a' (AddV2) is in a cycle of 3 nodes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("b -> c -> a -> b"));
}

TEST(ImportTest, ACycleOfControlEdgesOrOfOneNodeIsOne) {
  for (const char* text :
       {"node { name: 'a' op: 'NoOp' input: '^a' }",
        "node { name: 'a' op: 'NoOp' input: '^b' } node { name: 'b' op: 'NoOp' input: '^a' }",
        // NextIteration must lead to a Merge, by a data edge.
        "$x node { name: 'n' op: 'NextIteration' input: 'i' $T } "
        "node { name: 'i' op: 'Identity' input: 'n' $T }",
        "$x node { name: 'n' op: 'NextIteration' input: 'm' $T } node { name: 'm' op: 'Merge' "
        "input: 'x' input: '^n' $T attr { key: 'N' value { i: 1 } } }"}) {
    const absl::Status status = ImportError(ParseShort(text));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("cycle")) << text;
  }
}

TEST(ImportTest, BadBackEdgesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"'next' $T", "'next:1' $T"},  // No such output.
      {"{ i: 2 }", "{ i: 3 }"},      // One input too few.
      {"op: 'NextIteration' input: 'switch:1' $T",
       "op: 'NextIteration' input: 'less' attr { key: 'T' value { type: DT_BOOL } }"},  // The type.
  };
  for (const auto& [from, to] : cases) {
    const std::string text = absl::StrReplaceAll(kLoop, {{from, to}});
    ASSERT_NE(text, kLoop);
    const absl::Status status = ImportError(ParseShort(text));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("node 'merge' (Merge)"));
  }
}

TEST(ImportTest, DeepAndWideGraphsTakeLinearTimeAndNoStack) {
  constexpr int kNodes = 30000;
  tensorflow::GraphDef def = ParseShort("$x");
  for (int i = kNodes; i > 0; --i) {
    tensorflow::NodeDef* node = def.add_node();
    node->set_name(absl::StrCat("n", i));
    node->set_op("Identity");
    node->add_input(i == 1 ? std::string("x") : absl::StrCat("n", i - 1));
    (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  }
  EXPECT_EQ(Import(def).num_nodes(), kNodes + 1);
  def.mutable_node(0)->set_op("Identity");
  def.mutable_node(0)->clear_attr();
  (*def.mutable_node(0)->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  def.mutable_node(0)->add_input(absl::StrCat("n", kNodes));
  const absl::Status status = ImportError(def);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cycle of 30001 nodes"));
  EXPECT_LT(status.message().size(), 1000u);
}

TEST(ImportTest, ManySmallTensorsCannotTakeAllMemory) {
  tensorflow::GraphDef def;
  for (int i = 0; i < 100; ++i) {
    tensorflow::NodeDef* node = def.add_node();
    node->set_name(absl::StrCat("c", i));
    node->set_op("Const");
    (*node->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
    tensorflow::TensorProto* tensor = (*node->mutable_attr())["value"].mutable_tensor();
    tensor->set_dtype(tensorflow::DT_FLOAT);
    tensor->mutable_tensor_shape()->add_dim()->set_size(1 << 16);
    tensor->add_float_val(1.0f);
  }
  ImportOptions options;
  options.max_tensor_bytes = 1 << 20;
  EXPECT_EQ(ImportGraphDef(def, options).status().code(), absl::StatusCode::kResourceExhausted);
  options.max_tensor_bytes = 100 << 20;
  EXPECT_TRUE(ImportGraphDef(def, options).ok());
}

TEST(ImportTest, APrefixIsPutBeforeNames) {
  ImportOptions options;
  options.prefix = "p/q";
  options.default_device = "/cpu:0";
  const Graph graph = Import(ParseShort(R"pb(
                               $x
                               node {
                                 name: 'y'
                                 op: 'Identity'
                                 input: 'x' $T
                                 device: '/cpu:1'
                                 attr {
                                   key: '_class'
                                   value { list { s: 'loc:@x' } }
                                 }
                               })pb"),
                             options);
  EXPECT_THAT(Names(graph), ElementsAre("p/q/x", "p/q/y"));
  EXPECT_THAT(*graph.FindNode("p/q/y")->Attr<std::vector<std::string>>("_class"),
              ElementsAre("loc:@p/q/x"));
  EXPECT_EQ(graph.FindNode("p/q/x")->requested_device(), "/cpu:0");
  EXPECT_EQ(graph.FindNode("p/q/y")->requested_device(), "/cpu:1");
}

TEST(ImportTest, MappedInputsComeFromTheGraph) {
  Graph graph;
  const Scope scope = Scope::ForGraph(&graph);
  const Output a = scope.WithOpName("a").Constant(1.0f);
  Node* const c = scope.WithOpName("c").AddNode("NoOp", {});
  ImportOptions options;
  options.prefix = "p";
  options.input_map = {{"x", a}, {"^d", Output(c, 0)}};
  ASSERT_TRUE(
      ImportInto(&graph,
                 ParseShort("node { name: 'y' op: 'Identity' input: 'x:0' input: '^d' $T }"),
                 options)
          .ok());
  EXPECT_EQ(graph.FindNode("p/y")->input(0), a);
  EXPECT_THAT(graph.FindNode("p/y")->control_inputs(), ElementsAre(c));
  options.input_map = {{"x:y", a}};
  EXPECT_EQ(ImportInto(&graph, {}, options).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ImportTest, AnExtensionSeesTheNodesOfTheGraph) {
  Graph graph = Import(ParseShort("$x"));
  const tensorflow::GraphDef more = ParseShort("node { name: 'y' op: 'Identity' input: 'x' $T }");
  EXPECT_EQ(ImportInto(&graph, more).code(), absl::StatusCode::kInvalidArgument);
  ImportOptions options;
  options.inputs_from_graph = true;
  ASSERT_TRUE(ImportInto(&graph, more, options).ok());
  EXPECT_EQ(graph.FindNode("y")->input(0).name(), "x");
  const absl::Status again = ImportInto(&graph, more, options);
  EXPECT_EQ(again.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(again.message()), HasSubstr("node 'y'"));
}

TEST(ImportTest, AFailedExtensionLeavesTheNodesAsTheyWere) {
  Graph graph = Import(ParseShort("node { name: 'before' op: 'NoOp' }"));
  // Fails at its last node, when the loop stands already, or at the loop's back edge.
  for (const std::string& text :
       {absl::StrCat(kLoop, "node { name: 'bad' op: 'Nope' input: '^exit' input: '^before' }"),
        absl::StrReplaceAll(kLoop, {{"'next' $T", "'next:1' $T"}})}) {
    ImportOptions options;
    options.inputs_from_graph = true;
    EXPECT_FALSE(ImportInto(&graph, ParseShort(text), options).ok());
    EXPECT_THAT(Names(graph), ElementsAre("before"));
    EXPECT_TRUE(graph.FindNode("before")->consumers().empty());
  }
  EXPECT_TRUE(ImportInto(&graph, ParseShort(kLoop)).ok());
  EXPECT_EQ(graph.num_nodes(), 9);
}

TEST(ImportTest, AnAttributeThatANewerWriterLeftAtItsDefaultIsDropped) {
  const tensorflow::GraphDef def = ParseShort(
      "$x node { name: 'y' op: 'Identity' input: 'x' $T attr { key: 'fresh' value { b: true } } }");
  EXPECT_FALSE(ImportGraphDef(def).ok());
  tensorflow::OpList ops;
  tensorflow::OpDef* op = ops.add_op();
  op->set_name("Identity");
  op->add_attr()->set_name("fresh");
  op->mutable_attr(0)->mutable_default_value()->set_b(true);
  ImportOptions options;
  options.producer_ops = &ops;
  EXPECT_EQ(Import(def, options).FindNode("y")->attrs().count("fresh"), 0u);
  op->mutable_attr(0)->mutable_default_value()->set_b(false);
  EXPECT_FALSE(ImportGraphDef(def, options).ok());
}

TEST(ImportTest, TheLibraryComesWithItsGradients) {
  const Graph graph = Import(ParseShort(R"pb(
    library {
      function { signature { name: 'f' } }
      function { signature { name: 'g' } }
      gradient { function_name: 'f' gradient_func: 'g' }
    })pb"));
  EXPECT_THAT(graph.functions().Names(), ElementsAre("f", "g"));
  EXPECT_EQ(graph.functions().FindGradient("f"), "g");
  const auto def = ExportGraphDef(graph);
  ASSERT_TRUE(def.ok());
  EXPECT_EQ(def->library().function_size(), 2);
  EXPECT_EQ(def->library().gradient(0).gradient_func(), "g");
}

TEST(ImportTest, AFunctionUsedAsAnOpIsCalled) {
  const char kFunctions[] = R"pb(
    library {
      function {
        signature {
          name: 'pair'
          input_arg { name: 'a' type_attr: 'T' }
          input_arg { name: 'n' type: DT_INT32 }
          output_arg { name: 'b' type_attr: 'T' number_attr: 'N' }
          attr { name: 'T' type: 'type' }
          attr {
            name: 'N'
            type: 'int'
            default_value { i: 2 }
          }
        }
      }
    }
    node {
      name: 'n'
      op: 'Placeholder'
      attr {
        key: 'dtype'
        value { type: DT_INT32 }
      }
    } $x)pb";
  const Graph graph =
      Import(ParseShort(absl::StrCat(kFunctions,
                                     "node { name: 'y' op: 'pair' input: 'x' input: 'n' $T }"
                                     "node { name: 'z' op: 'Identity' input: 'y:1' $T }")));
  const Node* y = graph.FindNode("y");
  EXPECT_EQ(y->type(), "PartitionedCall");
  EXPECT_EQ(y->Attr<FunctionRef>("f")->name, "pair");
  EXPECT_EQ(y->num_outputs(), 2);
  const absl::Status status = ImportError(ParseShort(
      absl::StrCat(kFunctions, "node { name: 'y' op: 'pair' input: 'x' input: 'x' $T }")));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 'y'"));
}

}  // namespace
}  // namespace tandem
