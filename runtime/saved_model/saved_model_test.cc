// Models that TensorFlow and Keras wrote (testdata/make_saved_models.py) must give what TensorFlow
// computed with them.
#include "runtime/saved_model/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <tuple>

#include "absl/strings/match.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "runtime/saved_model/test_models.h"

namespace tandem {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

template <typename T>
Tensor Filled(const Json& json) {
  Tensor tensor(DataTypeOf<T>(), Shape(json["shape"].get<std::vector<int64_t>>()));
  const auto values = json["values"].get<std::vector<T>>();
  std::copy(values.begin(), values.end(), tensor.MutableElements<T>().begin());
  return tensor;
}

Tensor TensorOf(const Json& json) {
  const std::string dtype = json["dtype"];
  if (dtype == "float32") return Filled<float>(json);
  if (dtype == "int32") return Filled<int32_t>(json);
  if (dtype == "int64") return Filled<int64_t>(json);
  if (dtype == "string") return Filled<std::string>(json);
  EXPECT_EQ(dtype, "bool");
  return Filled<bool>(json);
}

void ExpectClose(const Tensor& actual, const Json& expected) {
  const Tensor wanted = TensorOf(expected);
  ASSERT_EQ(actual.dtype(), wanted.dtype());
  ASSERT_EQ(actual.shape(), wanted.shape());
  if (actual.dtype() != kFloat32) {
    EXPECT_EQ(actual.DebugString(100), wanted.DebugString(100));
    return;
  }
  // Sums of a few products of numbers around one, in another order.
  for (size_t i = 0; i < wanted.Elements<float>().size(); ++i) {
    EXPECT_NEAR(actual.Elements<float>()[i], wanted.Elements<float>()[i], 1e-5);
  }
}

Session::Feeds InputsOf(const Json& one) {
  Session::Feeds inputs;
  for (const auto& [name, value] : one["inputs"].items())
    inputs.emplace_back(name, TensorOf(value));
  return inputs;
}

Json Expected(const std::string& model) {
  std::ifstream file(TestModel("expected.json"));
  return Json::parse(file)[model];
}

class GoldenModel : public testing::TestWithParam<const char*> {};

TEST_P(GoldenModel, GivesWhatTensorFlowGives) {
  const auto model = SavedModel::Load(TestModel(GetParam()));
  ASSERT_TRUE(model.ok()) << model.status();
  const Json expected = Expected(GetParam());
  ASSERT_FALSE(expected.empty());
  for (const Json& one : expected) {
    SCOPED_TRACE(one.dump());
    const auto outputs =
        (*model)->signature(one["signature"].get<std::string>()).Run(InputsOf(one));
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_EQ(outputs->size(), one["outputs"].size());
    for (const auto& [name, value] : one["outputs"].items()) ExpectClose(outputs->at(name), value);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel, testing::Values("tf1", "tf2", "keras"));

Tensor SomeX() { return Tensor::FromValues<float>({1, 2}, {0.5f, -1}); }

absl::StatusOr<std::unique_ptr<SavedModel>> LoadWith(const std::string& folder,
                                                     const std::vector<std::string>& signatures) {
  SavedModelOptions options;
  options.signatures = signatures;
  return SavedModel::Load(folder, options);
}

TEST(SavedModelTest, FunctionsThatAreNoSignaturesAreCalledByTheirPaths) {
  SavedModelOptions options;
  options.functions = {"affine"};
  for (const bool alone : {false, true}) {
    options.signatures = alone ? std::vector<std::string>{"affine"} : std::vector<std::string>{};
    const auto model = SavedModel::Load(TestModel("tf2"), options);
    ASSERT_TRUE(model.ok()) << model.status();
    const ModelSignature affine = (*model)->signature("affine");
    ASSERT_TRUE(affine.status().ok()) << affine.status();
    ASSERT_EQ(affine.info()->inputs.size(), 1u);
    EXPECT_EQ(affine.info()->inputs[0].name, "x");
    EXPECT_EQ(affine.info()->inputs[0].dtype, kFloat32);
    const auto outputs = affine.Run({{"x", SomeX()}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_THAT(outputs->at("output_0").Elements<float>(), ElementsAre(0.25f, -5.75f));
    EXPECT_EQ((*model)->signature().status().ok(), !alone);
  }
}

TEST(SavedModelTest, AFunctionThatIsNotThereOrAmbiguousIsRefusedWithNames) {
  const auto refusal = [](const std::string& folder, const std::string& function) {
    SavedModelOptions options;
    options.functions = {function};
    return SavedModel::Load(folder, options).status();
  };
  const absl::Status missing = refusal(TestModel("tf2"), "afine");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("Did you mean 'affine'"));
  const absl::Status taken = refusal(TestModel("tf2"), "serving_default");
  EXPECT_EQ(taken.code(), absl::StatusCode::kInvalidArgument) << taken;

  const std::string folder = CopyModel("tf2");
  std::string concrete;
  EditModel(folder, [&concrete](tensorflow::MetaGraphDef& meta_graph) {
    for (auto& object : *meta_graph.mutable_object_graph_def()->mutable_nodes()) {
      if (!object.has_function() || object.function().concrete_functions().empty()) continue;
      const std::string name = object.function().concrete_functions(0);
      if (!absl::StrContains(name, "affine")) continue;
      concrete = name;
      object.mutable_function()->add_concrete_functions(name);
    }
  });
  ASSERT_FALSE(concrete.empty());
  const absl::Status several = refusal(folder, "affine");
  EXPECT_EQ(several.code(), absl::StatusCode::kInvalidArgument) << several;
  EXPECT_THAT(std::string(several.message()), HasSubstr(concrete));
  EXPECT_TRUE(refusal(folder, concrete).ok()) << refusal(folder, concrete);
  // What it captures must be in the graph.
  EditModel(folder, [&concrete](tensorflow::MetaGraphDef& meta_graph) {
    auto& functions = *meta_graph.mutable_object_graph_def()->mutable_concrete_functions();
    functions[concrete].set_bound_inputs(0, 0);
  });
  const absl::Status captures = refusal(folder, concrete);
  EXPECT_EQ(captures.code(), absl::StatusCode::kUnimplemented) << captures;
}

TEST(SavedModelTest, LargeConstantsAreThoseOfTheFile) {
  const std::string folder = CopyModel("tf2");
  Tensor large(kFloat32, Shape({100, 1000}));
  for (size_t i = 0; i < 100'000; ++i) {
    large.MutableElements<float>()[i] = static_cast<float>(i % 1013);
  }
  EditModel(folder, [&large](tensorflow::MetaGraphDef& meta_graph) {
    AddTestNode(meta_graph, "large", "Const", {});
    auto& attrs = *meta_graph.mutable_graph_def()->mutable_node()->rbegin()->mutable_attr();
    attrs["dtype"].set_type(tensorflow::DT_FLOAT);
    auto& value = *attrs["value"].mutable_tensor();
    value.set_dtype(tensorflow::DT_FLOAT);
    value.mutable_tensor_shape()->add_dim()->set_size(100);
    value.mutable_tensor_shape()->add_dim()->set_size(1000);
    value.set_tensor_content(large.data(), large.num_bytes());
    AddTestNode(meta_graph, "negative", "Neg", {"large", "^large"});
    (*meta_graph.mutable_graph_def()->mutable_node()->rbegin()->mutable_attr())["T"].set_type(
        tensorflow::DT_FLOAT);
    auto& signature = (*meta_graph.mutable_signature_def())["large"];
    for (const std::string name : {"large", "negative"}) {
      auto& output = (*signature.mutable_outputs())[name];
      output.set_name(name + ":0");
      output.set_dtype(tensorflow::DT_FLOAT);
      output.mutable_tensor_shape()->add_dim()->set_size(100);
      output.mutable_tensor_shape()->add_dim()->set_size(1000);
    }
  });
  const auto model = LoadWith(folder, {"large"});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto outputs = (*model)->signature("large").Run({});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(outputs->at("large").DebugString(2000), large.DebugString(2000));
  EXPECT_EQ(outputs->at("negative").Elements<float>()[99'999], -large.Elements<float>()[99'999]);

  // One whose bytes do not fit its shape.
  EditModel(folder, [](tensorflow::MetaGraphDef& meta_graph) {
    for (auto& node : *meta_graph.mutable_graph_def()->mutable_node()) {
      if (node.name() != "large") continue;
      (*node.mutable_attr())["value"].mutable_tensor()->mutable_tensor_content()->pop_back();
    }
  });
  const absl::Status damaged = LoadWith(folder, {"large"}).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kInvalidArgument) << damaged;
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("'large'"));
}

TEST(SavedModelTest, AModelInPiecesIsRefusedWithWhatToDo) {
  const std::string folder = TestFolder();
  std::ofstream(JoinPath(folder, "saved_model.cpb")) << "x";
  const absl::Status status = SavedModel::Load(folder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("saved_model.cpb"), HasSubstr("tf.saved_model.save(")));
}

