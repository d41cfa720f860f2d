#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "core/graph/graph_file.h"
#include "core/graph/import.h"
#include "core/io/npy.h"
#include "core/passes/optimize.h"
#include "nlohmann/json.hpp"
#include "proto/graph.pb.h"
#include "runtime/session/session.h"
#include "runtime/session/timeline.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem run GRAPH [--feed NAME=VALUE]… [--fetch NAME]… [--target NODE]… [OPTION…]\n\n"
    "Runs a part of a GraphDef (binary or text) once and prints what was fetched.\n\n"
    "  --feed NAME=VALUE   a value in JSON: 1.5, [1,2,3], [[1,0],[0,1]], \"text\", true\n"
    "  --feed NAME=@FILE   an array from a NumPy .npy file\n"
    "  --fetch NAME        an output to print: node, or node:1\n"
    "  --target NODE       a node to run without printing anything\n"
    "  --save NAME=FILE    writes a fetched output to a .npy file (may be combined with --fetch)\n"
    "  --trace=FILE        writes a timeline for chrome://tracing or ui.perfetto.dev\n"
    "  --timeout=SECONDS   ends the run when it takes longer, and says which nodes wait\n"
    "  --devices=CPU:2     devices of the session (default: TANDEM_DEVICES, else one CPU)\n"
    "  --soft_placement    nodes that ask for devices which do not exist run elsewhere\n"
    "  --passes=-NAME,…    switches optimization passes off (none: all); as TANDEM_PASSES\n\n"
    "Examples:\n"
    "  tandem run add.pbtxt --feed x=2 --feed y=[1,2,3] --fetch sum\n"
    "  tandem run model.pb --feed images=@images.npy --fetch logits --trace=step.json\n";

// Collects the shape and the leaves of nested JSON lists. InvalidArgument: lists of unequal
// lengths.
absl::Status Flatten(const nlohmann::json& value, size_t depth, std::vector<int64_t>& dims,
                     std::vector<nlohmann::json>& leaves) {
  if (!value.is_array()) {
    if (depth != dims.size()) return errors::InvalidArgument("lists of unequal depth");
    leaves.push_back(value);
    return absl::OkStatus();
  }
  const int64_t size = static_cast<int64_t>(value.size());
  if (depth == dims.size() && leaves.empty()) dims.push_back(size);
  if (depth >= dims.size() || dims[depth] != size) {
    return errors::InvalidArgument("lists of unequal lengths");
  }
  for (const nlohmann::json& element : value) {
    TANDEM_RETURN_IF_ERROR(Flatten(element, depth + 1, dims, leaves));
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<Tensor> Numbers(const Shape& shape, const std::vector<nlohmann::json>& leaves) {
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(DataTypeOf<T>(), shape));
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].is_number() && !leaves[i].is_boolean()) {
      return errors::InvalidArgument(leaves[i].dump(), " is no number");
    }
    const double value =
        leaves[i].is_boolean() ? (leaves[i].get<bool>() ? 1.0 : 0.0) : leaves[i].get<double>();
    if constexpr (std::is_same_v<T, int64_t>) {
      tensor.MutableElements<T>()[i] =
          leaves[i].is_number_integer() ? leaves[i].get<int64_t>() : static_cast<int64_t>(value);
    } else {
      tensor.MutableElements<T>()[i] = static_cast<T>(value);
    }
  }
  return tensor;
}

absl::StatusOr<Tensor> FromJson(const std::string& text, DataType dtype) {
  const nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<int64_t> dims;
  std::vector<nlohmann::json> leaves;
  // A bare word is a string where one is wanted.
  if (value.is_discarded() && dtype == kString) return Tensor::Scalar<std::string>(text);
  if (value.is_discarded()) {
    return errors::InvalidArgument("'", text, "' is not JSON");
  }
  TANDEM_RETURN_IF_ERROR(Flatten(value, 0, dims, leaves));
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  switch (dtype) {
    case kFloat32:
      return Numbers<float>(shape, leaves);
    case kFloat64:
      return Numbers<double>(shape, leaves);
    case kInt32:
      return Numbers<int32_t>(shape, leaves);
    case kInt64:
      return Numbers<int64_t>(shape, leaves);
    case kUint8:
      return Numbers<uint8_t>(shape, leaves);
    case kBool:
      return Numbers<bool>(shape, leaves);
    case kString: {
      TANDEM_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(kString, shape));
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (!leaves[i].is_string()) {
          return errors::InvalidArgument(leaves[i].dump(), " is no string");
        }
        tensor.MutableElements<std::string>()[i] = leaves[i].get<std::string>();
      }
      return tensor;
    }
    default:
      return errors::Unimplemented("values of type ", DataTypeName(dtype),
                                   " can be fed from .npy files only");
  }
}

