#include "core/passes/rewrite.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/op/registry.h"

namespace tandem {

Node* OnlyConsumer(const Node& node) {
  if (node.num_outputs() != 1 || node.consumers().size() != 1) return nullptr;
  const Consumer& consumer = node.consumers().front();
  return consumer.input == Consumer::kControl ? nullptr : consumer.node;
}

std::string DeviceTypeOf(const Node& node) {
  const absl::StatusOr<DeviceName> name = DeviceName::Parse(node.device());
  return name.ok() ? name->type.value_or("") : "";
}

bool HasKernelBeside(const Node& node, const Graph& graph, absl::string_view op,
                     const AttrMap& attrs) {
  const OpDef* const def = graph.registry().Find(op);
  return def != nullptr && graph.registry().FindKernel(*def, DeviceTypeOf(node), attrs).ok();
}

absl::StatusOr<Node*> PutInPlaceOf(absl::Span<Node* const> members, Node* last, NodeSpec spec,
                                   Graph& graph) {
  const absl::flat_hash_set<const Node*> inside(members.begin(), members.end());
  absl::flat_hash_set<const Node*> seen;
  for (const Node* member : members) {
    for (Node* control : member->control_inputs()) {
      if (!inside.contains(control) && seen.insert(control).second) {
        spec.control_inputs.push_back(control);
      }
    }
  }
  spec.name = graph.UniqueName(absl::StrCat("_replaced_", last->name()));
  spec.device = last->requested_device();
  TANDEM_ASSIGN_OR_RETURN(Node* const node, graph.AddNode(std::move(spec)));
  node->set_device(last->device());
  if (last->num_outputs() > 0) {
    TANDEM_RETURN_IF_ERROR(graph.ReplaceOutput(last->output(0), node->output(0)));
  }
  graph.MoveControlConsumers(last, node);
  graph.SwapNames(node, last);
  return node;
}

}  // namespace tandem
