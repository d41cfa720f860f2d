#include "kernels/control/differentiated_function.h"

#include <map>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/graph/known_values.h"
#include "core/op/gradients.h"
#include "core/passes/prune.h"

namespace tandem {
namespace {

// What these say of a value is small, and the value may be large: where a gradient only asks for
// that, the forward pass answers.
bool DescribesInput(const Node& node) {
  return node.Is("Shape") || node.Is("Size") || node.Is("Rank") || node.Is("TensorListLength") ||
         node.Is("TensorListElementShape");
}

// Cheaper to have twice than to keep, and the same in both passes.
bool IsCopied(const Node& node) { return node.Is("Const") || node.Is("VarHandleOp"); }

// Of functions in functions. A level takes some kilobytes of the stack.
constexpr size_t kMaxNesting = 100;
// Of functions that are differentiated for one node. Each call of a function in a function makes
// functions of its own, so that a short library could ask for more than there is memory.
constexpr int kMaxFunctions = 2'000;

// The functions whose gradients are being built on this thread, each inside the one before it.
class Nesting {
 public:
  explicit Nesting(const FunctionRef& function) { stack().push_back(function); }
  ~Nesting() { stack().pop_back(); }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

  // Whether the gradient of one more may be built.
  static absl::Status Check(const FunctionRef& function) {
    thread_local int count = 0;
    count = stack().empty() ? 1 : count + 1;
    if (count > kMaxFunctions) {
      return errors::ResourceExhausted("the gradient takes more than ", kMaxFunctions,
                                       " functions, at function '", function.name,
                                       "': calls in functions that are called in functions");
    }
    if (stack().size() >= kMaxNesting) {
      return errors::Unimplemented("function '", function.name, "' lies ", kMaxNesting,
                                   " functions deep; gradients through more are not supported");
    }
    const bool calls_itself = absl::c_any_of(stack(), [&](const FunctionRef& other) {
      return other.name == function.name && other.attrs == function.attrs;
    });
    if (!calls_itself) return absl::OkStatus();
    return errors::Unimplemented("function '", function.name,
                                 "' calls itself; gradients through recursion are not supported: "
                                 "write it as a loop");
  }

 private:
  static std::vector<FunctionRef>& stack() {
    thread_local std::vector<FunctionRef> functions;
    return functions;
  }
};

absl::StatusOr<Node*> CopyNode(const Node& node, std::vector<Output> inputs, Graph& graph) {
  NodeSpec spec;
  spec.name = graph.UniqueName(node.name());
  spec.op = node.type();
  spec.inputs = std::move(inputs);
  spec.attrs = node.attrs();
  spec.attrs.erase("_class");  // The nodes that it names are elsewhere.
  spec.device = node.requested_device();
  return graph.AddNode(std::move(spec));
}

// A node that gives `value`, of which this shape is known. Null for values without shapes.
absl::StatusOr<Node*> AssumeShape(const Output& value, const PartialShape& shape, Graph& graph) {
  const DataType dtype = value.dtype();
  if (!shape.has_rank() || IsReference(dtype) || dtype == kResource || dtype == kVariant) {
    return nullptr;
  }
  const std::vector<Consumer> consumers(value.node->consumers().begin(),
                                        value.node->consumers().end());
  NodeSpec spec;
  spec.name = graph.UniqueName(absl::StrCat(value.node->name(), "/shape"));
  spec.op = "EnsureShape";
  spec.inputs = {value};
  spec.attrs = {{"shape", shape}};
  TANDEM_ASSIGN_OR_RETURN(Node* const node, graph.AddNode(std::move(spec)));
  for (const Consumer& consumer : consumers) {
    if (consumer.input == Consumer::kControl || consumer.output != value.index) continue;
    TANDEM_RETURN_IF_ERROR(graph.SetInput(consumer.node, consumer.input, node->output(0)));
  }
  return node;
}

absl::StatusOr<std::vector<Node*>> AssumeArgShapes(FunctionBody& body,
                                                   const std::vector<PartialShape>& shapes) {
  std::vector<Node*> assumed;
  for (size_t i = 0; i < body.args.size(); ++i) {
    const PartialShape shape = i < shapes.size() ? shapes[i] : PartialShape::Unknown();
    TANDEM_ASSIGN_OR_RETURN(Node* const node,
                            AssumeShape(body.args[i]->output(0), shape, body.graph));
    assumed.push_back(node);
  }
  return assumed;
}

absl::Status InferShapes(Graph& graph) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  for (Node* node : order) TANDEM_RETURN_IF_ERROR(graph.InferShape(node));
  return absl::OkStatus();
}

// What two shapes have in common.
PartialShape Common(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank() || a.rank() != b.rank()) return PartialShape::Unknown();
  PartialShape common = a;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dim(i) != b.dim(i)) common.SetDim(i, PartialShape::kUnknownDim);
  }
  return common;
}

}  // namespace

