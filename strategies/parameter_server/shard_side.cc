#include "strategies/parameter_server/shard_side.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/export.h"
#include "core/passes/node_kinds.h"
#include "strategies/parameter_server/cut_roles.h"

namespace tandem::parameter_server {

ShardSide::ShardSide(const Graph& whole, bool functions)
    : graph_(functions ? Graph(whole.registry(), whole.shared_functions())
                       : Graph(whole.registry())) {}

absl::StatusOr<Output> ShardSide::Argument(const Output& source, Call& call) {
  Output& argument = arguments_[source];
  if (!argument.valid()) {
    NodeSpec spec;
    spec.name = absl::StrCat(source.node->name(), "/argument_", source.index);
    spec.op = "Placeholder";
    spec.attrs = {{"dtype", RemoveReference(source.dtype())}, {"shape", source.shape()}};
    TANDEM_ASSIGN_OR_RETURN(Node * node, graph_.AddNode(std::move(spec)));
    argument = node->output(0);
  }
  if (!absl::c_linear_search(call.arguments, source)) {
    call.arguments.push_back(source);
    call.program.add_feeds(absl::StrCat(argument.node->name(), ":0"));
  }
  return argument;
}

absl::Status ShardSide::Add(const Node& node, absl::FunctionRef<bool(const Output&)> is_here,
                            Call& call) {
  const bool is_new = !copies_.contains(&node);
  NodeSpec spec;
  for (const Output& input : node.inputs()) {
    if (is_here(input)) {
      const auto copy = copies_.find(input.node);
      if (copy == copies_.end() && !input.node->Is("VarHandleOp") && !IsFreeConstant(*input.node)) {
        return errors::Internal("node '", node.name(), "' was to be copied before its input '",
                                input.name(), "'");
      }
      if (copy == copies_.end()) TANDEM_RETURN_IF_ERROR(Add(*input.node, is_here, call));
      spec.inputs.emplace_back(copies_[input.node], input.index);
    } else {
      TANDEM_ASSIGN_OR_RETURN(const Output argument, Argument(input, call));
      spec.inputs.push_back(argument);
    }
  }
  if (!is_new) return absl::OkStatus();
  for (const Node* control : node.control_inputs()) {
    const auto copy = copies_.find(control);
    if (copy != copies_.end()) spec.control_inputs.push_back(copy->second);
  }
  spec.name = node.name();
  spec.op = node.type();
  spec.attrs = node.attrs();
  spec.attrs.erase("_class");
  spec.device = WithoutServer(node.requested_device());
  TANDEM_ASSIGN_OR_RETURN(copies_[&node], graph_.AddNode(std::move(spec)));
  return absl::OkStatus();
}

absl::StatusOr<tensorflow::GraphDef> ShardSide::Export() const {
  return ExportGraphDef(graph_, {.internal_ops = true});
}

}  // namespace tandem::parameter_server
