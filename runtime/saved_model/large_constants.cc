#include "runtime/saved_model/large_constants.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "proto/graph.pb.h"

namespace tandem {

absl::StatusOr<LargeConstants> TakeLargeConstants(tensorflow::GraphDef* graph, size_t min_bytes) {
  LargeConstants constants;
  for (tensorflow::NodeDef& node : *graph->mutable_node()) {
    if (node.op() != "Const") continue;
    const auto value = node.mutable_attr()->find("value");
    if (value == node.mutable_attr()->end() ||
        value->second.tensor().tensor_content().size() < min_bytes) {
      continue;
    }
    absl::StatusOr<Tensor> tensor = TensorFromProto(value->second.tensor());
    if (!tensor.ok()) {
      return WithContext(tensor.status(), absl::StrCat("node '", node.name(), "'"));
    }
    // Its type says what the graph may do with it, as before; so does its shape.
    *(*node.mutable_attr())["shape"].mutable_shape() = value->second.tensor().tensor_shape();
    node.mutable_attr()->erase("value");
    node.set_op("Placeholder");
    constants.emplace_back(node.name(), *std::move(tensor));
  }
  return constants;
}

absl::Status PutLargeConstants(LargeConstants constants, Graph* graph) {
  for (auto& [name, value] : constants) {
    TANDEM_ASSIGN_OR_RETURN(Node* const placeholder, graph->GetNode(name));
    NodeSpec spec;
    spec.name = graph->UniqueName(name);
    spec.op = "Const";
    const DataType* const dtype = placeholder->Attr<DataType>("dtype");
    if (dtype == nullptr || *dtype != value.dtype()) {
      return errors::InvalidArgument("node '", name, "': its value is ",
                                     DataTypeName(value.dtype()), ", which is not its dtype");
    }
    spec.attrs = {{"dtype", value.dtype()}, {"value", std::move(value)}};
    for (const auto& [attr, private_value] : placeholder->attrs()) {
      if (absl::StartsWith(attr, "_")) spec.attrs.emplace(attr, private_value);
    }
    TANDEM_ASSIGN_OR_RETURN(Node* const constant, graph->AddNode(std::move(spec)));
    constant->set_requested_device(placeholder->requested_device());
    for (Node* const before : placeholder->control_inputs())
      graph->AddControlEdge(before, constant);
    TANDEM_RETURN_IF_ERROR(graph->ReplaceOutput(placeholder->output(0), constant->output(0)));
    graph->MoveControlConsumers(placeholder, constant);
    graph->SwapNames(placeholder, constant);
    graph->RemoveNode(placeholder);
  }
  return absl::OkStatus();
}

}  // namespace tandem