int PassedArg(Output output) {
  while (output.node->Is("Identity") || output.node->Is("EnsureShape")) {
    output = output.node->input(0);
  }
  return output.node->Is("_Arg") ? static_cast<int>(*output.node->Attr<int64_t>("index")) : -1;
}

absl::StatusOr<std::vector<PartialShape>> ShapesInLoop(const FunctionRef& body,
                                                       std::shared_ptr<FunctionLibrary> library,
                                                       std::vector<PartialShape> shapes) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<FunctionBody> made,
                          InstantiateFunction(body, std::move(library)));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> assumed, AssumeArgShapes(*made, shapes));
  // A shape only ever gets less known, so this ends.
  for (bool changed = true; changed;) {
    changed = false;
    if (!InferShapes(made->graph).ok()) return std::vector<PartialShape>(shapes.size());
    for (size_t i = 0; i < assumed.size() && i < made->rets.size(); ++i) {
      PartialShape& shape = shapes[i];
      const PartialShape common = Common(shape, made->rets[i]->input(0).shape());
      if (assumed[i] == nullptr || common == shape) continue;
      shape = common;
      made->graph.SetAttr(assumed[i], "shape", common);
      changed = true;
    }
  }
  return shapes;
}

absl::StatusOr<DifferentiatedFunction> DifferentiatedFunction::Make(
    const FunctionRef& function, std::shared_ptr<FunctionLibrary> library,
    const std::vector<int>& results, const std::vector<DataType>& types,
    const std::vector<PartialShape>& arg_shapes) {
  TANDEM_RETURN_IF_ERROR(Nesting::Check(function));
  const Nesting nesting(function);
  DifferentiatedFunction made;
  made.name_ = function.name;
  TANDEM_ASSIGN_OR_RETURN(made.body_, InstantiateFunction(function, library));
  TANDEM_ASSIGN_OR_RETURN(made.assumed_shapes_, AssumeArgShapes(*made.body_, arg_shapes));
  if (!InferShapes(made.body_->graph).ok()) {
    // Such a call fails, but it may be in a branch that is never taken.
    TANDEM_ASSIGN_OR_RETURN(made.body_, InstantiateFunction(function, std::move(library)));
    made.assumed_shapes_.clear();
  }
  FunctionBody& body = *made.body_;
  made.num_nodes_ = body.graph.id_limit();
  std::vector<Output> xs;
  for (Node* arg : body.args) xs.push_back(arg->output(0));
  const Scope scope = Scope::ForGraph(&body.graph);
  std::vector<Output> ys;
  GradientOptions options;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] >= static_cast<int>(body.rets.size())) {
      return errors::InvalidArgument("function '", function.name, "' has ", body.rets.size(),
                                     " results; result ", results[i], " is asked for");
    }
    ys.push_back(body.rets[static_cast<size_t>(results[i])]->input(0));
    const Output seed = FunctionArg(scope, static_cast<int>(body.args.size() + i), types[i]);
    TANDEM_RETURN_IF_ERROR(scope.status());
    TANDEM_ASSIGN_OR_RETURN(Node* const shaped, AssumeShape(seed, ys.back().shape(), body.graph));
    made.seeds_.push_back(shaped != nullptr ? shaped->output(0) : seed);
  }
  TANDEM_RETURN_IF_ERROR(scope.status());
  options.output_gradients = made.seeds_;
  absl::StatusOr<std::vector<Gradient>> gradients = AddGradients(&body.graph, ys, xs, options);
  if (!gradients.ok()) {
    return WithContext(gradients.status(), absl::StrCat("function '", function.name, "'"));
  }
  made.gradients_ = *std::move(gradients);
  return made;
}