// Splits "name=value"; the name may hold a ':' but no '='.
absl::StatusOr<std::pair<std::string, std::string>> NameAndValue(const std::string& flag,
                                                                 const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return errors::InvalidArgument("--", flag, " ", text, ": it must be of the form NAME=VALUE");
  }
  return std::make_pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::StatusOr<Tensor> FeedValue(const Graph& graph, const std::string& name,
                                 const std::string& value) {
  TANDEM_ASSIGN_OR_RETURN(const Output output, graph.GetOutput(name));
  if (absl::StartsWith(value, "@")) return ReadNpy(value.substr(1));
  if (output.index < 0 || output.node->num_outputs() == 0) {
    return errors::InvalidArgument("'", name, "' has no value that could be fed");
  }
  return FromJson(value, RemoveReference(output.dtype()));
}

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(
      const Arguments arguments,
      Arguments::Parse(words,
                       {"feed", "fetch", "target", "save", "trace", "timeout", "devices", "passes"},
                       {"soft_placement"}));
  if (arguments.positional().size() != 1) {
    return errors::InvalidArgument("names one graph file; see tandem run --help");
  }
  tensorflow::GraphDef def;
  TANDEM_RETURN_IF_ERROR(ReadGraphFile(arguments.positional()[0], &def));
  TANDEM_ASSIGN_OR_RETURN(const Graph graph, ImportGraphDef(def));

  Session::Feeds feeds;
  for (const std::string& feed : arguments.All("feed")) {
    TANDEM_ASSIGN_OR_RETURN(const auto pair, NameAndValue("feed", feed));
    absl::StatusOr<Tensor> value = FeedValue(graph, pair.first, pair.second);
    if (!value.ok()) return WithContext(value.status(), absl::StrCat("--feed ", pair.first));
    feeds.emplace_back(pair.first, *std::move(value));
  }
  std::vector<std::string> fetches = arguments.All("fetch");
  const size_t num_printed = fetches.size();
  std::vector<std::string> files;
  for (const std::string& save : arguments.All("save")) {
    TANDEM_ASSIGN_OR_RETURN(const auto pair, NameAndValue("save", save));
    fetches.push_back(pair.first);
    files.push_back(pair.second);
  }

  SessionOptions session_options;
  session_options.soft_placement = arguments.Has("soft_placement");
  if (arguments.Has("passes")) {
    const absl::Status switched = SwitchPasses(arguments.Last("passes"), &session_options.optimize);
    if (!switched.ok()) return WithContext(switched, "--passes");
  }
  if (arguments.Has("devices")) {
    TANDEM_ASSIGN_OR_RETURN(const auto counts, ParseDeviceCounts(arguments.Last("devices")));
    TANDEM_ASSIGN_OR_RETURN(session_options.devices, DeviceSet::Create(counts));
  }
  RunOptions run_options;
  run_options.trace = arguments.Has("trace");
  if (arguments.Has("timeout")) {
    double seconds;
    if (!absl::SimpleAtod(arguments.Last("timeout"), &seconds) || seconds <= 0) {
      return errors::InvalidArgument("--timeout=", arguments.Last("timeout"),
                                     ": it must be a number of seconds above 0");
    }
    run_options.timeout = absl::Seconds(seconds);
  }
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::Create(graph, session_options));
  RunMetadata metadata;
  TANDEM_ASSIGN_OR_RETURN(
      const std::vector<Tensor> results,
      session->Run(run_options, feeds, fetches, arguments.All("target"), &metadata));
  for (size_t i = 0; i < results.size(); ++i) {
    if (i < num_printed) {
      std::printf("%s: %s\n", fetches[i].c_str(), results[i].DebugString(1000).c_str());
    } else {
      TANDEM_RETURN_IF_ERROR(WriteNpy(files[i - num_printed], results[i]));
    }
  }
  if (run_options.trace) {
    const std::string path = arguments.Last("trace");
    std::ofstream file(path);
    file << ChromeTrace(metadata.events) << "\n";
    file.close();
    if (!file) {
      return errors::FailedPrecondition("the timeline cannot be written to '", path,
                                        "': ", std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const Command kRunCommand = {"run", "runs a part of a graph and prints what is fetched", kHelp,
                             Run};

}  // namespace tandem::cli
