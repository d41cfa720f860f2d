#include "kernels/control/function_gradient.h"

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/op/gradients.h"
#include "core/passes/prune.h"

namespace tandem {
namespace {

bool IsNumber(DataType dtype) { return IsFloating(dtype) || IsComplex(dtype); }

// What a function does may be done again when it has no effects and always gives the same.
absl::Status CheckRepeatable(const std::string& function, const FunctionBody& body) {
  for (const Node* node : body.graph.nodes()) {
    const bool only_reads = node->Is("_Arg") || node->Is("_Retval") || node->Is("ReadVariableOp") ||
                            node->Is("VarHandleOp") || node->Is("VariableShape");
    if (!node->op().is_stateful || only_reads) continue;
    return errors::Unimplemented("the gradient of function '", function,
                                 "' would compute it twice, and node '", node->name(), "' (",
                                 node->type(),
                                 ") in it must run once only; take it out of the "
                                 "function, or build the gradient inside");
  }
  return absl::OkStatus();
}

// The gradient of one function, while it is built.
class Backward {
 public:
  // `results` are the function's results that have gradients.
  static absl::StatusOr<Backward> Begin(const FunctionRef& function,
                                        std::shared_ptr<FunctionLibrary> library,
                                        const std::vector<int>& results) {
    Backward backward;
    backward.name_ = function.name;
    TANDEM_ASSIGN_OR_RETURN(backward.body_, InstantiateFunction(function, std::move(library)));
    FunctionBody& body = *backward.body_;
    TANDEM_RETURN_IF_ERROR(CheckRepeatable(function.name, body));
    std::vector<Output> xs;
    for (Node* arg : body.args) {
      backward.roots_.push_back(arg);
      xs.push_back(arg->output(0));
    }
    const Scope scope = Scope::ForGraph(&body.graph);
    std::vector<Output> ys;
    GradientOptions options;
    for (const int i : results) {
      if (i >= static_cast<int>(body.rets.size())) {
        return errors::InvalidArgument("function '", function.name, "' has ", body.rets.size(),
                                       " results; result ", i, " is asked for");
      }
      ys.push_back(body.rets[static_cast<size_t>(i)]->input(0));
      options.output_gradients.push_back(
          FunctionArg(scope, static_cast<int>(backward.roots_.size()), ys.back().dtype()));
      TANDEM_RETURN_IF_ERROR(scope.status());
      backward.roots_.push_back(options.output_gradients.back().node);
    }
    TANDEM_ASSIGN_OR_RETURN(backward.gradients_, AddGradients(&body.graph, ys, xs, options));
    for (Node* ret : body.rets) body.graph.RemoveNode(ret);
    return backward;
  }

  int num_args() const { return static_cast<int>(gradients_.size()); }
  // The type of the gradient of an argument; kInvalid when it has none.
  DataType dtype(int arg) const {
    const Gradient& gradient = gradients_[static_cast<size_t>(arg)];
    return gradient.exists() ? RemoveReference(gradient.values.dtype()) : DataType::kInvalid;
  }

  // Gives the gradients of `args`, of these types, with zeros for those that there are none of, and
  // adds the function to the library under a new name.
  absl::StatusOr<FunctionRef> Finish(const std::vector<int>& args,
                                     const std::vector<DataType>& types) {
    const Scope scope = Scope::ForGraph(&body_->graph).SubScope("results");
    std::vector<Node*> roots = roots_;
    for (size_t i = 0; i < args.size(); ++i) {
      const Output value = Dense(scope, args[i], types[i]);
      roots.push_back(FunctionResult(scope, static_cast<int>(i), value));
      TANDEM_RETURN_IF_ERROR(scope.status());
    }
    RemoveUnneeded(roots, body_->graph);
    FunctionLibrary& library = body_->graph.functions();
    FunctionRef made{library.UniqueName(absl::StrCat(name_, "_gradient")), {}};
    TANDEM_RETURN_IF_ERROR(DefineFunction(made.name, body_->graph, {}, &library));
    return made;
  }

 private:
  Backward() = default;

  Output Dense(const Scope& scope, int arg, DataType type) const {
    const Gradient& gradient = gradients_[static_cast<size_t>(arg)];
    if (gradient.is_sparse()) {
      const Output rows = scope.Call("StridedSlice", {gradient.dense_shape, {0}, {1}, {1}},
                                     {{"shrink_axis_mask", 1}});
      return scope.Call("UnsortedSegmentSum", {gradient.values, gradient.indices, rows});
    }
    if (gradient.exists()) return gradient.values;
    Output value = body_->args[static_cast<size_t>(arg)]->output(0);
    if (value.dtype() == kResource)
      value = scope.Call("ReadVariableOp", {value}, {{"dtype", type}});
    return scope.Call("ZerosLike", {value});
  }

  std::string name_;
  std::unique_ptr<FunctionBody> body_;
  std::vector<Node*> roots_;  // The arguments, of the function and of its gradient.
  std::vector<Gradient> gradients_;
};

}  // namespace

absl::Status AddCallGradient(
    GradientContext& g, const std::vector<FunctionRef>& branches, int first_input,
    const std::function<AttrMap(const std::vector<FunctionRef>&)>& name_branches) {
  std::vector<int> results;
  std::vector<Output> inputs;
  for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  for (int i = 0; i < g.num_outputs(); ++i) {
    if (!g.HasOutputGradient(i) || !IsNumber(g.output(i).dtype())) continue;
    results.push_back(i);
    inputs.push_back(g.OutputGradient(i));
  }
  if (results.empty()) return absl::OkStatus();

  std::vector<Backward> backwards;
  for (const FunctionRef& branch : branches) {
    TANDEM_ASSIGN_OR_RETURN(Backward backward,
                            Backward::Begin(branch, g.graph().shared_functions(), results));
    if (backward.num_args() != g.num_inputs() - first_input) {
      return errors::InvalidArgument("function '", branch.name, "' takes ", backward.num_args(),
                                     " arguments and is called with ",
                                     g.num_inputs() - first_input);
    }
    backwards.push_back(std::move(backward));
  }
  // An argument has a gradient when it has one in some branch.
  std::vector<int> args;
  std::vector<DataType> types;
  for (int i = 0; i < g.num_inputs() - first_input; ++i) {
    for (const Backward& backward : backwards) {
      if (!IsNumber(backward.dtype(i))) continue;
      args.push_back(i);
      types.push_back(backward.dtype(i));
      break;
    }
  }
  if (args.empty()) return absl::OkStatus();
  std::vector<FunctionRef> functions;
  for (Backward& backward : backwards) {
    TANDEM_ASSIGN_OR_RETURN(FunctionRef function, backward.Finish(args, types));
    functions.push_back(std::move(function));
  }
  AttrMap attrs = name_branches(functions);
  attrs["Tout"] = types;
  const std::vector<Output> gradients =
      g.CallAll(g.node().type(), std::move(inputs), std::move(attrs));
  for (size_t i = 0; i < gradients.size(); ++i) {
    g.SetInputGradient(first_input + args[i], gradients[i]);
  }
  return absl::OkStatus();
}

}  // namespace tandem