DataType DifferentiatedFunction::gradient_type(int arg) const {
  const Gradient& gradient = gradients_[static_cast<size_t>(arg)];
  return gradient.exists() ? RemoveReference(gradient.values.dtype()) : DataType::kInvalid;
}

absl::StatusOr<Output> DifferentiatedFunction::DenseGradient(int arg, DataType type) {
  const Scope scope = Scope::ForGraph(&body_->graph).SubScope("gradients");
  const Gradient& gradient = gradients_[static_cast<size_t>(arg)];
  const Output dense =
      gradient.exists() ? Densify(scope, gradient)
                        : ZerosFor(scope, body_->args[static_cast<size_t>(arg)]->output(0), type);
  TANDEM_RETURN_IF_ERROR(scope.status());
  return dense;
}

// The function's own nodes, and what a gradient function added in front of them: a loop or call
// inside may have got more inputs.
std::vector<bool> DifferentiatedFunction::ForwardNodes() const {
  std::vector<bool> forward(static_cast<size_t>(body_->graph.id_limit()), false);
  std::vector<const Node*> stack;
  for (const Node* node : body_->graph.nodes()) {
    if (node->id() < num_nodes_) stack.push_back(node);
  }
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    const size_t id = static_cast<size_t>(node->id());
    if (forward[id]) continue;
    forward[id] = true;
    for (const Output& input : node->inputs()) {
      if (input.valid()) stack.push_back(input.node);
    }
  }
  return forward;
}

std::vector<bool> DifferentiatedFunction::NeededFor(const std::vector<Output>& gradients,
                                                    const std::vector<bool>& forward) const {
  std::vector<bool> needed(forward.size(), false);
  for (const Output& seed : seeds_) needed[static_cast<size_t>(seed.node->id())] = true;
  std::vector<const Node*> stack;
  for (const Output& gradient : gradients) stack.push_back(gradient.node);
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    const size_t id = static_cast<size_t>(node->id());
    if (needed[id]) continue;
    needed[id] = true;
    if (forward[id]) continue;
    for (const Output& input : node->inputs()) stack.push_back(input.node);
  }
  return needed;
}

void DifferentiatedFunction::AddDescriptions(const std::vector<Output>& gradients,
                                             std::vector<bool>* forward) const {
  const std::vector<bool> needed = NeededFor(gradients, *forward);
  std::vector<const Node*> descriptions;
  absl::flat_hash_set<Output> read;  // Forward values that the gradients need themselves.
  for (const Node* node : body_->graph.nodes()) {
    const size_t id = static_cast<size_t>(node->id());
    if (!needed[id] || (*forward)[id]) continue;
    if (DescribesInput(*node)) {
      if ((*forward)[static_cast<size_t>(node->input(0).node->id())]) descriptions.push_back(node);
    } else {
      read.insert(node->inputs().begin(), node->inputs().end());
    }
  }
  for (const Node* node : descriptions) {
    if (!read.contains(node->input(0))) (*forward)[static_cast<size_t>(node->id())] = true;
  }
}

