// SavedModel::Load and LoadFrozenGraph.
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/graph/graph_file.h"
#include "core/graph/import.h"
#include "core/graph/scope.h"
#include "core/io/bundle.h"
#include "core/io/file.h"
#include "core/op/registry.h"
#include "proto/saved_model.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/saved_model/graph_part.h"
#include "runtime/saved_model/large_constants.h"
#include "runtime/saved_model/model_functions.h"
#include "runtime/saved_model/saved_model.h"
#include "runtime/saved_model/signature_state.h"
#include "runtime/saved_model/variable_paths.h"

namespace tandem {
namespace {

// Nodes that are added to the model's.
constexpr char kReadPrefix[] = "_tandem_read";
constexpr char kRestorePrefix[] = "_tandem_restore";

bool IsReferenceVariable(const Node& node) { return node.Is("VariableV2") || node.Is("Variable"); }

// "node" of "node:0".
std::string ShortName(absl::string_view tensor) {
  absl::ConsumeSuffix(&tensor, ":0");
  return std::string(tensor);
}

// Takes the type and shape from the graph when the signature does not tell them.
absl::Status Complete(const Graph& graph, SignatureTensor* tensor) {
  TANDEM_ASSIGN_OR_RETURN(const Output output, graph.GetOutput(tensor->tensor));
  if (output.index < 0 || output.node->num_outputs() == 0) {
    return errors::InvalidArgument("'", tensor->name, "' is '", tensor->tensor,
                                   "', which has no value");
  }
  if (tensor->dtype == DataType::kInvalid) {
    tensor->dtype = RemoveReference(output.dtype());
    tensor->shape = output.shape();
  }
  return absl::OkStatus();
}

// The outputs of a graph that does not say which they are.
std::vector<std::string> UnusedOutputs(const tensorflow::GraphDef& graph) {
  std::set<absl::string_view> used;
  for (const tensorflow::NodeDef& node : graph.node()) {
    for (const std::string& input : node.input()) used.insert(NodeOfInput(input));
  }
  std::vector<std::string> outputs;
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (used.count(node.name()) != 0 || node.op() == "Const" || node.op() == "Placeholder") {
      continue;
    }
    const OpDef* const op = OpRegistry::Global().Find(node.op());
    if (op == nullptr || !op->outputs.empty()) outputs.push_back(node.name());
  }
  return outputs;
}

// The placeholders that the outputs need.
absl::StatusOr<std::vector<std::string>> Placeholders(const tensorflow::GraphDef& graph,
                                                      const std::vector<std::string>& outputs) {
  TANDEM_ASSIGN_OR_RETURN(const GraphParts parts,
                          GraphParts::Create(graph, tensorflow::OpList::default_instance()));
  TANDEM_ASSIGN_OR_RETURN(const GraphPart part, parts.Find(outputs, {}));
  std::vector<std::string> placeholders;
  for (const int i : part.nodes) {
    const std::string& op = graph.node(i).op();
    if (op == "Placeholder" || op == "PlaceholderV2") placeholders.push_back(graph.node(i).name());
  }
  return placeholders;
}

}  // namespace

class SavedModel::Loader {
 public:
  // `what` names the model in messages. `meta_graph` outlives this, which takes its graph.
  Loader(std::string what, tensorflow::MetaGraphDef* meta_graph)
      : what_(std::move(what)), meta_graph_(*meta_graph) {}

  absl::StatusOr<std::unique_ptr<SavedModel>> Load(const std::string& folder,
                                                   const SavedModelOptions& options) {
    absl::Status status = LoadParts(folder, options);
    if (!status.ok()) return InModel(status);
    return std::move(model_);
  }

 private:
  absl::Status InModel(const absl::Status& status) const {
    if (status.ok() || absl::StrContains(status.message(), what_)) return status;
    return WithContext(status, what_);
  }

