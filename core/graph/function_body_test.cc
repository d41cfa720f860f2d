#include "core/graph/function_body.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/graph/export.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/function.pb.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "$T" is the attribute T with the value of the function's T.
tensorflow::FunctionDef Parse(std::string text) {
  absl::StrReplaceAll({{"$T", "attr { key: 'T' value { placeholder: 'T' } }"}}, &text);
  tensorflow::FunctionDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def)) << text;
  return def;
}

absl::StatusOr<std::unique_ptr<FunctionBody>> Instantiate(const std::string& text,
                                                          const AttrMap& attrs = {}) {
  return InstantiateFunction(Parse(text), attrs, std::make_shared<FunctionLibrary>());
}

FunctionRef Ref(std::string name, AttrMap attrs = {}) {
  FunctionRef ref;
  ref.name = std::move(name);
  ref.attrs = std::move(attrs);
  return ref;
}

constexpr char kTop[] = R"(
    signature {
      name: 'top'
      input_arg { name: 'x' type_attr: 'T' }
      input_arg { name: 'more' type_attr: 'T' number_attr: 'N' }
      output_arg { name: 'best' type_attr: 'T' }
      output_arg { name: 'where' type: DT_INT32 }
      output_arg { name: 'all' type_attr: 'T' number_attr: 'N' }
      attr { name: 'T' type: 'type' allowed_values { list { type: DT_FLOAT type: DT_INT32 } } }
      attr { name: 'N' type: 'int' default_value { i: 2 } }
      control_output: 'done'
    }
    arg_attr { key: 0 value { attr { key: '_hint' value { s: 'h' } } } }
    node_def { name: 'sum' op: 'AddV2' input: 'more:1' input: 'x' $T }
    node_def { name: 'best' op: 'TopKV2' input: 'sum:z:0' input: 'k:output:0' input: '^no' $T }
    node_def {
      name: 'k' op: 'Const'
      attr { key: 'dtype' value { type: DT_INT32 } }
      attr { key: 'value' value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 1 } } }
    }
    node_def { name: 'no' op: 'NoOp' input: '^more' }
    ret { key: 'best' value: 'best:values:0' }
    ret { key: 'where' value: 'best:indices:0' }
    ret { key: 'all' value: 'more' }
    control_ret { key: 'done' value: 'no' })";

TEST(FunctionBodyTest, ABodyBecomesAGraph) {
  const auto body = Instantiate(kTop, {{"T", kFloat32}, {"_private", 1}});
  ASSERT_TRUE(body.ok()) << body.status();
  const FunctionBody& top = **body;
  ASSERT_EQ(top.args.size(), 3u);
  EXPECT_EQ(top.args[0]->name(), "x");
  EXPECT_EQ(top.args[2]->name(), "more_1");
  EXPECT_EQ(top.arg_type(2), kFloat32);
  EXPECT_EQ(*top.args[2]->Attr<int64_t>("index"), 2);
  EXPECT_EQ(*top.args[0]->Attr<std::string>("_hint"), "h");
  ASSERT_EQ(top.rets.size(), 4u);
  EXPECT_EQ(top.rets[0]->input(0).name(), "best");
  EXPECT_EQ(top.rets[1]->input(0).name(), "best:1");
  EXPECT_EQ(top.ret_type(1), kInt32);
  EXPECT_EQ(top.rets[3]->input(0).node, top.args[2]);
  const Node* sum = top.graph.FindNode("sum");
  EXPECT_EQ(sum->input(0).node, top.args[2]);
  EXPECT_EQ(*sum->Attr<DataType>("T"), kFloat32);
  const Node* no = top.graph.FindNode("no");
  EXPECT_THAT(no->control_inputs(), ElementsAre(top.args[1], top.args[2]));
  EXPECT_THAT(top.control_rets, ElementsAre(no));
}

TEST(FunctionBodyTest, AttributesDecideTypesAndLengths) {
  const auto body = Instantiate(kTop, {{"T", kInt32}, {"N", 3}});
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ((*body)->args.size(), 4u);
  EXPECT_EQ((*body)->arg_type(3), kInt32);
  EXPECT_EQ((*body)->rets.size(), 5u);
}