TEST(SavedModelTest, TagsChooseTheGraph) {
  SavedModelOptions options;
  options.tags = {"raw", "serve"};
  const auto model = SavedModel::Load(TestModel("tf1"), options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->signature_names(), ElementsAre("serving_default"));
  const auto outputs = (*model)->signature().Run({{"x", SomeX()}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(outputs->at("raw").Elements<float>(), ElementsAre(-2.5f, -3.f));

  options.tags = {"train"};
  const auto missing = SavedModel::Load(TestModel("tf1"), options);
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
  EXPECT_THAT(missing.status().message(), AllOf(HasSubstr("testdata/tf1"), HasSubstr("(train)"),
                                                HasSubstr("(serve)"), HasSubstr("(serve, raw)")));
}

TEST(SavedModelTest, ASignatureThatNeedsMissingOpsLeavesTheOthersAlone) {
  const auto model = SavedModel::Load(TestModel("tf2"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->signature_names(),
              ElementsAre("count", "missing", "power", "serving_default", "where"));
  const ModelSignature signature = (*model)->signature("missing");
  EXPECT_TRUE(absl::IsUnimplemented(signature.status())) << signature.status();
  EXPECT_THAT(signature.status().message(),
              AllOf(HasSubstr("'missing'"), HasSubstr("testdata/tf2"),
                    HasSubstr("Betainc (1 node), KMC2ChainInitialization (2 nodes)")));
  EXPECT_EQ(signature.Run({}).status(), signature.status());
  ASSERT_NE(signature.info(), nullptr);
  EXPECT_EQ(signature.info()->inputs.size(), 1u);
}

TEST(SavedModelTest, ASignatureThatWasAskedForMustBeUsable) {
  const auto missing = LoadWith(TestModel("tf2"), {"power", "missing"});
  EXPECT_TRUE(absl::IsUnimplemented(missing.status())) << missing.status();
  EXPECT_THAT(missing.status().message(),
              AllOf(HasSubstr("testdata/tf2"),
                    HasSubstr("Betainc (1 node), KMC2ChainInitialization (2 nodes)")));
  const auto unknown = LoadWith(TestModel("tf2"), {"powr"});
  EXPECT_TRUE(absl::IsNotFound(unknown.status()));
  EXPECT_THAT(unknown.status().message(), HasSubstr("Did you mean 'power'"));
  const auto one = LoadWith(TestModel("tf2"), {"power"});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE((*one)->signature("power").status().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*one)->signature("serving_default").status()));
}

TEST(SavedModelTest, MissingOpsOfTheInitializerAreListedWithTheModel) {
  const std::string folder = CopyModel("tf2");
  EditModel(folder, [](tensorflow::MetaGraphDef& meta_graph) {
    for (tensorflow::NodeDef& node : *meta_graph.mutable_graph_def()->mutable_node()) {
      if (node.name() == "NoOp") node.add_input("^table");
    }
    AddTestNode(meta_graph, "table", "NoSuchTable", {});
  });
  const auto model = SavedModel::Load(folder);
  EXPECT_TRUE(absl::IsUnimplemented(model.status())) << model.status();
  EXPECT_THAT(model.status().message(),
              AllOf(HasSubstr(folder),
                    HasSubstr("what initializes it (tables, assets) needs NoSuchTable (1 node)"),
                    Not(HasSubstr("signature")), Not(HasSubstr("Betainc"))));
  // Both, and who needs what.
  const auto missing = LoadWith(folder, {"missing"});
  EXPECT_TRUE(absl::IsUnimplemented(missing.status())) << missing.status();
  EXPECT_THAT(missing.status().message(),
              AllOf(HasSubstr("signature 'missing' needs Betainc (1 node), KMC2"),
                    HasSubstr("what initializes it (tables, assets) needs NoSuchTable (1 node)")));
}

TEST(SavedModelTest, AssetsAreFoundWhereTheModelLies) {
  for (const char* const name : {"tf1", "tf2"}) {
    const auto model = SavedModel::Load(TestModel(name));
    ASSERT_TRUE(model.ok()) << model.status();
    const auto outputs = (*model)->signature("where").Run({});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(outputs->at("path").Elements<std::string>()[0],
              TestModel(absl::StrCat(name, "/assets/greeting.txt")));
  }
}

TEST(SavedModelTest, AssetsCannotLeaveTheFolder) {
  for (const char* const name :
       {"../saved_model.pb", "/etc/passwd", "a/../../x", "", ".", "a//b"}) {
    const std::string folder = CopyModel("tf2");
    EditModel(folder, [&](tensorflow::MetaGraphDef& meta_graph) {
      meta_graph.mutable_asset_file_def(0)->set_filename(name);
    });
    const auto model = SavedModel::Load(folder);
    EXPECT_TRUE(absl::IsInvalidArgument(model.status())) << name << ": " << model.status();
    EXPECT_THAT(model.status().message(), AllOf(HasSubstr(folder), HasSubstr("the asset '")));
  }
  const std::string folder = CopyModel("tf2");
  std::filesystem::remove(JoinPath(folder, "assets/greeting.txt"));
  EXPECT_TRUE(absl::IsNotFound(SavedModel::Load(folder).status()));
}

TEST(SavedModelTest, InputsAreCheckedByName) {
  const auto model = SavedModel::Load(TestModel("tf2"));
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelSignature power = (*model)->signature("power");
  const Tensor base = Tensor::Vector<float>({1, 2});
  const Tensor exponent = Tensor::Scalar<int32_t>(2);
  const Tensor none;
  const std::vector<std::pair<Session::Feeds, std::string>> cases = {
      {{{"base", base}}, "inputs are missing: exponent"},
      {{{"base", base}, {"exponents", exponent}}, "Did you mean 'exponent'"},
      {{{"base", base}, {"base", base}}, "given twice"},
      {{{"base", base}, {"exponent", base}}, "'exponent' is float32[2]; expected int32[]"},
      {{{"base", exponent}, {"exponent", exponent}}, "'base' is int32[]; expected float32[?]"},
      {{{"base", none}, {"exponent", exponent}}, "has no value"},
  };
  for (const auto& [inputs, message] : cases) {
    const auto outputs = power.Run(inputs);
    EXPECT_TRUE(absl::IsInvalidArgument(outputs.status())) << outputs.status();
    EXPECT_THAT(outputs.status().message(), AllOf(HasSubstr("'power'"), HasSubstr(message)));
  }
  const auto missing = (*model)->signature("pow").Run({});
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_EQ((*model)->signature("pow").info(), nullptr);
}

TEST(SavedModelTest, InputsWithADefaultMayBeLeftOut) {
  const std::string folder = CopyModel("tf2");
  EditModel(folder, [](tensorflow::MetaGraphDef& meta_graph) {
    tensorflow::TensorProto& value =
        (*(*meta_graph.mutable_signature_def())["power"].mutable_defaults())["exponent"];
    value.set_dtype(tensorflow::DT_INT32);
    value.mutable_tensor_shape();
    value.add_int_val(2);
  });
  const auto model = SavedModel::Load(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto outputs = (*model)->signature("power").Run({{"base", Tensor::Vector<float>({3})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(outputs->at("result").Elements<float>(), ElementsAre(9));
}

TEST(SavedModelTest, WhatIsBehindAnInputIsNotNeeded) {
  const std::string folder = CopyModel("tf1");
  EditModel(folder, [](tensorflow::MetaGraphDef& meta_graph) {
    AddTestNode(meta_graph, "parse", "NoSuchParse", {});
    for (const auto& [name, op, input] : {std::make_tuple("parsed", "Identity", "parse"),
                                          std::make_tuple("end", "Neg", "parsed")}) {
      AddTestNode(meta_graph, name, op, {input});
      tensorflow::GraphDef& graph = *meta_graph.mutable_graph_def();
      (*graph.mutable_node(graph.node_size() - 1)->mutable_attr())["T"].set_type(
          tensorflow::DT_FLOAT);
    }
    tensorflow::SignatureDef& signature = (*meta_graph.mutable_signature_def())["parsed"];
    (*signature.mutable_inputs())["x"].set_name("parsed:0");
    (*signature.mutable_inputs())["x"].set_dtype(tensorflow::DT_FLOAT);
    (*signature.mutable_outputs())["y"].set_name("end:0");
    (*signature.mutable_outputs())["y"].set_dtype(tensorflow::DT_FLOAT);
  });
  const auto model = LoadWith(folder, {"parsed"});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto outputs = (*model)->signature("parsed").Run({{"x", SomeX()}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(outputs->at("y").Elements<float>(), ElementsAre(-0.5f, 1));
}

TEST(SavedModelTest, ASignatureWithoutOutputsCannotBeUsed) {
  const std::string folder = CopyModel("tf1");
  EditModel(folder, [](tensorflow::MetaGraphDef& meta_graph) {
    (*meta_graph.mutable_signature_def())["nothing"].set_method_name("x");
  });
  EXPECT_TRUE(absl::IsInvalidArgument(LoadWith(folder, {"nothing"}).status()));
  const auto model = SavedModel::Load(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(absl::IsInvalidArgument((*model)->signature("nothing").Run({}).status()));
  EXPECT_TRUE((*model)->signature("where").Run({}).ok());
}

TEST(SavedModelTest, ManyThreadsRunAtOnce) {
  const auto model = SavedModel::Load(TestModel("tf2"));
  ASSERT_TRUE(model.ok()) << model.status();
  constexpr int kThreads = 4;
  constexpr int kRuns = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRuns; ++i) {
        const auto result = (*model)->signature("power").Run(
            {{"base", Tensor::Vector<float>({static_cast<float>(t)})},
             {"exponent", Tensor::Scalar<int32_t>(2)}});
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->at("result").Elements<float>()[0], static_cast<float>(t * t));
        EXPECT_TRUE((*model)->signature("count").Run({}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*model)->ReadVariable("calls")->Elements<int64_t>()[0], kThreads * kRuns);
}

TEST(SavedModelTest, VariablesAreReadByName) {
  const auto model = SavedModel::Load(TestModel("tf2"));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE((*model)->signature("count").Run({}).ok());
  const auto calls = (*model)->ReadVariable("calls");
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_EQ(calls->Elements<int64_t>()[0], 1);
  EXPECT_THAT((*model)->ReadVariable("kernel")->Elements<float>(), ElementsAre(1, -2, 0.5f, 4));
  EXPECT_THAT((*model)->ReadVariable("kernl").status().message(),
              HasSubstr("Did you mean 'kernel'"));

  const auto first = SavedModel::Load(TestModel("tf1"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT((*first)->ReadVariable("reference")->Elements<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT((*first)->ReadVariable("bias")->Elements<float>(), ElementsAre(0.5f, -0.5f));
}

TEST(SavedModelTest, VariablesAreRestoredByNameWhereTheGraphCannot) {
  for (const bool no_saver : {true, false}) {
    const std::string folder = CopyModel("tf2");
    EditModel(folder, [&](tensorflow::MetaGraphDef& meta_graph) {
      if (no_saver) {
        meta_graph.clear_saver_def();
        return;
      }
      for (tensorflow::FunctionDef& function :
           *meta_graph.mutable_graph_def()->mutable_library()->mutable_function()) {
        if (!absl::StrContains(function.signature().name(), "traced_restore")) continue;
        for (tensorflow::NodeDef& node : *function.mutable_node_def()) {
          if (node.op() == "RestoreV2") node.set_op("NoSuchRestore");
        }
      }
    });
    const auto model = SavedModel::Load(folder);
    ASSERT_TRUE(model.ok()) << model.status();
    for (const Json& one : Expected("tf2")) {
      const auto outputs =
          (*model)->signature(one["signature"].get<std::string>()).Run(InputsOf(one));
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      for (const auto& [name, value] : one["outputs"].items())
        ExpectClose(outputs->at(name), value);
    }
  }
}

TEST(SavedModelTest, VariablesThatAreMissingOrDamagedAreNamed) {
  const std::string missing = CopyModel("keras");
  std::filesystem::remove(JoinPath(missing, "variables/variables.index"));
  const auto without = SavedModel::Load(missing);
  EXPECT_TRUE(absl::IsNotFound(without.status())) << without.status();
  EXPECT_THAT(without.status().message(), HasSubstr("variables/variables.index"));

  const std::string damaged = CopyModel("keras");
  const std::string data = JoinPath(damaged, "variables/variables.data-00000-of-00001");
  std::string bytes = *ReadFile(PosixFileSystem(), data);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), data, bytes).ok());
  const auto bad = SavedModel::Load(damaged);
  EXPECT_TRUE(absl::IsDataLoss(bad.status())) << bad.status();
  EXPECT_THAT(bad.status().message(), HasSubstr(damaged));
}

TEST(SavedModelTest, TheTextFormIsTheSame) {
  const std::string folder = CopyModel("keras");
  const std::string binary = JoinPath(folder, "saved_model.pb");
  tensorflow::SavedModel proto;
  ASSERT_TRUE(proto.ParseFromString(*ReadFile(PosixFileSystem(), binary)));
  std::string text;
  ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(proto, &text));
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), binary + "txt", text).ok());
  std::filesystem::remove(binary);
  const auto model = SavedModel::Load(folder);
  ASSERT_TRUE(model.ok()) << model.status();
  const Json one = Expected("keras")[0];
  const auto outputs = (*model)->signature().Run(InputsOf(one));
  ASSERT_TRUE(outputs.ok()) << outputs.status();

  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), binary + "txt", "meta_graphs {\n  x").ok());
  const auto bad = SavedModel::Load(folder);
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
  EXPECT_THAT(bad.status().message(), AllOf(HasSubstr("saved_model.pbtxt"), HasSubstr("line 2")));
}

