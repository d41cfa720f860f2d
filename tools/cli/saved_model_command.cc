#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/io/bundle.h"
#include "core/io/file.h"
#include "core/io/npy.h"
#include "core/op/registry.h"
#include "nlohmann/json.hpp"
#include "proto/saved_model.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/saved_model/graph_part.h"
#include "runtime/saved_model/saved_model.h"
#include "tools/cli/command.h"
#include "tools/cli/json_value.h"
#include "tools/cli/saved_model_functions.h"
#include "tools/cli/tensor_text.h"
#include "tools/cli/text_table.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

constexpr char kHelp[] =
    "tandem saved_model show|run DIR [OPTION…]\n\n"
    "Looks into models that TensorFlow, Keras or Tandem saved, and runs them.\n\n"
    "  show DIR            the graphs by their tags, and of each the signatures with inputs and\n"
    "                      outputs. Says which ops a signature, or what initializes the\n"
    "                      model, needs that this program lacks\n"
    "  run DIR             runs a signature once and prints its outputs\n\n"
    "  --tags=TAG,…        which graph (show: default all; run: default serve)\n"
    "  --signature=NAME    which signature (show: default all; run: default serving_default)\n"
    "  --function=NAME     run: a function that is no signature, by its path (show --all lists "
    "them)\n"
    "  --all               show: variables, assets, functions and ops, too\n"
    "  --input NAME=VALUE  run: an input in JSON (1.5, [1,2,3], [[1,0],[0,1]], true, \"text\")\n"
    "  --input NAME=@FILE  run: an array from a NumPy .npy file\n"
    "  --save NAME=FILE    run: writes an output to a .npy file instead of printing it\n"
    "  --max_values=N      run: the most values of an output to print (default 1000)\n"
    "  --json              for programs\n\n"
    "Examples:\n"
    "  tandem saved_model show served/1\n"
    "  tandem saved_model run served/1 --input x=[[1,2]]\n"
    "  tandem saved_model run served/1 --signature=classify --input images=@images.npy --json\n";

void Print(const Json& json) {
  // Names and strings need not be UTF-8.
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

std::set<std::string> Tags(const Arguments& arguments) {
  if (!arguments.Has("tags")) return {kServeTag};
  return absl::StrSplit(arguments.Last("tags"), ',', absl::SkipEmpty());
}

Json TensorsJson(const std::vector<SignatureTensor>& tensors) {
  Json list = Json::array();
  for (const SignatureTensor& tensor : tensors) {
    Json shape;  // Null: not even the rank is known.
    if (tensor.shape.has_rank()) {
      shape = std::vector<int64_t>(tensor.shape.dims().begin(), tensor.shape.dims().end());
    }
    list.push_back({{"name", tensor.name},
                    {"dtype", DataTypeName(tensor.dtype)},
                    {"shape", shape},
                    {"tensor", tensor.tensor}});
  }
  return list;
}

// The signatures of a graph, and what each lacks.
struct ShownSignature {
  SignatureInfo info;
  MissingOps missing;
};
absl::StatusOr<std::vector<ShownSignature>> SignaturesOf(const tensorflow::MetaGraphDef& meta_graph,
                                                         const std::string& only) {
  TANDEM_ASSIGN_OR_RETURN(
      const GraphParts parts,
      GraphParts::Create(meta_graph.graph_def(), meta_graph.meta_info_def().stripped_op_list()));
  const std::map<std::string, tensorflow::SignatureDef> sorted(meta_graph.signature_def().begin(),
                                                               meta_graph.signature_def().end());
  std::vector<ShownSignature> result;
  for (const auto& [name, def] : sorted) {
    if (absl::StartsWith(name, "__saved_model_") || (!only.empty() && name != only)) continue;
    ShownSignature shown;
    TANDEM_ASSIGN_OR_RETURN(shown.info, ReadSignature(name, def));
    std::vector<std::string> roots;
    std::vector<FedTensor> fed;
    for (const SignatureTensor& t : shown.info.outputs) roots.push_back(t.tensor);
    for (const SignatureTensor& t : shown.info.inputs) fed.push_back({t.tensor, t.dtype});
    const absl::StatusOr<GraphPart> part = parts.Find(roots, fed);
    if (!part.ok()) return WithContext(part.status(), absl::StrCat("signature '", name, "'"));
    shown.missing = parts.Missing(*part);
    result.push_back(std::move(shown));
  }
  return result;
}

// What is missing to initialize the model, without which none of its signatures runs.
absl::StatusOr<MissingOps> MissingToInitialize(const tensorflow::MetaGraphDef& meta_graph) {
  const std::string initializer = InitializerOf(meta_graph);
  if (initializer.empty()) return MissingOps();
  TANDEM_ASSIGN_OR_RETURN(
      const GraphParts parts,
      GraphParts::Create(meta_graph.graph_def(), meta_graph.meta_info_def().stripped_op_list()));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<tensorflow::AssetFileDef> assets, AssetsOf(meta_graph));
  std::vector<FedTensor> fed;
  for (const tensorflow::AssetFileDef& asset : assets) {
    fed.push_back({asset.tensor_info().name(), kString});
  }
  const absl::StatusOr<GraphPart> part = parts.Find({initializer}, fed);
  if (!part.ok()) return WithContext(part.status(), "what initializes it");
  return parts.Missing(*part);
}

