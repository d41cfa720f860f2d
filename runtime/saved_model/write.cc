#include "runtime/saved_model/write.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/version.h"
#include "core/graph/export.h"
#include "core/graph/function_body.h"
#include "core/graph/op_def_proto.h"
#include "core/graph/scope.h"
#include "core/op/registry.h"
#include "core/tensor/tensor_proto.h"
#include "proto/saved_model.pb.h"
#include "runtime/checkpoint/object_graph.h"
#include "runtime/checkpoint/write.h"
#include "runtime/saved_model/exported_function.h"
#include "runtime/saved_model/graph_part.h"
#include "runtime/saved_model/model_folder.h"
#include "runtime/saved_model/written_objects.h"

namespace tandem {
namespace {

constexpr char kPredictMethod[] = "tensorflow/serving/predict";
// The version whose graphs Tandem writes (kGraphVersion). TensorFlow 1 parses it to learn what it
// may expect.
constexpr char kTensorFlowVersion[] = "2.21.0";

Tensor Strings(const std::vector<std::string>& texts) {
  Tensor tensor(kString, Shape({static_cast<int64_t>(texts.size())}));
  absl::c_copy(texts, tensor.MutableElements<std::string>().begin());
  return tensor;
}

// Puts the message together; nothing is written yet.
class ModelBuilder {
 public:
  explicit ModelBuilder(const SavedModelContents& contents) : contents_(contents) {}

  absl::Status Build() {
    if (contents_.graph == nullptr || contents_.signatures.empty()) {
      return errors::InvalidArgument("a model needs a graph and a signature at least");
    }
    meta_graph_ = model_.add_meta_graphs();
    TANDEM_RETURN_IF_ERROR(AddVariables());
    TANDEM_RETURN_IF_ERROR(AddAssets());
    for (const SavedModelContents::Signature& signature : contents_.signatures) {
      const absl::Status status = AddSignature(signature);
      if (!status.ok()) {
        return WithContext(status, absl::StrCat("signature '", signature.name, "'"));
      }
    }
    TANDEM_RETURN_IF_ERROR(AddInitializer());
    if (!contents_.variables.empty()) TANDEM_RETURN_IF_ERROR(AddSaver());
    TANDEM_RETURN_IF_ERROR(scope_.status());
    TANDEM_RETURN_IF_ERROR(ExportGraphDef(*scope_.graph(), {}, meta_graph_->mutable_graph_def()));
    model_.set_saved_model_schema_version(1);
    *meta_graph_->mutable_object_graph_def() = objects_.saved();
    return AddInfo();
  }

  const tensorflow::SavedModel& model() const { return model_; }
  // What the checkpoint holds.
  NamedTensors Checkpoint() const {
    NamedTensors tensors;
    for (size_t i = 0; i < contents_.variables.size(); ++i) {
      tensors.emplace_back(objects_.keys()[i], contents_.variables[i].value);
    }
    tensors.emplace_back(kObjectGraphName,
                         Tensor::Scalar<std::string>(DeterministicBytes(objects_.trackable())));
    return tensors;
  }
  // Name in the folder of the assets and file, of each.
  const std::vector<std::pair<std::string, std::string>>& assets() const { return assets_; }

 private:
  absl::Status AddVariables();
  absl::Status AddAssets();
  absl::Status AddSignature(const SavedModelContents::Signature& signature);
  // With those of the contents' graph that it calls.
  absl::Status AddFunction(const tensorflow::FunctionDef& function);
  absl::Status AddInitializer();
  absl::Status AddSaver();
  absl::Status AddInfo();

