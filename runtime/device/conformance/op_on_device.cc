#include "runtime/device/conformance/op_on_device.h"

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/graph/graph.h"
#include "core/graph/memory_kind.h"
#include "core/op/registry.h"
#include "runtime/device/conformance/device_calls.h"

namespace tandem::testing {
namespace {

// A graph of the node and placeholders for its inputs. The node is placed on the device.
absl::StatusOr<Node*> AddTested(Graph& graph, const Device& device, const std::string& op,
                                const std::vector<Tensor>& inputs, const AttrMap& attrs) {
  NodeSpec spec;
  spec.name = "tested";
  spec.op = op;
  spec.attrs = attrs;
  spec.device = device.name();
  for (const Tensor& input : inputs) {
    NodeSpec source;
    source.name = graph.UniqueName("input");
    source.op = "Placeholder";
    source.attrs.emplace("dtype", input.dtype());
    TANDEM_ASSIGN_OR_RETURN(Node * node, graph.AddNode(std::move(source)));
    spec.inputs.push_back(node->output(0));
  }
  return graph.AddNode(std::move(spec));
}

}  // namespace

bool HasKernelOn(const Device& device, const std::string& op, const std::vector<Tensor>& inputs,
                 const AttrMap& attrs) {
  Graph graph;
  const absl::StatusOr<Node*> node = AddTested(graph, device, op, inputs, attrs);
  return node.ok() &&
         OpRegistry::Global().FindKernel((*node)->op(), device.type(), (*node)->attrs()).ok();
}

absl::StatusOr<std::vector<Tensor>> RunOpOn(Device& device, const std::string& op,
                                            const std::vector<Tensor>& inputs,
                                            const AttrMap& attrs) {
  Graph graph;
  TANDEM_ASSIGN_OR_RETURN(Node* const node, AddTested(graph, device, op, inputs, attrs));
  TANDEM_ASSIGN_OR_RETURN(
      const KernelDef* const def,
      OpRegistry::Global().FindKernel(node->op(), device.type(), node->attrs()));
  std::vector<DataType> input_types;
  std::vector<DataType> output_types;
  uint64_t host_outputs = 0;
  for (int i = 0; i < node->num_inputs(); ++i) input_types.push_back(node->input_dtype(i));
  for (int i = 0; i < node->num_outputs(); ++i) {
    output_types.push_back(node->output_info(i).dtype);
    if (IsHostOutput(*node, i)) host_outputs |= uint64_t{1} << i;
  }
  KernelInit init({node->name(), &node->op(), &node->attrs(), input_types, output_types,
                   &device.kernel_device(), &graph.functions()});
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, def->factory(init));

  std::vector<Input> placed;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor input = inputs[i];
    if (!IsHostInput(*node, static_cast<int>(i))) {
      TANDEM_ASSIGN_OR_RETURN(input, ToDevice(device, std::move(input)));
    }
    placed.push_back(Input::LastUse(std::move(input)));
  }
  KernelCall call(device, *kernel, std::move(placed), output_types, host_outputs);
  TANDEM_RETURN_IF_ERROR(call.Run());
  std::vector<Tensor> outputs;
  for (int i = 0; i < node->num_outputs(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(Tensor output, ToHost(device, call.TakeOutput(i)));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace tandem::testing