  absl::Status LoadParts(const std::string& folder, const SavedModelOptions& options) {
    TANDEM_RETURN_IF_ERROR(AddFunctionSignatures(options.functions, &meta_graph_));
    variable_paths_ = VariablePaths(meta_graph_);
    TANDEM_ASSIGN_OR_RETURN(GraphParts parts,
                            GraphParts::Create(meta_graph_.graph_def(),
                                               meta_graph_.meta_info_def().stripped_op_list()));
    parts_ = &parts;
    TANDEM_RETURN_IF_ERROR(ReadSignatures());
    TANDEM_RETURN_IF_ERROR(ReadAssets(folder));
    TANDEM_RETURN_IF_ERROR(FindRestore(folder));
    TANDEM_RETURN_IF_ERROR(FindInitializer());
    std::vector<std::string> signatures = options.signatures;
    if (!signatures.empty()) {
      signatures.insert(signatures.end(), options.functions.begin(), options.functions.end());
    }
    TANDEM_RETURN_IF_ERROR(ChooseSignatures(signatures));
    for (const std::string& function : options.functions) {
      TANDEM_RETURN_IF_ERROR(model_->signature(function).status());
    }
    TANDEM_RETURN_IF_ERROR(MakeSession(options.session));
    TANDEM_RETURN_IF_ERROR(Restore(folder));
    return Initialize();
  }

  absl::Status ReadSignatures();
  absl::Status ReadAssets(const std::string& folder);
  absl::Status FindRestore(const std::string& folder);
  absl::Status FindInitializer();
  absl::Status ChooseSignatures(const std::vector<std::string>& wanted);
  // The part that is loaded, out of the message, of which nothing is asked afterwards.
  absl::StatusOr<Graph> TakeGraph();
  absl::Status MakeSession(SessionOptions options);
  absl::Status AddReads(Graph* graph);
  absl::Status AddAssignments(Graph* graph);
  absl::Status Restore(const std::string& folder);
  absl::Status RestoreByName(const std::string& prefix);
  absl::Status Initialize();

  // The assets' feeds that the part of the graph that was loaded has nodes for.
  Session::Feeds AssetFeeds() const;
  std::vector<FedTensor> AssetTensors() const {
    std::vector<FedTensor> tensors;
    for (const auto& [tensor, path] : assets_) tensors.push_back({tensor, kString});
    return tensors;
  }
  const std::string what_;
  tensorflow::MetaGraphDef& meta_graph_;
  const GraphParts* parts_ = nullptr;
  std::map<std::string, std::string> variable_paths_;  // See VariablePaths.
  std::unique_ptr<SavedModel> model_{new SavedModel()};

  std::vector<std::pair<std::string, std::string>> assets_;  // Tensor and path.
  std::string restore_node_;                                 // Empty: nothing is restored with it.
  std::string prefix_tensor_;
  bool restore_by_name_ = false;
  std::string init_node_;
  GraphPart always_;  // What restores and initializes.
  // Of the latter alone: where the former lacks ops, variables are restored by name.
  MissingOps missing_to_initialize_;
  GraphPart part_;  // All that is loaded.
  std::set<std::string> loaded_;
  // For restoring without the graph's help: of each variable the tensor to feed, the node that
  // assigns it, and the path of its object, if that is known.
  struct Assignment {
    std::string value;
    std::string node;
    std::string path;
  };
  std::vector<Assignment> assignments_;
};

absl::Status SavedModel::Loader::ReadSignatures() {
  for (const auto& [name, def] : meta_graph_.signature_def()) {
    if (absl::StartsWith(name, "__saved_model_")) continue;
    auto state = std::make_unique<ModelSignature::State>();
    TANDEM_ASSIGN_OR_RETURN(state->info, ReadSignature(name, def));
    if (state->info.outputs.empty()) {
      state->status =
          errors::InvalidArgument("the signature '", name, "' of ", what_, " has no outputs");
    }
    model_->signatures_.emplace(name, std::move(state));
  }
  return absl::OkStatus();
}

absl::Status SavedModel::Loader::ReadAssets(const std::string& folder) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<tensorflow::AssetFileDef> assets,
                          AssetsOf(meta_graph_));
  for (const tensorflow::AssetFileDef& asset : assets) {
    TANDEM_ASSIGN_OR_RETURN(std::string path, AssetPath(folder, asset.filename()));
    assets_.emplace_back(asset.tensor_info().name(), std::move(path));
  }
  return absl::OkStatus();
}