Json MissingJson(const MissingOps& missing) {
  Json json = Json::object();
  for (const auto& [op, count] : missing) json[op] = count;
  return json;
}

// How many nodes of each op there are, those of functions included.
std::map<std::string, int> CountOps(const tensorflow::GraphDef& graph) {
  std::map<std::string, int> ops;
  for (const tensorflow::NodeDef& node : graph.node()) ++ops[node.op()];
  for (const tensorflow::FunctionDef& function : graph.library().function()) {
    for (const tensorflow::NodeDef& node : function.node_def()) ++ops[node.op()];
  }
  return ops;
}

void PrintSignature(const ShownSignature& shown, const MissingOps& missing_to_initialize) {
  std::printf("signature %s%s%s\n", shown.info.name.c_str(), shown.info.method.empty() ? "" : "  ",
              shown.info.method.c_str());
  TextTable table({"", "NAME", "TYPE", "SHAPE", "TENSOR"});
  for (const bool is_input : {true, false}) {
    for (const SignatureTensor& tensor : is_input ? shown.info.inputs : shown.info.outputs) {
      table.AddRow({is_input ? "input" : "output", tensor.name, DataTypeName(tensor.dtype),
                    tensor.shape.DebugString(), tensor.tensor});
    }
  }
  std::printf("%s", table.ToString().c_str());
  if (!shown.missing.empty()) {
    std::printf("it cannot run here; ops are missing: %s\n", MissingOpsText(shown.missing).c_str());
  }
  if (!missing_to_initialize.empty()) {
    std::printf("it cannot run here; what initializes the model needs ops that are missing: %s\n",
                MissingOpsText(missing_to_initialize).c_str());
  }
  std::printf("\n");
}

absl::Status ShowVariables(const std::string& folder, Json* json, bool prints) {
  const std::string prefix = VariablesPrefix(folder);
  *json = Json::array();
  if (!PosixFileSystem()->Stat(BundleIndexPath(prefix)).ok()) return absl::OkStatus();
  Checkpoint::Options options;
  options.verify = false;
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          Checkpoint::Open(prefix, options));
  TextTable table({"VARIABLE IN THE CHECKPOINT", "TYPE", "SHAPE"});
  for (const std::string& name : checkpoint->Names()) {
    const BundleEntry& entry = *checkpoint->bundle().Find(name);
    table.AddRow({name, DataTypeName(entry.dtype), entry.shape.DebugString()});
    json->push_back(
        {{"name", name},
         {"dtype", DataTypeName(entry.dtype)},
         {"shape", std::vector<int64_t>(entry.shape.dims().begin(), entry.shape.dims().end())}});
  }
  if (prints && !json->empty()) std::printf("%s\n", table.ToString().c_str());
  return absl::OkStatus();
}

Json ShowOps(const tensorflow::GraphDef& graph, bool prints) {
  TextTable table({"OP", "NODES", "HERE"});
  Json json = Json::array();
  std::set<std::string> functions;
  for (const auto& function : graph.library().function()) {
    functions.insert(function.signature().name());
  }
  for (const auto& [op, count] : CountOps(graph)) {
    const bool known = OpRegistry::Global().Find(op) != nullptr || functions.count(op) != 0;
    table.AddRow({op, absl::StrCat(count), known ? "yes" : "missing"});
    json.push_back({{"op", op}, {"nodes", count}, {"known", known}});
  }
  if (prints && !json.empty()) std::printf("%s\n", table.ToString().c_str());
  return json;
}