TEST(SavedModelTest, WhatIsNoSavedModelIsSaid) {
  EXPECT_THAT(SavedModel::Load(TestModel("nothing")).status().message(), HasSubstr("nothing"));
  const auto empty = SavedModel::Load(TestFolder());
  EXPECT_TRUE(absl::IsNotFound(empty.status()));
  EXPECT_THAT(empty.status().message(), HasSubstr("neither saved_model.pb nor"));
  const auto file = SavedModel::Load(TestModel("frozen.pb"));
  EXPECT_TRUE(absl::IsInvalidArgument(file.status()));
  const std::string folder = CopyModel("keras");
  tensorflow::SavedModel model;
  const std::string path = JoinPath(folder, "saved_model.pb");
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, "").ok());
  EXPECT_THAT(SavedModel::Load(folder).status().message(), HasSubstr("no graph"));
  model.set_saved_model_schema_version(2);
  model.add_meta_graphs();
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, model.SerializeAsString()).ok());
  EXPECT_THAT(SavedModel::Load(folder).status().message(), HasSubstr("version 2"));
}

// Nobody writes to these pipes: who opened one as usual would wait for ever.
TEST(SavedModelTest, PipesInPlaceOfFilesAreRefused) {
  for (const auto& [name, message] : std::vector<std::pair<std::string, std::string>>{
           {"saved_model.pb", "pipe"},
           {"variables/variables.index", "pipe"},
           {"variables/variables.data-00000-of-00001", "has 0 bytes"},
           {"assets/greeting.txt", "pipe"}}) {
    const std::string folder = CopyModel("tf2");
    const std::string path = JoinPath(folder, name);
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const auto model = SavedModel::Load(folder);
    ASSERT_FALSE(model.ok()) << name;
    EXPECT_THAT(std::string(model.status().message()),
                AllOf(HasSubstr(std::string(FileNameOf(name))), HasSubstr(message)));
  }
}

