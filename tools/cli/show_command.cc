#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/function_body.h"
#include "core/graph/import.h"
#include "proto/function.pb.h"
#include "proto/graph.pb.h"
#include "tools/cli/command.h"
#include "tools/cli/graph_argument.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem show GRAPH\n\n"
    "Reads a GraphDef (binary or text), checks it as a session would (ops, attributes, types,\n"
    "shapes, names, cycles), and prints its nodes in an order in which they can run:\n"
    "  name = Op(inputs) -> types and shapes  @device\n\n"
    "Example:\n"
    "  tandem show model.pbtxt\n";

// The number of functions that cannot be checked by themselves: their types are attributes.
absl::StatusOr<size_t> CheckFunctions(const Graph& graph) {
  size_t unchecked = 0;
  for (const std::string& name : graph.functions().Names()) {
    if (graph.functions().Find(name)->signature().attr_size() > 0) {
      ++unchecked;
      continue;
    }
    TANDEM_RETURN_IF_ERROR(
        InstantiateFunction(FunctionRef{name, {}}, graph.shared_functions()).status());
  }
  return unchecked;
}

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, {}, {}));
  if (arguments.positional().size() != 1) {
    return errors::InvalidArgument("names one graph file; see tandem show --help");
  }
  tensorflow::GraphDef def;
  TANDEM_RETURN_IF_ERROR(ReadGraphArgument(arguments.positional()[0], &def));
  TANDEM_ASSIGN_OR_RETURN(const Graph graph, ImportGraphDef(def));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  for (const Node* node : order) {
    std::string inputs;
    for (const Output& input : node->inputs()) {
      absl::StrAppend(&inputs, inputs.empty() ? "" : ", ", input.name());
    }
    for (const Node* control : node->control_inputs()) {
      absl::StrAppend(&inputs, inputs.empty() ? "^" : ", ^", control->name());
    }
    std::string outputs;
    for (int i = 0; i < node->num_outputs(); ++i) {
      const OutputInfo& info = node->output_info(i);
      absl::StrAppend(&outputs, i == 0 ? " -> " : ", ", DataTypeName(info.dtype),
                      info.shape.DebugString());
    }
    std::printf("%s = %s(%s)%s%s%s\n", node->name().c_str(), node->type().c_str(), inputs.c_str(),
                outputs.c_str(), node->requested_device().empty() ? "" : "  @",
                node->requested_device().c_str());
  }
  TANDEM_ASSIGN_OR_RETURN(const size_t unchecked, CheckFunctions(graph));
  std::printf("%d nodes, %zu functions; the graph is well formed\n", graph.num_nodes(),
              graph.functions().Names().size());
  if (unchecked > 0) {
    std::printf("%zu functions have attributes, so that only a call could tell whether they are\n",
                unchecked);
  }
  return absl::OkStatus();
}

}  // namespace

const Command kShowCommand = {"show", "prints a graph's nodes and checks it", kHelp, Run};

}  // namespace tandem::cli