absl::Status SavedModel::Loader::FindRestore(const std::string& folder) {
  const tensorflow::SaverDef& saver = meta_graph_.saver_def();
  const bool has_variables = PosixFileSystem()->Stat(BundleIndexPath(VariablesPrefix(folder))).ok();
  if (saver.restore_op_name().empty()) {
    restore_by_name_ = has_variables;
    return absl::OkStatus();
  }
  std::vector<FedTensor> fed = AssetTensors();
  fed.push_back({saver.filename_tensor_name(), kString});
  absl::StatusOr<GraphPart> part = parts_->Find({saver.restore_op_name()}, fed);
  if (!part.ok()) return WithContext(part.status(), "what restores the variables");
  if (!has_variables) {
    // Savers of programs without variables restore nothing.
    if (!parts_->Uses(*part, "RestoreV2")) return absl::OkStatus();
    return errors::NotFound("its variables are missing: there is no '",
                            BundleIndexPath(VariablesPrefix(folder)), "'");
  }
  if (!parts_->Missing(*part).empty()) {
    restore_by_name_ = true;
    return absl::OkStatus();
  }
  restore_node_ = ShortName(saver.restore_op_name());
  prefix_tensor_ = saver.filename_tensor_name();
  always_.Add(*part);
  return absl::OkStatus();
}

absl::Status SavedModel::Loader::FindInitializer() {
  init_node_ = InitializerOf(meta_graph_);
  if (init_node_.empty()) return absl::OkStatus();
  absl::StatusOr<GraphPart> part = parts_->Find({init_node_}, AssetTensors());
  if (!part.ok()) return WithContext(part.status(), "what initializes it");
  init_node_ = std::string(NodeOfInput(init_node_));
  missing_to_initialize_ = parts_->Missing(*part);
  always_.Add(*part);
  return absl::OkStatus();
}

absl::Status SavedModel::Loader::ChooseSignatures(const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) TANDEM_RETURN_IF_ERROR(model_->signature(name).status());
  part_ = always_;
  std::vector<std::string> needs;  // Of those that were asked for, or of all: what is missing.
  bool any = model_->signatures_.empty();
  for (auto& [name, state] : model_->signatures_) {
    const bool is_wanted = wanted.empty() || absl::c_linear_search(wanted, name);
    std::vector<std::string> roots;
    std::vector<FedTensor> fed;
    for (const SignatureTensor& output : state->info.outputs) roots.push_back(output.tensor);
    for (const SignatureTensor& input : state->info.inputs) {
      fed.push_back({input.tensor, input.dtype});
    }
    absl::StatusOr<GraphPart> part = parts_->Find(roots, fed);
    if (!part.ok()) return WithContext(part.status(), absl::StrCat("signature '", name, "'"));
    const MissingOps missing = parts_->Missing(*part);
    if (!missing.empty()) {
      if (is_wanted) {
        needs.push_back(absl::StrCat("its signature '", name, "' needs ", MissingOpsText(missing)));
      }
      state->status = errors::Unimplemented(
          "the signature '", name, "' of ", what_,
          " needs ops that this program does not have: ", MissingOpsText(missing));
    } else if (!is_wanted) {
      state->status = errors::FailedPrecondition("the signature '", name, "' of ", what_,
                                                 " was not asked for when the model was loaded");
    }
    if (!state->status.ok()) continue;
    any = true;
    part_.Add(*part);
  }
  if (wanted.empty() && any) needs.clear();
  if (!missing_to_initialize_.empty()) {
    needs.push_back(absl::StrCat("what initializes it (tables, assets) needs ",
                                 MissingOpsText(missing_to_initialize_)));
  }
  if (!needs.empty()) {
    return errors::Unimplemented("ops are needed that this program does not have: ",
                                 absl::StrJoin(needs, "; "));
  }
  for (const std::string& name : wanted) TANDEM_RETURN_IF_ERROR(model_->signature(name).status());
  return absl::OkStatus();
}

