#include "kernels/control/function_gradient.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "core/base/status.h"
#include "core/graph/scope.h"
#include "kernels/control/differentiated_function.h"

namespace tandem {
namespace {

// One branch: its two passes, while they are built.
class Branch {
 public:
  static absl::StatusOr<Branch> Make(const FunctionRef& function,
                                     std::shared_ptr<FunctionLibrary> library,
                                     const std::vector<int>& results,
                                     const std::vector<DataType>& types,
                                     const std::vector<PartialShape>& arg_shapes) {
    TANDEM_ASSIGN_OR_RETURN(
        DifferentiatedFunction differentiated,
        DifferentiatedFunction::Make(function, std::move(library), results, types, arg_shapes));
    return Branch(std::move(differentiated), types);
  }

  int num_args() const { return function_.num_args(); }
  const std::string& name() const { return function_.name(); }
  DataType gradient_type(int arg) const { return function_.gradient_type(arg); }

  // Takes the passes apart. `args` and `types`: the arguments that have gradients, in some branch.
  absl::Status Split(const std::vector<int>& args, const std::vector<DataType>& types) {
    std::vector<Output> gradients;
    for (size_t i = 0; i < args.size(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(Output gradient, function_.DenseGradient(args[i], types[i]));
      gradients.push_back(gradient);
    }
    const Scope scope = Scope::ForGraph(backward_.get());
    std::vector<Output> seeds;
    for (size_t i = 0; i < seed_types_.size(); ++i) {
      seeds.push_back(FunctionArg(scope, static_cast<int>(i), seed_types_[i]));
    }
    const auto keep = [&](const Output& value) -> absl::StatusOr<Output> {
      const DataType type = RemoveReference(value.dtype());
      // The index is set when all branches are known.
      const Output stand_in = FunctionArg(scope, 0, type);
      TANDEM_RETURN_IF_ERROR(scope.status());
      if (value.node->Is("_Arg")) {
        needed_args_[static_cast<int>(*value.node->Attr<int64_t>("index"))] = stand_in.node;
        return stand_in;
      }
      if (type == kResource) {
        return errors::Unimplemented("function '", name(), "': node '", value.node->name(), "' (",
                                     value.node->type(),
                                     ") gives a handle that the gradient needs; take the variable "
                                     "as an argument of the function instead");
      }
      kept_.push_back({value, stand_in.node});
      return stand_in;
    };
    TANDEM_ASSIGN_OR_RETURN(results_, function_.Split(gradients, seeds, keep, backward_.get()));
    return scope.status();
  }

  const std::map<int, Node*>& needed_args() const { return needed_args_; }

  // Gives each kept value a place of its type; adds places to `types` where they do not suffice.
  void ChoosePlaces(std::vector<DataType>* types) {
    std::set<size_t> taken;
    for (Kept& kept : kept_) {
      const DataType type = RemoveReference(kept.value.dtype());
      size_t place = 0;
      while (place < types->size() && ((*types)[place] != type || taken.count(place) == 1)) ++place;
      if (place == types->size()) types->push_back(type);
      taken.insert(place);
      kept.place = place;
    }
  }

  // Makes the kept values results, and arguments of the backward pass: behind the seeds come
  // `args`, the arguments of the branch that some branch needs, then the places.
  absl::Status Connect(const std::vector<int>& args, const std::vector<DataType>& places) {
    FunctionBody& body = function_.body();
    const Scope forward = Scope::ForGraph(&body.graph).SubScope("kept");
    const Scope backward = Scope::ForGraph(backward_.get());
    std::vector<const Kept*> at(places.size(), nullptr);
    for (const Kept& kept : kept_) at[kept.place] = &kept;
    int index = static_cast<int>(seed_types_.size());
    for (const int arg : args) {
      const auto found = needed_args_.find(arg);
      Place(found == needed_args_.end() ? nullptr : found->second, index++, body.arg_type(arg),
            backward);
    }
    for (size_t i = 0; i < places.size(); ++i) {
      Place(at[i] == nullptr ? nullptr : at[i]->stand_in, index++, places[i], backward);
      const Output result = at[i] != nullptr ? at[i]->value : Nothing(forward, places[i]);
      FunctionResult(forward, static_cast<int>(body.rets.size() + i), result);
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      FunctionResult(backward, static_cast<int>(i), results_[i]);
    }
    TANDEM_RETURN_IF_ERROR(forward.status());
    return backward.status();
  }

  absl::StatusOr<FunctionRef> DefineForward() { return function_.DefineForward(); }
  absl::StatusOr<FunctionRef> DefineBackward() {
    return DefineNewFunction(absl::StrCat(name(), "_backward"), *backward_);
  }
  const Graph& backward() const { return *backward_; }

 private:
  struct Kept {
    Output value;    // In the body.
    Node* stand_in;  // The argument of the backward pass.
    size_t place = 0;
  };

  Branch(DifferentiatedFunction function, std::vector<DataType> seed_types)
      : function_(std::move(function)),
        backward_(std::make_unique<Graph>(function_.body().graph.registry(),
                                          function_.body().graph.shared_functions())),
        seed_types_(std::move(seed_types)) {}

  // An argument of the backward pass at `index`; one that nobody uses when there is none.
  static void Place(Node* arg, int index, DataType type, const Scope& backward) {
    if (arg == nullptr) {
      FunctionArg(backward, index, type);
    } else {
      backward.graph()->SetAttr(arg, "index", int64_t{index});
    }
  }

  static Output Nothing(const Scope& scope, DataType type) {
    if (type == kVariant) {
      return scope.Call("EmptyTensorList", {-1, -1}, {{"element_dtype", kFloat32}});
    }
    return scope.Constant(Tensor::Zeros(type, Shape({0})));
  }

  DifferentiatedFunction function_;
  std::unique_ptr<Graph> backward_;
  std::vector<DataType> seed_types_;
  std::map<int, Node*> needed_args_;  // By their index in the branch.
  std::vector<Kept> kept_;
  std::vector<Output> results_;
};

// Lets the node call the forward functions, and give out what they keep.
absl::Status Grow(Graph& graph, Node* node, AttrMap functions,
                  const std::vector<DataType>& places) {
  std::vector<DataType> types = *node->Attr<std::vector<DataType>>("Tout");
  types.insert(types.end(), places.begin(), places.end());
  functions["Tout"] = types;
  if (const auto* shapes = node->Attr<std::vector<PartialShape>>("output_shapes");
      shapes != nullptr && !shapes->empty()) {
    std::vector<PartialShape> grown(*shapes);
    grown.resize(types.size(), PartialShape::Unknown());
    functions["output_shapes"] = grown;
  }
  return graph.GrowNode(node, {}, std::move(functions));
}

}  // namespace

absl::Status AddCallGradient(
    GradientContext& g, const std::vector<FunctionRef>& branches, int first_input,
    const std::function<AttrMap(const std::vector<FunctionRef>&)>& name_branches) {
  std::vector<int> results;
  std::vector<DataType> seed_types;
  std::vector<Output> inputs;
  const int num_outputs = g.num_outputs();
  for (int i = 0; i < first_input; ++i) inputs.push_back(g.input(i));
  for (int i = 0; i < num_outputs; ++i) {
    if (!g.HasOutputGradient(i)) continue;
    const Output gradient = g.OutputGradient(i);
    TANDEM_RETURN_IF_ERROR(g.status());
    results.push_back(i);
    seed_types.push_back(RemoveReference(gradient.dtype()));
    inputs.push_back(gradient);
  }
  if (results.empty()) return absl::OkStatus();

  std::vector<PartialShape> arg_shapes;
  for (int i = first_input; i < g.num_inputs(); ++i) arg_shapes.push_back(g.input(i).shape());
  std::vector<Branch> made;
  for (const FunctionRef& function : branches) {
    TANDEM_ASSIGN_OR_RETURN(Branch branch, Branch::Make(function, g.graph().shared_functions(),
                                                        results, seed_types, arg_shapes));
    if (branch.num_args() != g.num_inputs() - first_input) {
      return errors::InvalidArgument("function '", function.name, "' takes ", branch.num_args(),
                                     " arguments and is called with ",
                                     g.num_inputs() - first_input);
    }
    made.push_back(std::move(branch));
  }
  // An argument has a gradient when it has one in some branch.
  std::vector<int> args;
  std::vector<DataType> types;
  for (int i = 0; i < g.num_inputs() - first_input; ++i) {
    for (const Branch& branch : made) {
      if (branch.gradient_type(i) == DataType::kInvalid) continue;
      args.push_back(i);
      types.push_back(branch.gradient_type(i));
      break;
    }
  }
  if (args.empty()) return absl::OkStatus();

  std::set<int> needed;
  std::vector<DataType> places;
  for (Branch& branch : made) {
    TANDEM_RETURN_IF_ERROR(branch.Split(args, types));
    for (const auto& [arg, node] : branch.needed_args()) needed.insert(arg);
    branch.ChoosePlaces(&places);
  }
  const std::vector<int> needed_args(needed.begin(), needed.end());
  std::vector<FunctionRef> forward;
  std::vector<FunctionRef> backward;
  std::vector<const Graph*> backward_graphs;
  for (Branch& branch : made) {
    TANDEM_RETURN_IF_ERROR(branch.Connect(needed_args, places));
    TANDEM_ASSIGN_OR_RETURN(FunctionRef function, branch.DefineBackward());
    backward.push_back(std::move(function));
    backward_graphs.push_back(&branch.backward());
    if (places.empty()) continue;
    TANDEM_ASSIGN_OR_RETURN(function, branch.DefineForward());
    forward.push_back(std::move(function));
  }
  Node* const node = g.output(0).node;
  if (!places.empty()) {
    TANDEM_RETURN_IF_ERROR(Grow(g.graph(), node, name_branches(forward), places));
  }
  for (const int arg : needed_args) inputs.push_back(g.input(first_input + arg));
  for (size_t i = 0; i < places.size(); ++i) {
    inputs.push_back(node->output(num_outputs + static_cast<int>(i)));
  }
  AttrMap attrs = name_branches(backward);
  attrs["Tout"] = types;
  const std::vector<Output> gradients = g.CallMulti(OpForFunctions(node->type(), backward_graphs),
                                                    std::move(inputs), std::move(attrs));
  TANDEM_RETURN_IF_ERROR(g.status());
  for (size_t i = 0; i < gradients.size(); ++i) {
    g.SetInputGradient(first_input + args[i], gradients[i]);
  }
  return absl::OkStatus();
}

}  // namespace tandem
