#include "runtime/saved_model/exported_function.h"

#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/function_body.h"
#include "core/passes/prune.h"
#include "core/tensor/tensor_proto.h"

namespace tandem {
namespace {

// Finds the tensors, notes their types and shapes, and sorts by name.
absl::StatusOr<std::vector<Output>> Resolve(const Graph& graph,
                                            std::vector<SignatureTensor>* tensors) {
  absl::c_sort(*tensors,
               [](const SignatureTensor& a, const SignatureTensor& b) { return a.name < b.name; });
  std::vector<Output> outputs;
  for (SignatureTensor& tensor : *tensors) {
    if (tensor.name.empty()) {
      return errors::InvalidArgument("'", tensor.tensor, "' has no name for callers");
    }
    if (&tensor != tensors->data() && (&tensor - 1)->name == tensor.name) {
      return errors::InvalidArgument("'", tensor.name, "' is there twice");
    }
    TANDEM_ASSIGN_OR_RETURN(const Output output, graph.GetOutput(tensor.tensor));
    if (output.index < 0 || output.node->num_outputs() == 0) {
      return errors::InvalidArgument("'", tensor.name, "': node '", tensor.tensor,
                                     "' has no value");
    }
    tensor.dtype = RemoveReference(output.dtype());
    tensor.shape = output.shape();
    outputs.push_back(output);
  }
  return outputs;
}

// Which of `captures` the outputs need, apart from what the inputs give.
absl::StatusOr<std::vector<int>> FindCaptured(const std::vector<Output>& inputs,
                                              const std::vector<Output>& outputs,
                                              const std::vector<Output>& captures) {
  absl::flat_hash_map<Output, int> capture_of;
  for (size_t i = 0; i < captures.size(); ++i) {
    capture_of.emplace(captures[i], static_cast<int>(i));
  }
  const absl::flat_hash_set<Output> given(inputs.begin(), inputs.end());
  absl::flat_hash_set<const Node*> given_nodes;
  for (const Output& input : inputs) given_nodes.insert(input.node);
  std::set<int> captured;
  absl::flat_hash_set<const Node*> seen;
  std::vector<const Node*> stack;
  const auto need_node = [&](const Node* node) {
    if (seen.insert(node).second) stack.push_back(node);
  };
  const auto need = [&](const Output& output) {
    if (given.count(output) != 0) return;
    const auto capture = capture_of.find(output);
    if (capture == capture_of.end()) return need_node(output.node);
    captured.insert(capture->second);
  };
  absl::c_for_each(outputs, need);
  while (!stack.empty()) {
    const Node& node = *stack.back();
    stack.pop_back();
    const bool is_variable = node.Is("VarHandleOp") || node.Is("VariableV2");
    if (is_variable || node.Is("Placeholder")) {
      return errors::NotFound("the outputs need the ", is_variable ? "variable '" : "placeholder '",
                              node.name(), "', which is not among what is ",
                              is_variable ? "saved" : "given");
    }
    absl::c_for_each(node.inputs(), need);
    for (const Node* control : node.control_inputs()) {
      if (given_nodes.count(control) == 0) need_node(control);
    }
  }
  return std::vector<int>(captured.begin(), captured.end());
}

absl::StatusOr<Node*> AddArgument(Graph& graph, const std::string& name, int index,
                                  Output replaced) {
  NodeSpec spec;
  spec.name = graph.UniqueName(NodeNameFrom(name));
  spec.op = "_Arg";
  spec.attrs = {{"T", RemoveReference(replaced.dtype())}, {"index", static_cast<int64_t>(index)}};
  TANDEM_ASSIGN_OR_RETURN(Node* const argument, graph.AddNode(std::move(spec)));
  TANDEM_RETURN_IF_ERROR(graph.ReplaceOutput(replaced, argument->output(0)));
  if (replaced.node->Is("Placeholder")) graph.MoveControlConsumers(replaced.node, argument);
  return argument;
}

}  // namespace

std::string NodeNameFrom(absl::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool fits = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
                      ((c == '.' || c == '/' || c == '-') && !result.empty());
    result.push_back(fits ? c : '_');
  }
  if (result.empty() || result[0] == '_') result.insert(0, "x");
  return result;
}

absl::StatusOr<ExportedFunction> ExportFunction(const std::string& name, const Graph& graph,
                                                std::vector<SignatureTensor> inputs,
                                                std::vector<SignatureTensor> outputs,
                                                const std::vector<Output>& captures) {
  ExportedFunction result;
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> given, Resolve(graph, &inputs));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> wanted, Resolve(graph, &outputs));
  TANDEM_ASSIGN_OR_RETURN(result.captured, FindCaptured(given, wanted, captures));

  Graph body = graph.Clone();
  const auto in_body = [&](const Output& output) {
    return Output(body.node(output.node->id()), output.index);
  };
  absl::flat_hash_map<Output, Output> arguments;  // In the body.
  std::vector<Node*> roots;
  const auto add_argument = [&](const std::string& arg_name, const Output& output) -> absl::Status {
    const int index = static_cast<int>(roots.size());
    TANDEM_ASSIGN_OR_RETURN(Node* const argument,
                            AddArgument(body, arg_name, index, in_body(output)));
    if (!arguments.emplace(in_body(output), argument->output(0)).second) {
      return errors::InvalidArgument("'", arg_name, "' is the tensor of another input");
    }
    roots.push_back(argument);
    return absl::OkStatus();
  };
  for (size_t i = 0; i < given.size(); ++i) {
    TANDEM_RETURN_IF_ERROR(add_argument(inputs[i].name, given[i]));
  }
  for (const int capture : result.captured) {
    const Output& output = captures[static_cast<size_t>(capture)];
    TANDEM_RETURN_IF_ERROR(add_argument(output.node->name(), output));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto argument = arguments.find(in_body(wanted[i]));
    NodeSpec spec;
    spec.name = body.UniqueName(NodeNameFrom(outputs[i].name));
    spec.op = "_Retval";
    spec.inputs = {argument == arguments.end() ? in_body(wanted[i]) : argument->second};
    spec.attrs = {{"index", static_cast<int64_t>(i)}};
    TANDEM_ASSIGN_OR_RETURN(Node* const ret, body.AddNode(std::move(spec)));
    roots.push_back(ret);
  }
  RemoveUnneeded(roots, body);
  // Where it ran while it was trained is nobody's concern.
  for (Node* const node : body.nodes()) node->set_requested_device("");
  TANDEM_ASSIGN_OR_RETURN(result.def, FunctionFromGraph(name, body, {}));

  // From these TensorFlow knows the shapes inside.
  tensorflow::AttrValue& shapes = (*result.def.mutable_attr())["_input_shapes"];
  for (const SignatureTensor& input : inputs) {
    ShapeToProto(input.shape, shapes.mutable_list()->add_shape());
  }
  for (size_t i = 0; i < result.captured.size(); ++i) shapes.mutable_list()->add_shape();
  result.inputs = std::move(inputs);
  result.outputs = std::move(outputs);
  return result;
}

}  // namespace tandem