absl::StatusOr<Graph> SavedModel::Loader::TakeGraph() {
  // Constants may be most of a model: they are moved along, not copied.
  tensorflow::GraphDef def = parts_->TakeOut(part_, meta_graph_.mutable_graph_def());
  parts_ = nullptr;
  meta_graph_.clear_graph_def();
  for (const tensorflow::NodeDef& node : def.node()) loaded_.insert(node.name());
  TANDEM_ASSIGN_OR_RETURN(LargeConstants constants, TakeLargeConstants(&def));
  TANDEM_ASSIGN_OR_RETURN(Graph graph, ImportGraphDef(def));
  TANDEM_RETURN_IF_ERROR(PutLargeConstants(std::move(constants), &graph));
  return graph;
}

absl::Status SavedModel::Loader::MakeSession(SessionOptions options) {
  TANDEM_ASSIGN_OR_RETURN(Graph graph, TakeGraph());
  for (auto& [name, state] : model_->signatures_) {
    if (!state->status.ok()) continue;
    for (auto* tensors : {&state->info.inputs, &state->info.outputs}) {
      for (SignatureTensor& tensor : *tensors) {
        const absl::Status status = Complete(graph, &tensor);
        if (!status.ok()) return WithContext(status, absl::StrCat("signature '", name, "'"));
      }
    }
  }
  TANDEM_RETURN_IF_ERROR(AddReads(&graph));
  if (restore_by_name_) TANDEM_RETURN_IF_ERROR(AddAssignments(&graph));
  options.soft_placement = true;
  TANDEM_ASSIGN_OR_RETURN(model_->session_, Session::Create(graph, std::move(options)));
  for (auto& [name, state] : model_->signatures_) state->session = model_->session_.get();
  return absl::OkStatus();
}

absl::Status SavedModel::Loader::AddReads(Graph* graph) {
  std::set<std::string> names;
  for (Node* const node : graph->nodes()) {
    const bool is_reference = IsReferenceVariable(*node);
    if (!is_reference && !node->Is("VarHandleOp")) continue;
    const auto* const shared_name = node->Attr<std::string>("shared_name");
    Variable variable;
    variable.name = shared_name == nullptr || shared_name->empty() ? node->name() : *shared_name;
    if (!names.insert(variable.name).second) continue;
    variable.dtype = *node->Attr<DataType>("dtype");
    variable.shape = *node->Attr<PartialShape>("shape");
    variable.read = node->name();
    if (!is_reference) {
      NodeSpec read;
      read.name = graph->UniqueName(kReadPrefix);
      read.op = "ReadVariableOp";
      read.inputs = {node->output(0)};
      read.attrs = {{"dtype", variable.dtype}};
      TANDEM_ASSIGN_OR_RETURN(Node * added, graph->AddNode(std::move(read)));
      variable.read = added->name();
    }
    model_->variables_.push_back(std::move(variable));
  }
  absl::c_sort(model_->variables_,
               [](const Variable& a, const Variable& b) { return a.name < b.name; });
  return absl::OkStatus();
}

absl::Status SavedModel::Loader::AddAssignments(Graph* graph) {
  const Scope scope = Scope::ForGraph(graph);
  for (const Variable& variable : model_->variables_) {
    Node* handle = graph->FindNode(variable.read);
    const bool is_reference = IsReferenceVariable(*handle);
    if (!is_reference) handle = handle->input(0).node;
    const Scope named = scope.WithOpName(kRestorePrefix);
    const Output value = named.Call("Placeholder", {}, {{"dtype", variable.dtype}});
    Node* const assign =
        named.AddNode(is_reference ? "Assign" : "AssignVariableOp", {handle->output(0), value});
    TANDEM_RETURN_IF_ERROR(scope.status());
    const auto path = variable_paths_.find(handle->name());
    assignments_.push_back(
        {value.name(), assign->name(), path == variable_paths_.end() ? "" : path->second});
  }
  return absl::OkStatus();
}

Session::Feeds SavedModel::Loader::AssetFeeds() const {
  Session::Feeds feeds;
  for (const auto& [tensor, path] : assets_) {
    if (loaded_.count(std::string(NodeOfInput(tensor))) == 0) continue;
    feeds.emplace_back(tensor, Tensor::Scalar<std::string>(path));
  }
  return feeds;
}