// Prints one graph, unless `prints` is false, and describes it.
absl::StatusOr<Json> ShowGraph(const Arguments& arguments, const tensorflow::MetaGraphDef& graph,
                               bool prints) {
  const std::string only = arguments.Last("signature");
  TANDEM_ASSIGN_OR_RETURN(const std::vector<ShownSignature> signatures, SignaturesOf(graph, only));
  TANDEM_ASSIGN_OR_RETURN(const MissingOps missing_to_initialize, MissingToInitialize(graph));
  // TensorFlow's version; another program says in its place for details who it is.
  std::string version = graph.meta_info_def().tensorflow_version();
  if (absl::StartsWith(graph.meta_info_def().tensorflow_git_version(), "Tandem")) {
    version = graph.meta_info_def().tensorflow_git_version();
  }
  if (prints) {
    std::printf("graph (%s)%s%s: %d nodes, %d functions\n\n", TagsText(graph).c_str(),
                version.empty() ? "" : " written by ", version.c_str(),
                graph.graph_def().node_size(), graph.graph_def().library().function_size());
  }
  Json shown_signatures = Json::array();
  for (const ShownSignature& shown : signatures) {
    if (prints) PrintSignature(shown, missing_to_initialize);
    shown_signatures.push_back({{"name", shown.info.name},
                                {"method", shown.info.method},
                                {"inputs", TensorsJson(shown.info.inputs)},
                                {"outputs", TensorsJson(shown.info.outputs)},
                                {"missing_ops", MissingJson(shown.missing)}});
  }
  const auto& tags = graph.meta_info_def().tags();
  Json json = {{"tags", std::vector<std::string>(tags.begin(), tags.end())},
               {"version", version},
               {"missing_ops_of_initializer", MissingJson(missing_to_initialize)},
               {"signatures", shown_signatures}};
  if (!arguments.Has("all")) return json;
  Json assets = Json::array();
  for (const tensorflow::AssetFileDef& asset : graph.asset_file_def()) {
    if (prints) std::printf("asset %s\n", asset.filename().c_str());
    assets.push_back(asset.filename());
  }
  if (prints && !assets.empty()) std::printf("\n");
  json["assets"] = assets;
  Json functions = Json::array();
  TextTable table({"FUNCTION", "TAKES", "GIVES"});
  for (const ShownFunction& function : FunctionsOf(graph.object_graph_def())) {
    table.AddRow({function.path, function.takes, function.gives});
    functions.push_back({{"path", function.path},
                         {"name", function.name},
                         {"takes", function.takes},
                         {"gives", function.gives}});
  }
  if (prints && !functions.empty()) std::printf("%s\n", table.ToString().c_str());
  json["functions"] = functions;
  json["ops"] = ShowOps(graph.graph_def(), prints);
  return json;
}

absl::Status Show(const Arguments& arguments, const std::string& folder) {
  const bool prints = !arguments.Has("json");
  tensorflow::SavedModel model;
  TANDEM_RETURN_IF_ERROR(ReadSavedModel(folder, &model));
  if (arguments.Has("tags")) {
    TANDEM_RETURN_IF_ERROR(FindMetaGraph(folder, Tags(arguments), &model).status());
  }
  Json graphs = Json::array();
  bool found = false;
  for (const tensorflow::MetaGraphDef& graph : model.meta_graphs()) {
    const auto& tags = graph.meta_info_def().tags();
    if (arguments.Has("tags") &&
        std::set<std::string>(tags.begin(), tags.end()) != Tags(arguments)) {
      continue;
    }
    absl::StatusOr<Json> json = ShowGraph(arguments, graph, prints);
    if (!json.ok()) return WithContext(json.status(), absl::StrCat("SavedModel '", folder, "'"));
    found = found || !(*json)["signatures"].empty();
    graphs.push_back(*std::move(json));
  }
  if (!found && arguments.Has("signature")) {
    return errors::NotFound("SavedModel '", folder, "' has no signature '",
                            arguments.Last("signature"), "'");
  }
  Json all = {{"folder", folder}, {"graphs", graphs}};
  if (arguments.Has("all")) {
    TANDEM_RETURN_IF_ERROR(ShowVariables(folder, &all["variables"], prints));
  }
  if (!prints) Print(all);
  return absl::OkStatus();
}

