#include "core/passes/symbolic_gradient.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/op/gradients.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "core/passes/prune.h"

namespace tandem {
namespace {

// The gradient of an argument is shaped like it.
absl::Status GradientShapes(ShapeContext& c) {
  if (c.num_outputs() > c.num_inputs()) {
    return errors::InvalidArgument("there are ", c.num_outputs(), " gradients of ", c.num_inputs(),
                                   " inputs");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, c.input(i)));
  }
  return absl::OkStatus();
}

// It has no kernel: a session never runs it.
TANDEM_OP("SymbolicGradient")
    .Inputs("input:Tin")
    .Outputs("output:Tout")
    .Attrs("Tin:list(type)>=1; Tout:list(type)>=1; f:func")
    .Shape(GradientShapes);

// An op as the body of a function: arguments of the given types, the node, its outputs.
absl::StatusOr<std::unique_ptr<FunctionBody>> BodyOfOp(const FunctionRef& op,
                                                       const std::vector<DataType>& types,
                                                       const Graph& graph) {
  auto body = std::make_unique<FunctionBody>(Graph(graph.registry(), graph.shared_functions()));
  const Scope scope = Scope::ForGraph(&body->graph);
  InputList inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(FunctionArg(scope, static_cast<int>(i), types[i]));
    body->args.push_back(inputs.back().output().node);
  }
  const std::vector<Output> results = scope.CallMulti(op.name, inputs, op.attrs);
  for (size_t i = 0; i < results.size(); ++i) {
    body->rets.push_back(FunctionResult(scope, static_cast<int>(i), results[i]));
  }
  TANDEM_RETURN_IF_ERROR(scope.status());
  return body;
}

absl::StatusOr<std::unique_ptr<FunctionBody>> BodyOf(const FunctionRef& function,
                                                     const std::vector<DataType>& types,
                                                     const Graph& graph) {
  if (graph.functions().Find(function.name) == nullptr &&
      graph.registry().Find(function.name) != nullptr) {
    return BodyOfOp(function, types, graph);
  }
  return InstantiateFunction(function, graph.shared_functions(), graph.registry());
}

// Adds the body to the library. The name is the same each time, so that compiling a graph again
// adds nothing, unless another function has it.
absl::StatusOr<FunctionRef> Define(const std::string& function, const FunctionBody& body,
                                   FunctionLibrary& library) {
  FunctionRef made{absl::StrCat("SymbolicGradient_of_", function), {}};
  for (int suffix = 1;; ++suffix) {
    const absl::Status status = DefineFunction(made.name, body.graph, {}, &library);
    if (status.ok()) return made;
    if (library.Find(made.name) == nullptr) return status;
    made.name = absl::StrCat("SymbolicGradient_of_", function, "_", suffix);
  }
}

// Turns the body of f into that of its gradient, whose arguments are those of `node`.
absl::Status Differentiate(const Node& node, FunctionBody& body) {
  const int num_xs = node.num_outputs();
  const int num_dys = node.num_inputs() - num_xs;
  if (static_cast<int>(body.args.size()) != num_xs ||
      static_cast<int>(body.rets.size()) != num_dys) {
    return errors::InvalidArgument("the function has ", body.args.size(), " arguments and ",
                                   body.rets.size(), " results; ", num_xs,
                                   " gradients are asked for, and ", num_dys, " are given");
  }
  const Scope scope = Scope::ForGraph(&body.graph);
  std::vector<Node*> roots;
  std::vector<Output> xs;
  for (Node* arg : body.args) {
    roots.push_back(arg);
    xs.push_back(arg->output(0));
  }
  std::vector<Output> ys;
  GradientOptions options;
  for (int i = 0; i < num_dys; ++i) {
    const Output dy = FunctionArg(scope, num_xs + i, RemoveReference(node.input_dtype(num_xs + i)));
    TANDEM_RETURN_IF_ERROR(scope.status());
    roots.push_back(dy.node);
    const Output y = body.rets[static_cast<size_t>(i)]->input(0);
    if (!IsFloating(RemoveReference(y.dtype())) && !IsComplex(RemoveReference(y.dtype()))) continue;
    ys.push_back(y);
    options.output_gradients.push_back(dy);
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients,
                          AddGradients(&body.graph, ys, xs, options));
  for (Node* ret : body.rets) body.graph.RemoveNode(ret);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Gradient& gradient = gradients[i];
    const Output dense =
        gradient.exists() ? Densify(scope, gradient) : scope.Call("ZerosLike", {xs[i]});
    roots.push_back(FunctionResult(scope, static_cast<int>(i), dense));
  }
  TANDEM_RETURN_IF_ERROR(scope.status());
  RemoveUnneeded(roots, body.graph);
  return absl::OkStatus();
}

bool HasEffects(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    if (node->op().is_stateful && !node->Is("_Arg") && !node->Is("_Retval")) return true;
  }
  return false;
}

absl::Status Expand(Node* node, Graph& graph) {
  const FunctionRef& function = *node->Attr<FunctionRef>("f");
  NodeSpec call;
  call.name = graph.UniqueName(absl::StrCat(node->name(), "/call"));
  call.op = "StatefulPartitionedCall";
  FunctionRef called{graph.functions().FindGradient(function.name), function.attrs};
  if (called.name.empty()) {
    std::vector<DataType> types;
    for (int i = 0; i < node->num_outputs(); ++i) types.push_back(node->input_dtype(i));
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<FunctionBody> body,
                            BodyOf(function, types, graph));
    TANDEM_RETURN_IF_ERROR(Differentiate(*node, *body));
    if (!HasEffects(body->graph)) call.op = "PartitionedCall";
    TANDEM_ASSIGN_OR_RETURN(called, Define(function.name, *body, graph.functions()));
  }
  call.inputs.assign(node->inputs().begin(), node->inputs().end());
  call.control_inputs.assign(node->control_inputs().begin(), node->control_inputs().end());
  call.device = node->requested_device();
  call.attrs = {{"f", called}, {"Tout", *node->Attr<std::vector<DataType>>("Tout")}};
  TANDEM_ASSIGN_OR_RETURN(Node* const added, graph.AddNode(std::move(call)));
  for (int i = 0; i < node->num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(graph.ReplaceOutput(node->output(i), added->output(i)));
  }
  graph.MoveControlConsumers(node, added);
  graph.RemoveNode(node);
  return absl::OkStatus();
}

}  // namespace

absl::Status ExpandSymbolicGradients(Graph& graph) {
  for (Node* node : graph.nodes()) {
    if (!node->Is("SymbolicGradient")) continue;
    const std::string context = absl::StrCat("node '", node->name(), "' (SymbolicGradient)");
    const absl::Status status = Expand(node, graph);
    if (!status.ok()) return WithContext(status, context);
  }
  return absl::OkStatus();
}

}  // namespace tandem