absl::Status SavedModel::Loader::Restore(const std::string& folder) {
  const std::string prefix = VariablesPrefix(folder);
  if (restore_by_name_) return RestoreByName(prefix);
  if (restore_node_.empty()) return absl::OkStatus();
  Session::Feeds feeds = AssetFeeds();
  feeds.emplace_back(prefix_tensor_, Tensor::Scalar<std::string>(prefix));
  return WithContext(model_->session_->Run(feeds, {}, {restore_node_}).status(),
                     "restoring the variables");
}

absl::Status SavedModel::Loader::RestoreByName(const std::string& prefix) {
  Checkpoint::Options options;
  options.verify = false;  // What is read is compared with its sum then.
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          Checkpoint::Open(prefix, options));
  Session::Feeds feeds;
  std::vector<std::string> targets;
  for (size_t i = 0; i < model_->variables_.size(); ++i) {
    const Variable& variable = model_->variables_[i];
    const Assignment& assignment = assignments_[i];
    const ObjectGraph* const objects = checkpoint->objects();
    const absl::StatusOr<std::string> key = objects != nullptr && !assignment.path.empty()
                                                ? objects->Find(assignment.path)
                                                : checkpoint->Resolve(variable.name);
    // It may be one that the initializer sets. If not, whoever reads it says that it has no value.
    if (!key.ok()) continue;
    TANDEM_ASSIGN_OR_RETURN(Tensor value, checkpoint->bundle().Read(*key));
    if (value.dtype() != variable.dtype || !variable.shape.IsCompatibleWith(value.shape())) {
      return errors::InvalidArgument("variable '", variable.name, "' is ",
                                     DataTypeName(value.dtype()), value.shape().DebugString(),
                                     " in the checkpoint '", prefix, "'; the graph has ",
                                     DataTypeName(variable.dtype), variable.shape.DebugString());
    }
    feeds.emplace_back(assignment.value, std::move(value));
    targets.push_back(assignment.node);
  }
  if (targets.empty()) return absl::OkStatus();
  return model_->session_->Run(feeds, {}, targets).status();
}

absl::Status SavedModel::Loader::Initialize() {
  if (init_node_.empty()) return absl::OkStatus();
  return WithContext(model_->session_->Run(AssetFeeds(), {}, {init_node_}).status(),
                     "initializing it");
}

absl::StatusOr<std::unique_ptr<SavedModel>> SavedModel::Load(const std::string& folder,
                                                             const SavedModelOptions& options) {
  tensorflow::SavedModel model;
  TANDEM_RETURN_IF_ERROR(ReadSavedModel(folder, &model));
  TANDEM_ASSIGN_OR_RETURN(tensorflow::MetaGraphDef* const meta_graph,
                          FindMetaGraph(folder, options.tags, &model));
  return Loader(absl::StrCat("SavedModel '", folder, "'"), meta_graph).Load(folder, options);
}

absl::StatusOr<std::unique_ptr<SavedModel>> SavedModel::LoadFrozenGraph(
    const std::string& path, const FrozenGraphOptions& options) {
  const std::string what = absl::StrCat("frozen graph '", path, "'");
  tensorflow::MetaGraphDef meta_graph;
  tensorflow::GraphDef& graph = *meta_graph.mutable_graph_def();
  TANDEM_RETURN_IF_ERROR(ReadGraphFile(path, &graph));
  const std::vector<std::string> outputs =
      options.outputs.empty() ? UnusedOutputs(graph) : options.outputs;
  if (outputs.empty()) return errors::InvalidArgument(what, ": it has no outputs");
  absl::StatusOr<std::vector<std::string>> inputs = options.inputs;
  if (inputs->empty()) inputs = Placeholders(graph, outputs);
  if (!inputs.ok()) return WithContext(inputs.status(), what);
  tensorflow::SignatureDef& signature = (*meta_graph.mutable_signature_def())[kDefaultSignature];
  for (const std::string& name : *inputs) {
    (*signature.mutable_inputs())[ShortName(name)].set_name(name);
  }
  for (const std::string& name : outputs) {
    (*signature.mutable_outputs())[ShortName(name)].set_name(name);
  }
  SavedModelOptions load;
  load.signatures = {kDefaultSignature};
  load.session = options.session;
  return Loader(what, &meta_graph).Load("", load);
}

}  // namespace tandem
