#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/io/file.h"
#include "core/io/npy.h"
#include "nlohmann/json.hpp"
#include "proto/saved_model.pb.h"
#include "tools/cli/command.h"
#include "tools/cli/saved_model_functions.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Result {
  absl::Status status;
  std::string output;
};

Result RunSavedModel(const std::vector<std::string>& words) {
  testing::internal::CaptureStdout();
  Result result;
  result.status = kSavedModelCommand.run(words);
  result.output = testing::internal::GetCapturedStdout();
  return result;
}

constexpr char kModel[] = "runtime/saved_model/testdata/tf2";
constexpr char kModel1[] = "runtime/saved_model/testdata/tf1";

TEST(SavedModelCommandTest, ShowsSignatures) {
  const Result result = RunSavedModel({"show", kModel});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("graph (serve) written by 2."),
            HasSubstr("signature power  tensorflow/serving/predict\n"),
            HasSubstr("input   exponent  int32    []     power_exponent:0\n"),
            HasSubstr("ops are missing: Betainc (1 node), KMC2ChainInitialization (2 nodes)"),
            Not(HasSubstr("__saved_model_init_op")), Not(HasSubstr("greeting.txt"))));
}

TEST(SavedModelCommandTest, ShowsAll) {
  const Result result = RunSavedModel({"show", kModel, "--all"});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("asset greeting.txt"), HasSubstr("(x: float32[?,2])"),
                    HasSubstr("{large: bool[], result: float32[?]}"),
                    HasSubstr("kernel/.ATTRIBUTES/VARIABLE_VALUE"), HasSubstr("missing")));
  const Json json = Json::parse(RunSavedModel({"show", kModel, "--all", "--json"}).output);
  const Json& graph = json["graphs"][0];
  EXPECT_EQ(graph["tags"], Json({"serve"}));
  EXPECT_EQ(graph["assets"], Json({"greeting.txt"}));
  EXPECT_EQ(graph["signatures"].size(), 5u);
  EXPECT_EQ(graph["signatures"][1]["missing_ops"],
            Json({{"Betainc", 1}, {"KMC2ChainInitialization", 2}}));
  EXPECT_EQ(graph["signatures"][3]["inputs"][0], Json({{"name", "x"},
                                                       {"dtype", "float32"},
                                                       {"shape", {-1, 2}},
                                                       {"tensor", "serving_default_x:0"}}));
}

TEST(SavedModelCommandTest, ShowsWhatIsMissingToInitialize) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/without_table");
  tensorflow::SavedModel model;
  ASSERT_TRUE(
      model.ParseFromString(*ReadFile(PosixFileSystem(), absl::StrCat(kModel, "/saved_model.pb"))));
  tensorflow::GraphDef& graph = *model.mutable_meta_graphs(0)->mutable_graph_def();
  for (tensorflow::NodeDef& node : *graph.mutable_node()) {
    if (node.name() == "NoOp") node.add_input("^table");
  }
  tensorflow::NodeDef& table = *graph.add_node();
  table.set_name("table");
  table.set_op("NoSuchTable");
  ASSERT_TRUE(PosixFileSystem()->MakeDirectories(folder).ok());
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), absl::StrCat(folder, "/saved_model.pb"),
                                  model.SerializeAsString())
                  .ok());
  const Result result = RunSavedModel({"show", folder, "--signature=power"});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.output, HasSubstr("it cannot run here; what initializes the model needs ops "
                                       "that are missing: NoSuchTable (1 node)\n"));
  const Json json = Json::parse(RunSavedModel({"show", folder, "--json"}).output);
  EXPECT_EQ(json["graphs"][0]["missing_ops_of_initializer"], Json({{"NoSuchTable", 1}}));
  EXPECT_THAT(RunSavedModel({"show", kModel}).output, Not(HasSubstr("what initializes")));
}

TEST(SavedModelCommandTest, TagsAndSignatureChoose) {
  const Result both = RunSavedModel({"show", kModel1});
  EXPECT_THAT(both.output, AllOf(HasSubstr("graph (serve) "), HasSubstr("graph (serve, raw) ")));
  const Result one = RunSavedModel({"show", kModel1, "--tags=raw,serve"});
  EXPECT_THAT(one.output, AllOf(Not(HasSubstr("graph (serve) ")), HasSubstr("raw:0")));
  EXPECT_TRUE(absl::IsNotFound(RunSavedModel({"show", kModel1, "--tags=train"}).status));
  const Result signature = RunSavedModel({"show", kModel1, "--signature=look_up"});
  EXPECT_THAT(signature.output, AllOf(HasSubstr("looked_up"), Not(HasSubstr("serving_default"))));
  EXPECT_TRUE(absl::IsNotFound(RunSavedModel({"show", kModel1, "--signature=x"}).status));
}

TEST(SavedModelCommandTest, RunsASignature) {
  const Result result = RunSavedModel(
      {"run", kModel, "--signature=power", "--input", "base=[2,-3]", "--input", "exponent=3"});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.output, "large: bool[]\ntrue\nresult: float32[2]\n8 -27\n");
  const Json json = Json::parse(RunSavedModel({"run", kModel, "--signature=power", "--json",
                                               "--input=base=[2]", "--input=exponent=2"})
                                    .output);
  EXPECT_EQ(json["outputs"]["result"], Json::parse(R"({"dtype": "float32", "shape": [1],
                                                       "values": [4.0]})"));
}

TEST(SavedModelCommandTest, ArraysComeAndGoAsFiles) {
  const std::string in = absl::StrCat(testing::TempDir(), "/saved_model_in.npy");
  const std::string out = absl::StrCat(testing::TempDir(), "/saved_model_out.npy");
  ASSERT_TRUE(WriteNpy(in, Tensor::FromValues<float>({1, 2}, {1, 2})).ok());
  const Result result =
      RunSavedModel({"run", kModel1, "--tags=serve,raw", "--input", absl::StrCat("x=@", in),
                     "--save", absl::StrCat("raw=", out)});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.output, "");
  const auto raw = ReadNpy(out);
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_THAT(raw->Elements<float>(), testing::ElementsAre(7, 10));
}

TEST(SavedModelCommandTest, TeachesWhenTheCallIsWrong) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {},
           {"list", kModel},
           {"show"},
           {"show", kModel, "--input=x=1"},
           {"run", kModel, "--input", "x"},
           {"run", kModel, "--input=x=[[1,"},
           {"run", kModel, "--input=y=1"},
           {"run", kModel},
           {"run", kModel, "--input=x=[[1,2]]", "--save=z=z.npy"},
           {"run", kModel, "--input=x=[[1,2]]", "--max_values=-1"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(RunSavedModel(words).status))
        << testing::PrintToString(words);
  }
  EXPECT_TRUE(absl::IsNotFound(RunSavedModel({"show", "nothing"}).status));
  EXPECT_TRUE(absl::IsUnimplemented(RunSavedModel({"run", kModel, "--signature=missing"}).status));
}

TEST(FunctionsOfTest, ReferencesThatLeadNowhereArePassedOver) {
  tensorflow::SavedObjectGraph objects;
  objects.add_nodes()->add_children()->set_node_id(7);
  objects.mutable_nodes(0)->add_children()->set_node_id(-1);
  objects.mutable_nodes(0)->add_children()->set_node_id(0);
  objects.mutable_nodes(0)->mutable_function()->add_concrete_functions("f");
  EXPECT_TRUE(FunctionsOf(objects).empty());
  EXPECT_TRUE(FunctionsOf(tensorflow::SavedObjectGraph()).empty());
}

}  // namespace
}  // namespace tandem::cli