absl::StatusOr<std::vector<Output>> DifferentiatedFunction::Split(
    const std::vector<Output>& gradients, const std::vector<Output>& seeds, const Keep& keep,
    Graph* backward) {
  Graph& graph = body_->graph;
  std::vector<bool> forward = ForwardNodes();
  AddDescriptions(gradients, &forward);
  const std::vector<bool> needed = NeededFor(gradients, forward);
  absl::flat_hash_map<Output, Output> copies;
  for (size_t i = 0; i < seeds_.size(); ++i) copies[seeds_[i]] = seeds[i];

  std::vector<Node*> roots(body_->args);
  absl::c_copy(body_->rets, std::back_inserter(roots));
  absl::c_copy(body_->control_rets, std::back_inserter(roots));
  for (Node* node : graph.nodes()) {
    if (node->op().is_stateful && node->id() < num_nodes_) roots.push_back(node);
  }
  // The copy of an output, which was made before unless it is one of the forward pass.
  const auto copy_of = [&](Output output) -> absl::StatusOr<Output> {
    const auto found = copies.find(output);
    if (found != copies.end()) return found->second;
    const Output original = output;
    if (absl::c_linear_search(assumed_shapes_, output.node)) output = output.node->input(0);
    Output copy;
    absl::optional<Tensor> known;
    if (DescribesInput(*output.node)) known = KnownValue(output);
    if (known.has_value()) {
      const Scope scope = Scope::ForGraph(backward);
      copy = scope.Constant(*known);
      TANDEM_RETURN_IF_ERROR(scope.status());
    } else if (IsCopied(*output.node)) {
      TANDEM_ASSIGN_OR_RETURN(Node* const node, CopyNode(*output.node, {}, *backward));
      copy = node->output(output.index);
    } else if (const auto of_arg = copies.find(output); of_arg != copies.end()) {
      copy = of_arg->second;
    } else {
      TANDEM_ASSIGN_OR_RETURN(copy, keep(output));
      copies[output] = copy;
      roots.push_back(output.node);
    }
    copies[original] = copy;
    return copy;
  };
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  for (Node* node : order) {
    const size_t id = static_cast<size_t>(node->id());
    if (!needed[id] || forward[id] || copies.contains(node->output(0))) continue;
    std::vector<Output> inputs;
    for (const Output& input : node->inputs()) {
      TANDEM_ASSIGN_OR_RETURN(Output copy, copy_of(input));
      inputs.push_back(copy);
    }
    TANDEM_ASSIGN_OR_RETURN(Node* const copy, CopyNode(*node, std::move(inputs), *backward));
    for (int i = 0; i < node->num_outputs(); ++i) copies[node->output(i)] = copy->output(i);
  }
  std::vector<Output> results;
  for (const Output& gradient : gradients) {
    TANDEM_ASSIGN_OR_RETURN(Output copy, copy_of(gradient));
    results.push_back(copy);
  }
  for (Node* node : assumed_shapes_) {
    if (node == nullptr) continue;
    TANDEM_RETURN_IF_ERROR(graph.ReplaceOutput(node->output(0), node->input(0)));
  }
  RemoveUnneeded(roots, graph);
  assumed_shapes_.clear();
  return results;
}

absl::StatusOr<FunctionRef> DifferentiatedFunction::DefineForward() {
  return DefineNewFunction(absl::StrCat(name_, "_forward"), body_->graph, body_->control_rets);
}

Output ZerosFor(const Scope& scope, const Output& value, DataType type) {
  const DataType dtype = RemoveReference(value.dtype());
  if (dtype == kVariant) return scope.Call("ZerosLike", {value});
  const Output shape = scope.Call(dtype == kResource ? "VariableShape" : "Shape", {value});
  return scope.Call("Fill", {shape, Tensor::Zeros(type, Shape())});
}

absl::StatusOr<FunctionRef> DefineNewFunction(const std::string& base, Graph& graph,
                                              const std::vector<Node*>& control_rets) {
  FunctionLibrary& library = graph.functions();
  FunctionRef made{library.UniqueName(base), {}};
  TANDEM_RETURN_IF_ERROR(DefineFunction(made.name, graph, control_rets, &library));
  return made;
}

std::string OpForFunctions(const std::string& op, const std::vector<const Graph*>& functions) {
  for (const Graph* graph : functions) {
    for (const Node* node : graph->nodes()) {
      if (node->op().is_stateful && !node->Is("_Arg") && !node->Is("_Retval")) return op;
    }
  }
  static const auto* const stateless =
      new std::map<std::string, std::string>{{"If", "StatelessIf"},
                                             {"Case", "StatelessCase"},
                                             {"While", "StatelessWhile"},
                                             {"StatefulPartitionedCall", "PartitionedCall"}};
  const auto found = stateless->find(op);
  return found == stateless->end() ? op : found->second;
}

}  // namespace tandem