TEST(SavedModelTest, AModelIsToldFromAGraph) {
  const std::string folder = CopyModel("keras");
  EXPECT_TRUE(IsSavedModel(folder));
  const std::string binary = JoinPath(folder, "saved_model.pb");
  EXPECT_TRUE(IsSavedModel(binary));
  tensorflow::SavedModel proto;
  ASSERT_TRUE(proto.ParseFromString(*ReadFile(PosixFileSystem(), binary)));
  std::string text;
  ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(proto, &text));
  const std::string other = JoinPath(folder, "other");
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), other, text).ok());
  EXPECT_TRUE(IsSavedModel(other));
  EXPECT_FALSE(IsSavedModel(TestModel("frozen.pb")));
  EXPECT_FALSE(IsSavedModel(TestModel("frozen.pbtxt")));
  EXPECT_FALSE(IsSavedModel(JoinPath(folder, "variables")));
  EXPECT_FALSE(IsSavedModel("/dev/zero"));
}

TEST(SavedModelTest, ASignatureOfANodeThatIsNotThereIsNamed) {
  const std::string folder = CopyModel("keras");
  EditModel(folder, [](tensorflow::MetaGraphDef& meta_graph) {
    auto& outputs = *(*meta_graph.mutable_signature_def())["serve"].mutable_outputs();
    outputs.begin()->second.set_name("nobody:0");
  });
  const auto model = SavedModel::Load(folder);
  EXPECT_TRUE(absl::IsInvalidArgument(model.status())) << model.status();
  EXPECT_THAT(model.status().message(), AllOf(HasSubstr("'serve'"), HasSubstr("'nobody'")));
}