TEST(FunctionBodyTest, WrongAttributesAreErrors) {
  const std::pair<AttrMap, const char*> cases[] = {
      {{}, "'T' (type) is missing"},
      {{{"T", kFloat64}}, "'T' is float64"},
      {{{"T", 1}}, "kind type"},
      {{{"T", kFloat32}, {"N", 1}}, "input 'more:1': argument 'more' has 1 tensors"},
      {{{"T", kFloat32}, {"N", -1}}, "'more'"},
      {{{"T", kFloat32}, {"N", int64_t{1} << 40}}, "'more'"},
  };
  for (const auto& [attrs, message] : cases) {
    const absl::Status status = Instantiate(kTop, attrs).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("function 'top'"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(FunctionBodyTest, PlaceholdersInsideFunctionValuesAreReplaced) {
  const auto body = Instantiate(R"(
    signature { name: 'f' input_arg { name: 'x' type_attr: 'T' } attr { name: 'T' type: 'type' } }
    node_def {
      name: 'c' op: 'PartitionedCall' input: 'x'
      attr { key: 'Tin' value { list { type: DT_FLOAT } } }
      attr { key: 'Tout' value { list {} } }
      attr { key: 'f' value { func { name: 'g' attr { key: 'T' value { placeholder: 'T' } } } } }
    })",
                                {{"T", kFloat32}});
  ASSERT_TRUE(body.ok()) << body.status();
  const auto* called = (*body)->graph.FindNode("c")->Attr<FunctionRef>("f");
  EXPECT_EQ(*called->attrs.at("T").Get<DataType>(), kFloat32);
}

TEST(FunctionBodyTest, BadBodiesAreRefusedByNode) {
  constexpr char kHead[] =
      "signature { name: 'f' input_arg { name: 'x' type: DT_FLOAT } "
      "output_arg { name: 'y' type: DT_FLOAT } }";
  const std::string identity =
      "node_def { name: 'i' op: 'Identity' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } "
      "} ";
  const std::string ret = "ret { key: 'y' value: 'i:output:0' }";
  ASSERT_TRUE(Instantiate(kHead + identity + ret).ok());
  const std::pair<std::string, const char*> cases[] = {
      {identity, "result 'y': the body does not say"},
      {identity + "ret { key: 'y' value: 'i:outputt:0' }", "must name an output of node 'i'"},
      {identity + "ret { key: 'y' value: 'i' }", "must name an output of node 'i'"},
      {identity + "ret { key: 'y' value: 'i:output:1' }", "has 1 tensors"},
      {identity + "ret { key: 'y' value: 'i:output:-1' }", "malformed"},
      {identity + "ret { key: 'y' value: 'i:output:0:0' }", "no node or argument"},
      {identity + "ret { key: 'y' value: '^i' }", "control edge"},
      {identity + "ret { key: 'y' value: 'ii:output:0' }", "Did you mean 'i'"},
      {identity + identity + ret, "node 'i' (Identity): its name is that of an earlier node"},
      {"node_def { name: 'x' op: 'NoOp' } ret { key: 'y' value: 'x' }",
       "argument 'x' has the name"},
      {"node_def { name: 'i' op: 'NoSuchOp' input: 'x' } " + ret, "node 'i'"},
      {"node_def { name: 'i' op: 'Identity' input: 'x' } " + ret, "'T' (type) is missing"},
      {"node_def { name: 'i' op: 'Identity' input: 'x' attr { key: 'T' value { placeholder: 'U' } "
       "} } " +
           ret,
       "'U', which is no attribute of the function"},
      {"node_def { name: 'i' op: 'Identity' input: 'i:output:0' attr { key: 'T' value { type: "
       "DT_FLOAT } } } " +
           ret,
       "cycle"},
      {"node_def { name: 'i' op: 'Cast' input: 'x' attr { key: 'SrcT' value { type: DT_FLOAT } } "
       "attr "
       "{ key: 'DstT' value { type: DT_INT32 } } } ret { key: 'y' value: 'i:y:0' }",
       "int32"},
      {"node_def { name: 'i' op: 'Split' input: 'x' input: 'x' attr { key: 'num_split' value { i: "
       "99999999999 } } } " +
           ret,
       "node 'i' (Split)"},
      {identity + ret + " node_def { name: 'n' op: 'NoOp' input: '^nn' }", "node 'n' (NoOp)"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = Instantiate(kHead + text).status();
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("function 'f'")) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << text;
  }
}

TEST(FunctionBodyTest, BadSignaturesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"signature { name: 'f' control_output: 'c' }", "control result 'c'"},
      {"signature { name: 'f' input_arg { name: 'r' type: DT_FLOAT is_ref: true } }", "reference"},
      {"signature { name: 'f' input_arg { name: 'r' type_attr: 'T' } }", "refers to 'T'"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = Instantiate(text).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("function 'f'"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(FunctionBodyTest, AGraphBecomesAFunctionAndComesBack) {
  const Scope body = Scope::NewRoot();
  const Output b = FunctionArg(body.WithOpName("in/B"), 1, kInt32);
  const Output a = FunctionArg(body.WithOpName("a"), 0, kFloat32);
  const std::vector<Output> top = body.CallMulti("TopKV2", {a, b});
  Node* const effect =
      body.AddNode("Assert", {true, {a}}, {{"T", std::vector<DataType>{kFloat32}}});
  ASSERT_TRUE(body.ok()) << body.status();
  FunctionResult(body.WithOpName("index"), 1, top[1]);
  FunctionResult(body.WithOpName("same"), 0, a);
  ASSERT_TRUE(body.ok()) << body.status();

  const auto def = FunctionFromGraph("f", *body.graph(), {effect});
  ASSERT_TRUE(def.ok()) << def.status();
  const tensorflow::OpDef& signature = def->signature();
  EXPECT_EQ(signature.input_arg(0).name(), "a");
  EXPECT_EQ(signature.input_arg(1).name(), "in_b");
  EXPECT_EQ(signature.output_arg(0).name(), "same");
  EXPECT_EQ(signature.output_arg(1).type(), tensorflow::DT_INT32);
  EXPECT_TRUE(signature.is_stateful());
  EXPECT_EQ(def->ret().at("same"), "a");
  EXPECT_EQ(def->ret().at("index"), "TopKV2:indices:0");

  auto functions = std::make_shared<FunctionLibrary>();
  ASSERT_TRUE(DefineFunction("f", *body.graph(), {effect}, functions.get()).ok());
  const auto again = InstantiateFunction(Ref("f"), functions);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->args.size(), 2u);
  EXPECT_EQ((*again)->rets[1]->input(0).name(), "TopKV2:1");
  ASSERT_EQ((*again)->control_rets.size(), 1u);
  EXPECT_EQ((*again)->control_rets[0]->type(), "Assert");
  const auto def_again = FunctionFromGraph("f", (*again)->graph, (*again)->control_rets);
  ASSERT_TRUE(def_again.ok());
  EXPECT_EQ(def_again->node_def_size(), def->node_def_size());
}

TEST(FunctionBodyTest, BadIndicesAreErrors) {
  const Scope body = Scope::NewRoot();
  FunctionArg(body, 0, kFloat32);
  FunctionArg(body, 2, kFloat32);
  const absl::Status status = FunctionFromGraph("f", *body.graph(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its index is 2"));
}

TEST(FunctionBodyTest, AnUnknownFunctionIsNotFound) {
  auto functions = std::make_shared<FunctionLibrary>();
  ASSERT_TRUE(functions->Add(Parse("signature { name: 'square' }")).ok());
  const absl::Status status = InstantiateFunction(Ref("squar"), functions).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Did you mean 'square'"));
}

TEST(FunctionBodyTest, InternalOpsInAFunctionDoNotLeaveTheProcess) {
  Graph graph;
  ASSERT_TRUE(graph.functions()
                  .Add(Parse("signature { name: 'f' } node_def { name: 'n' op: '_TandemX' }"))
                  .ok());
  const absl::Status status = ExportGraphDef(graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("function 'f': node 'n'"));
}

}  // namespace
}  // namespace tandem