  const SavedModelContents& contents_;
  tensorflow::SavedModel model_;
  tensorflow::MetaGraphDef* meta_graph_ = nullptr;
  WrittenObjects objects_;
  const Scope scope_ = Scope::NewRoot();  // Of the graph that is written.
  // Variables, then assets: in the contents' graph, and what a call is given for them here.
  std::vector<Output> captures_;
  std::vector<Output> given_;
  std::vector<Node*> initializers_;
  std::vector<std::pair<std::string, std::string>> assets_;
};

absl::Status ModelBuilder::AddVariables() {
  for (const SavedModelContents::Variable& variable : contents_.variables) {
    const std::string context = absl::StrCat("variable '", variable.name, "'");
    if (!variable.value.is_valid()) return errors::InvalidArgument(context, " has no value");
    const DataType dtype = variable.value.dtype();
    const Shape& shape = variable.value.shape();
    absl::StatusOr<Output> handle = contents_.graph->GetOutput(variable.handle);
    if (!handle.ok()) return WithContext(handle.status(), context);
    const auto* const its_dtype = handle->node->Attr<DataType>("dtype");
    const auto* const its_shape = handle->node->Attr<PartialShape>("shape");
    if (!handle->node->Is("VarHandleOp") || its_dtype == nullptr || its_shape == nullptr) {
      return errors::InvalidArgument(context, ": '", variable.handle, "' is a ",
                                     handle->node->type(), "; a VarHandleOp is expected");
    }
    if (*its_dtype != dtype || !its_shape->IsCompatibleWith(shape)) {
      return errors::InvalidArgument(context, ": its value is ", DataTypeName(dtype),
                                     shape.DebugString(), "; its handle is for ",
                                     DataTypeName(*its_dtype), its_shape->DebugString());
    }
    TANDEM_RETURN_IF_ERROR(objects_.AddVariable(variable.name, dtype, shape, variable.trainable));
    captures_.push_back(*handle);
    given_.push_back(
        scope_.WithOpName(NodeNameFrom(variable.name))
            .Call("VarHandleOp", {},
                  {{"dtype", dtype}, {"shape", shape}, {"shared_name", variable.name}}));
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::AddAssets() {
  std::set<std::string> taken;
  for (const SavedModelContents::Asset& asset : contents_.assets) {
    TANDEM_ASSIGN_OR_RETURN(const Output path, contents_.graph->GetOutput(asset.tensor));
    const std::string base(FileNameOf(asset.path));
    if (base.empty() || base == "." || base == "..") {
      return errors::InvalidArgument("asset '", asset.path, "' is no file");
    }
    std::string name = base;
    for (int i = 1; !taken.insert(name).second; ++i) name = absl::StrCat(i, "_", base);
    assets_.emplace_back(name, asset.path);
    TANDEM_RETURN_IF_ERROR(objects_.AddAsset());
    // A path is given once, when the model is initialized; a variable keeps it.
    const Scope scope = scope_.SubScope("asset");
    const Output given = scope.WithOpName("path").Call(
        "Const", {}, {{"dtype", kString}, {"value", Tensor::Scalar<std::string>(name)}});
    const Output handle = scope.WithOpName("variable")
                              .Call("VarHandleOp", {},
                                    {{"dtype", kString},
                                     {"shape", Shape()},
                                     {"shared_name", scope.NodeName("variable")}});
    initializers_.push_back(scope.AddNode("AssignVariableOp", {handle, given}));
    captures_.push_back(path);
    given_.push_back(scope.Call("ReadVariableOp", {handle}, {{"dtype", kString}}));
    TANDEM_RETURN_IF_ERROR(scope_.status());
    tensorflow::AssetFileDef& file = *meta_graph_->add_asset_file_def();
    file.set_filename(name);
    file.mutable_tensor_info()->set_name(given.name() + ":0");
    file.mutable_tensor_info()->set_dtype(tensorflow::DT_STRING);
    file.mutable_tensor_info()->mutable_tensor_shape();
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::AddSignature(const SavedModelContents::Signature& signature) {
  if (signature.name.empty() || absl::StartsWith(signature.name, "__") ||
      meta_graph_->signature_def().count(signature.name) != 0) {
    return errors::InvalidArgument(
        "the name is empty, there twice, or begins with two underscores");
  }
  if (signature.outputs.empty()) return errors::InvalidArgument("it has no outputs");
  const std::string function_name = absl::StrCat("__inference_", NodeNameFrom(signature.name), "_",
                                                 objects_.saved().nodes_size());
  TANDEM_ASSIGN_OR_RETURN(ExportedFunction function,
                          ExportFunction(function_name, *contents_.graph, signature.inputs,
                                         signature.outputs, captures_));
  TANDEM_RETURN_IF_ERROR(objects_.AddSignature(signature.name, function, function.captured));
  TANDEM_RETURN_IF_ERROR(AddFunction(function.def));

  tensorflow::SignatureDef& def = (*meta_graph_->mutable_signature_def())[signature.name];
  def.set_method_name(kPredictMethod);
  const auto describe = [](const SignatureTensor& tensor, const std::string& name,
                           tensorflow::TensorInfo& info) {
    info.set_name(name);
    info.set_dtype(static_cast<tensorflow::DataType>(tensor.dtype));
    ShapeToProto(tensor.shape, info.mutable_tensor_shape());
  };
  InputList arguments;
  std::vector<DataType> argument_types;
  std::vector<DataType> result_types;
  for (const SignatureTensor& input : function.inputs) {
    const Output placeholder =
        scope_.WithOpName(NodeNameFrom(absl::StrCat(signature.name, "_", input.name)))
            .Call("Placeholder", {}, {{"dtype", input.dtype}, {"shape", input.shape}});
    TANDEM_RETURN_IF_ERROR(scope_.status());
    arguments.emplace_back(placeholder);
    argument_types.push_back(input.dtype);
    describe(input, placeholder.node->name() + ":0", (*def.mutable_inputs())[input.name]);
  }
  for (const int capture : function.captured) {
    arguments.emplace_back(given_[static_cast<size_t>(capture)]);
    argument_types.push_back(given_[static_cast<size_t>(capture)].dtype());
  }
  for (const SignatureTensor& output : function.outputs) result_types.push_back(output.dtype);
  const Node* const call = scope_.AddNode(
      function.def.signature().is_stateful() ? "StatefulPartitionedCall" : "PartitionedCall",
      arguments,
      {{"f", FunctionRef{function_name, {}}}, {"Tin", argument_types}, {"Tout", result_types}});
  TANDEM_RETURN_IF_ERROR(scope_.status());
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    describe(function.outputs[i], absl::StrCat(call->name(), ":", i),
             (*def.mutable_outputs())[function.outputs[i].name]);
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::AddFunction(const tensorflow::FunctionDef& function) {
  TANDEM_RETURN_IF_ERROR(scope_.graph()->functions().Add(function));
  std::set<std::string> called;
  for (const tensorflow::NodeDef& node : function.node_def()) AddCalledFunctions(node, &called);
  for (const std::string& name : called) {
    const auto callee = contents_.graph->functions().Find(name);
    if (callee == nullptr) {
      return errors::InvalidArgument("it calls the function '", name,
                                     "', which is not in the graph's library");
    }
    if (scope_.graph()->functions().Find(name) == nullptr) {
      TANDEM_RETURN_IF_ERROR(AddFunction(*callee));
    }
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::AddInitializer() {
  const Node* const init =
      scope_.WithOpName("init").WithControlDependencies(initializers_).AddNode("NoOp", {});
  TANDEM_RETURN_IF_ERROR(scope_.status());
  tensorflow::TensorInfo& info =
      (*(*meta_graph_->mutable_signature_def())[kInitSignature].mutable_outputs())[kInitSignature];
  info.set_name(init->name());
  info.mutable_tensor_shape()->set_unknown_rank(true);
  (*meta_graph_->mutable_collection_def())["saved_model_main_op"].mutable_node_list()->add_value(
      init->name());
  return absl::OkStatus();
}

absl::Status ModelBuilder::AddSaver() {
  const Scope scope = scope_.SubScope("save");
  const Output prefix = scope_.WithOpName("saver_filename")
                            .Call("Placeholder", {}, {{"dtype", kString}, {"shape", Shape()}});
  const Tensor names = Strings(objects_.keys());
  const Tensor slices = Strings(std::vector<std::string>(objects_.keys().size()));
  std::vector<DataType> types;
  InputList saved = {prefix, names, slices};
  for (size_t i = 0; i < contents_.variables.size(); ++i) {
    types.push_back(contents_.variables[i].value.dtype());
    saved.emplace_back(scope.Call("ReadVariableOp", {given_[i]}, {{"dtype", types.back()}}));
  }
  Node* const save = scope.AddNode("SaveV2", saved, {{"dtypes", types}});
  TANDEM_RETURN_IF_ERROR(scope.status());
  const Output done = scope.WithControlDependencies({save})
                          .WithOpName("control_dependency")
                          .Call("Identity", {prefix});
  const std::vector<Output> restored =
      scope.CallMulti("RestoreV2", {prefix, names, slices}, {{"dtypes", types}});
  TANDEM_RETURN_IF_ERROR(scope.status());
  std::vector<Node*> assigned;
  for (size_t i = 0; i < restored.size(); ++i) {
    assigned.push_back(scope.AddNode("AssignVariableOp", {given_[i], restored[i]}));
  }
  const Node* const all =
      scope.WithControlDependencies(assigned).WithOpName("restore_all").AddNode("NoOp", {});
  TANDEM_RETURN_IF_ERROR(scope.status());
  tensorflow::SaverDef& saver = *meta_graph_->mutable_saver_def();
  saver.set_filename_tensor_name(prefix.node->name() + ":0");
  saver.set_save_tensor_name(done.node->name() + ":0");
  saver.set_restore_op_name(all->name());
  saver.set_version(tensorflow::SaverDef::V2);
  return absl::OkStatus();
}

absl::Status ModelBuilder::AddInfo() {
  tensorflow::MetaGraphDef::MetaInfoDef& info = *meta_graph_->mutable_meta_info_def();
  for (const std::string& tag : contents_.tags) info.add_tags(tag);
  info.set_tensorflow_version(kTensorFlowVersion);
  info.set_tensorflow_git_version(absl::StrCat("Tandem ", kVersion));
  std::set<std::string> ops;
  const tensorflow::GraphDef& graph = meta_graph_->graph_def();
  for (const tensorflow::NodeDef& node : graph.node()) ops.insert(node.op());
  for (const tensorflow::FunctionDef& function : graph.library().function()) {
    for (const tensorflow::NodeDef& node : function.node_def()) ops.insert(node.op());
  }
  for (const std::string& op : ops) {
    const OpDef* const def = OpRegistry::Global().Find(op);
    if (def == nullptr) continue;  // A function.
    TANDEM_RETURN_IF_ERROR(OpDefToProto(*def, info.mutable_stripped_op_list()->add_op()));
  }
  return absl::OkStatus();
}

absl::Status WriteFiles(FileSystem* files, const std::string& folder, const ModelBuilder& builder) {
  TANDEM_RETURN_IF_ERROR(files->MakeDirectories(JoinPath(folder, "variables")));
  TANDEM_RETURN_IF_ERROR(WriteCheckpoint(files, VariablesPrefix(folder), builder.Checkpoint()));
  if (!builder.assets().empty()) {
    const std::string assets = JoinPath(folder, "assets");
    TANDEM_RETURN_IF_ERROR(files->MakeDirectories(assets));
    for (const auto& [name, path] : builder.assets()) {
      const absl::StatusOr<std::string> contents = ReadFile(files, path);
      if (!contents.ok()) return WithContext(contents.status(), "asset");
      TANDEM_RETURN_IF_ERROR(WriteFileAtomically(files, JoinPath(assets, name), *contents));
    }
  }
  // Last: where it is, the rest is too.
  return WriteFileAtomically(files, JoinPath(folder, "saved_model.pb"),
                             DeterministicBytes(builder.model()));
}

absl::Status Write(const std::string& folder, const SavedModelContents& contents,
                   const WriteSavedModelOptions& options) {
  FileSystem* const files = options.files;
  TANDEM_RETURN_IF_ERROR(HoldsReplaceableModel(files, folder, options.overwrite).status());
  ModelBuilder builder(contents);
  TANDEM_RETURN_IF_ERROR(builder.Build());
  const std::string temporary = TemporaryPath(folder);
  absl::Status status = WriteFiles(files, temporary, builder);
  if (status.ok()) status = PutModelInPlace(files, temporary, folder, options.overwrite);
  if (!status.ok()) RemoveTree(files, temporary).IgnoreError();
  return status;
}

// Of "folder/" the last name is "folder".
std::string WithoutSlashes(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

}  // namespace

absl::Status WriteSavedModel(const std::string& folder, const SavedModelContents& contents,
                             const WriteSavedModelOptions& options) {
  return WithContext(Write(WithoutSlashes(folder), contents, options),
                     absl::StrCat("writing the SavedModel '", folder, "'"));
}

absl::Status CheckSavedModelFolder(const std::string& folder,
                                   const WriteSavedModelOptions& options) {
  const std::string path = WithoutSlashes(folder);
  absl::Status status = HoldsReplaceableModel(options.files, path, options.overwrite).status();
  if (status.ok()) status = TryToWriteBeside(options.files, path);
  return WithContext(status, absl::StrCat("a SavedModel cannot be written as '", folder, "'"));
}

}  // namespace tandem