TEST(FrozenGraphTest, RunsTextAndBinary) {
  for (const char* const name : {"frozen.pb", "frozen.pbtxt"}) {
    const auto model = SavedModel::LoadFrozenGraph(TestModel(name));
    ASSERT_TRUE(model.ok()) << model.status();
    const SignatureInfo& info = *(*model)->signature().info();
    ASSERT_EQ(info.inputs.size(), 1u);
    EXPECT_EQ(info.inputs[0].name, "x");
    EXPECT_EQ(info.inputs[0].shape, PartialShape({-1, 2}));
    ASSERT_EQ(info.outputs.size(), 1u);
    EXPECT_EQ(info.outputs[0].name, "Identity");
    const Json one = Expected("tf2")[0];
    const auto outputs = (*model)->signature().Run(InputsOf(one));
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ExpectClose(outputs->at("Identity"), one["outputs"]["y"]);
  }
}

TEST(FrozenGraphTest, InputsAndOutputsMayBeAnywhere) {
  FrozenGraphOptions options;
  const std::string add = "StatefulPartitionedCall/add";
  options.inputs = {add};
  options.outputs = {"Tanh:0", add};
  const auto model = SavedModel::LoadFrozenGraph(TestModel("frozen.pb"), options);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto outputs = (*model)->signature().Run({{add, SomeX()}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_NEAR(outputs->at("Tanh").Elements<float>()[0], std::tanh(0.5f), 1e-6);
  EXPECT_THAT(outputs->at(add).Elements<float>(), ElementsAre(0.5f, -1));
  options.outputs = {"Tanhh"};
  const auto bad = SavedModel::LoadFrozenGraph(TestModel("frozen.pb"), options);
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status())) << bad.status();
  EXPECT_THAT(bad.status().message(), AllOf(HasSubstr("frozen.pb"), HasSubstr("'Tanhh'")));
}

}  // namespace
}  // namespace tandem