absl::StatusOr<std::pair<std::string, std::string>> NameAndValue(const std::string& flag,
                                                                 const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return errors::InvalidArgument("--", flag, " ", text, ": it must be of the form NAME=VALUE");
  }
  return std::make_pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::StatusOr<Session::Feeds> ReadInputs(const Arguments& arguments, const SignatureInfo& info) {
  Session::Feeds inputs;
  for (const std::string& text : arguments.All("input")) {
    TANDEM_ASSIGN_OR_RETURN(const auto pair, NameAndValue("input", text));
    const auto input = std::find_if(info.inputs.begin(), info.inputs.end(),
                                    [&](const SignatureTensor& t) { return t.name == pair.first; });
    Tensor value;  // Stays empty for an input that there is not: the signature says so.
    const auto read = [&]() -> absl::Status {
      if (absl::StartsWith(pair.second, "@")) {
        TANDEM_ASSIGN_OR_RETURN(value, ReadNpy(pair.second.substr(1)));
      } else if (input != info.inputs.end()) {
        TANDEM_ASSIGN_OR_RETURN(value, TensorFromJson(pair.second, input->dtype));
      }
      return absl::OkStatus();
    };
    TANDEM_RETURN_IF_ERROR(WithContext(read(), absl::StrCat("--input ", pair.first)));
    inputs.emplace_back(pair.first, std::move(value));
  }
  return inputs;
}

absl::Status RunSignatureOf(const Arguments& arguments, const std::string& folder) {
  int64_t max_values = 1000;
  if (arguments.Has("max_values") &&
      (!absl::SimpleAtoi(arguments.Last("max_values"), &max_values) || max_values < 0)) {
    return errors::InvalidArgument("--max_values=", arguments.Last("max_values"),
                                   ": expected a number, 0 or more");
  }
  const bool is_function = arguments.Has("function");
  if (is_function && arguments.Has("signature")) {
    return errors::InvalidArgument("--signature and --function name two things to run");
  }
  const std::string name =
      is_function ? arguments.Last("function") : arguments.Last("signature", kDefaultSignature);
  std::map<std::string, std::string> files;
  for (const std::string& text : arguments.All("save")) {
    TANDEM_ASSIGN_OR_RETURN(const auto pair, NameAndValue("save", text));
    files[pair.first] = pair.second;
  }
  SavedModelOptions options;
  options.tags = Tags(arguments);
  if (is_function) options.functions = {name};
  options.signatures = {name};
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<SavedModel> model,
                          SavedModel::Load(folder, options));
  const ModelSignature signature = model->signature(name);
  TANDEM_ASSIGN_OR_RETURN(const Session::Feeds inputs, ReadInputs(arguments, *signature.info()));
  for (const auto& [output, file] : files) {
    const auto& outputs = signature.info()->outputs;
    if (std::none_of(outputs.begin(), outputs.end(),
                     [&, &o = output](const SignatureTensor& t) { return t.name == o; })) {
      return errors::InvalidArgument("--save ", output, ": the signature has no such output");
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const auto outputs, signature.Run(inputs));
  Json json = Json::object();
  for (const auto& [output, tensor] : outputs) {
    if (const auto file = files.find(output); file != files.end()) {
      TANDEM_RETURN_IF_ERROR(WriteNpy(file->second, tensor));
      continue;
    }
    json[output] = {
        {"dtype", DataTypeName(tensor.dtype())},
        {"shape", std::vector<int64_t>(tensor.shape().dims().begin(), tensor.shape().dims().end())},
        {"values", TensorJson(tensor)}};
    if (arguments.Has("json")) continue;
    std::printf("%s: %s%s\n%s", output.c_str(), DataTypeName(tensor.dtype()).c_str(),
                tensor.shape().DebugString().c_str(), TensorText(tensor, max_values).c_str());
  }
  if (arguments.Has("json")) {
    Print({{"folder", folder}, {"signature", name}, {"outputs", json}});
  }
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(
      const Arguments arguments,
      Arguments::Parse(words, {"tags", "signature", "function", "input", "save", "max_values"},
                       {"json", "all"}));
  const std::vector<std::string>& words_left = arguments.positional();
  const std::string action = words_left.empty() ? "" : words_left[0];
  if (action != "show" && action != "run") {
    return errors::InvalidArgument(
        "says what to do first: show or run; see tandem saved_model --help");
  }
  if (words_left.size() != 2) {
    return errors::InvalidArgument(action, " names a folder; see tandem saved_model --help");
  }
  for (const char* const flag : {"input", "save", "max_values"}) {
    if (action == "show" && arguments.Has(flag)) {
      return errors::InvalidArgument("--", flag, " is for run; see tandem saved_model --help");
    }
  }
  return action == "show" ? Show(arguments, words_left[1])
                          : RunSignatureOf(arguments, words_left[1]);
}

}  // namespace

const Command kSavedModelCommand = {"saved_model", "shows and runs models that were saved", kHelp,
                                    Run};

}  // namespace tandem::cli
