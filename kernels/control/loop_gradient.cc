#include "kernels/control/loop_gradient.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/graph/function_body.h"
#include "core/graph/known_values.h"
#include "core/graph/scope.h"
#include "kernels/control/differentiated_function.h"

namespace tandem {
namespace {

bool IsNumber(DataType dtype) { return IsFloating(dtype) || IsComplex(dtype); }
bool CarriesGradient(DataType dtype) {
  const DataType value = RemoveReference(dtype);
  return IsNumber(value) || value == kVariant || value == kResource;
}

int ArgIndex(const Node& arg) { return static_cast<int>(*arg.Attr<int64_t>("index")); }

bool IsOne(const Output& output) {
  const absl::optional<Tensor> value = KnownValue(output);
  return value.has_value() && value->dtype() == kInt32 && value->shape().IsScalar() &&
         value->ScalarValue<int32_t>() == 1;
}

// The values of a loop whose results depend on one another by paths that gradients can take:
// whether value j needs a gradient when those of `with_gradient` have one.
std::set<int> WithGradients(const FunctionBody& body, const std::set<int>& with_gradient) {
  std::set<int> found(with_gradient);
  std::vector<bool> seen(static_cast<size_t>(body.graph.id_limit()), false);
  std::vector<const Node*> stack;
  for (const int i : with_gradient) stack.push_back(body.rets[static_cast<size_t>(i)]);
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (seen[static_cast<size_t>(node->id())]) continue;
    seen[static_cast<size_t>(node->id())] = true;
    if (node->Is("_Arg")) {
      const int arg = ArgIndex(*node);
      if (body.arg_type(arg) == kResource) continue;
      found.insert(arg);
      stack.push_back(body.rets[static_cast<size_t>(arg)]);
      continue;
    }
    if (node->op().differentiability == Differentiability::kNotDifferentiable) continue;
    for (const Output& input : node->inputs()) {
      if (input.valid() && CarriesGradient(input.dtype())) stack.push_back(input.node);
    }
  }
  return found;
}

class LoopDifferentiator {
 public:
  explicit LoopDifferentiator(GradientContext& g)
      : g_(g), node_(g.output(0).node), num_values_(g.num_outputs()) {}

  absl::Status Run() {
    TANDEM_RETURN_IF_ERROR(Differentiate());
    if (values_.empty() && handles_.empty()) return absl::OkStatus();
    TANDEM_RETURN_IF_ERROR(BuildBackwardBody());
    TANDEM_RETURN_IF_ERROR(FindCounter());
    TANDEM_RETURN_IF_ERROR(GrowForward());
    return CallBackward();
  }

 private:
  // Something that the backward loop is given besides gradients: what a turn needs of the forward
  // one.
  struct Carried {
    int argument = -1;  // A value of the forward loop that stays the same, if so;
    Output kept;        // else the list of this value of the body.
    int list = -1;      // The forward loop's value that is this list; -1: still to be added.
    Output next;        // What the backward body hands on.
  };

  // Which values have gradients, and the body with them.
  absl::Status Differentiate() {
    const FunctionRef& body_function = g_.Attr<FunctionRef>("body");
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<FunctionBody> body,
                            InstantiateFunction(body_function, g_.graph().shared_functions()));
    if (static_cast<int>(body->args.size()) != num_values_ ||
        static_cast<int>(body->rets.size()) != num_values_) {
      return errors::InvalidArgument("function '", body_function.name, "' has ", body->args.size(),
                                     " arguments and ", body->rets.size(),
                                     " results; the loop has ", num_values_, " values");
    }
    std::set<int> given;
    for (int i = 0; i < num_values_; ++i) {
      const DataType type = body->arg_type(i);
      if (g_.HasOutputGradient(i) && (IsNumber(type) || type == kVariant)) given.insert(i);
    }
    std::set<int> with_gradient = WithGradients(*body, given);
    std::vector<PartialShape> shapes;
    for (int i = 0; i < num_values_; ++i) shapes.push_back(g_.input(i).shape());
    TANDEM_ASSIGN_OR_RETURN(
        shapes, ShapesInLoop(body_function, g_.graph().shared_functions(), std::move(shapes)));
    for (;;) {
      values_.assign(with_gradient.begin(), with_gradient.end());
      std::vector<DataType> types;
      for (const int i : values_) types.push_back(body->arg_type(i));
      TANDEM_ASSIGN_OR_RETURN(
          DifferentiatedFunction made,
          DifferentiatedFunction::Make(body_function, g_.graph().shared_functions(), values_, types,
                                       shapes));
      // Paths are found generously; a value whose gradient turns out not to exist, is none.
      std::set<int> existing(given);
      for (const int i : values_) {
        if (made.gradient_type(i) != DataType::kInvalid) existing.insert(i);
      }
      function_ = std::make_unique<DifferentiatedFunction>(std::move(made));
      if (existing == with_gradient) break;
      with_gradient = std::move(existing);
    }
    for (int i = 0; i < num_values_; ++i) {
      if (body->arg_type(i) != kResource) continue;
      if (function_->gradient_type(i) == DataType::kInvalid && !g_.HasOutputGradient(i)) continue;
      handles_.push_back(i);
      if (IsInvariant(i)) continue;
      return errors::Unimplemented("the handle that is value ", i, " of function '",
                                   body_function.name,
                                   "' is not the same in all turns, and "
                                   "gradients are asked for of what it leads to");
    }
    return absl::OkStatus();
  }

  bool IsInvariant(int i) const {
    return PassedArg(function_->body().rets[static_cast<size_t>(i)]->input(0)) == i;
  }

  // The body's values in the backward loop: how many turns are left; the gradients of `values_`;
  // the sums of `handles_`; what is carried.
  absl::Status BuildBackwardBody() {
    backward_ = std::make_unique<Graph>(g_.graph().registry(), g_.graph().shared_functions());
    const Scope scope = Scope::ForGraph(backward_.get());
    types_ = {kInt32};
    const Output turns = FunctionArg(scope, 0, kInt32);
    std::vector<Output> next = {scope.Call("Sub", {turns, 1})};
    std::vector<Output> seeds;
    std::vector<Output> gradients;
    for (const int i : values_) {
      const DataType type = function_->body().arg_type(i);
      seeds.push_back(AddBackwardArg(scope, type));
      TANDEM_ASSIGN_OR_RETURN(Output gradient, function_->DenseGradient(i, type));
      gradients.push_back(gradient);
    }
    std::vector<Output> sums;
    for (const int i : handles_) {
      DataType type = function_->gradient_type(i);
      if (type == DataType::kInvalid) type = g_.OutputGradient(i).dtype();
      sums.push_back(AddBackwardArg(scope, type));
      TANDEM_ASSIGN_OR_RETURN(Output gradient, function_->DenseGradient(i, type));
      gradients.push_back(gradient);
    }
    TANDEM_RETURN_IF_ERROR(g_.status());
    const auto keep = [&](const Output& value) { return Keep(scope, value); };
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> copies,
                            function_->Split(gradients, seeds, keep, backward_.get()));
    for (size_t i = 0; i < copies.size(); ++i) {
      next.push_back(i < values_.size()
                         ? copies[i]
                         : scope.Call("AddV2", {sums[i - values_.size()], copies[i]}));
    }
    for (const Carried& carried : carried_) next.push_back(carried.next);
    for (size_t i = 0; i < next.size(); ++i) FunctionResult(scope, static_cast<int>(i), next[i]);
    return scope.status();
  }

  Output AddBackwardArg(const Scope& scope, DataType type) {
    types_.push_back(type);
    return FunctionArg(scope, static_cast<int>(types_.size()) - 1, type);
  }

  absl::StatusOr<Output> Keep(const Scope& scope, const Output& value) {
    Carried carried;
    const int passed = PassedArg(value);
    if (passed >= 0 && IsInvariant(passed)) {
      for (const Carried& other : carried_) {
        if (other.argument == passed) return other.next;
      }
      carried.argument = passed;
      carried.next = AddBackwardArg(scope, function_->body().arg_type(passed));
      carried_.push_back(carried);
      return carried.next;
    }
    const DataType type = RemoveReference(value.dtype());
    if (type == kResource) {
      return errors::Unimplemented("function '", function_->name(), "': node '", value.node->name(),
                                   "' (", value.node->type(),
                                   ") gives a handle that the gradient needs, and that is not one "
                                   "of the loop's values");
    }
    carried.kept = value;
    carried.list = FindList(value);
    const Output list = AddBackwardArg(scope, kVariant);
    const std::vector<Output> popped =
        scope.CallMulti("TensorListPopBack", {list, -1}, {{"element_dtype", type}});
    TANDEM_RETURN_IF_ERROR(scope.status());
    carried.next = popped[0];
    carried_.push_back(carried);
    return popped[1];
  }

  // The value of the forward loop that holds `value`'s history already, because gradients were
  // added before; -1 when there is none.
  int FindList(const Output& value) {
    for (const Consumer& consumer : value.node->consumers()) {
      if (consumer.node->Is("EnsureShape")) {
        const int list = FindList(consumer.node->output(0));
        if (list >= 0) return list;
      }
      Node* const push = consumer.node;
      if (!push->Is("TensorListPushBack") || consumer.input != 1 ||
          consumer.output != value.index || !push->input(0).node->Is("_Arg")) {
        continue;
      }
      const int list = ArgIndex(*push->input(0).node);
      if (list < num_values_ && g_.input(list).node->Is("EmptyTensorList") &&
          function_->body().rets[static_cast<size_t>(list)]->input(0) == push->output(0)) {
        return list;
      }
    }
    return -1;
  }

  // Looks for a value of the forward loop that is 0 at first and grows by one each turn.
  absl::Status FindCounter() {
    for (int i = 0; i < num_values_ && counter_ < 0; ++i) {
      const absl::optional<Tensor> first = KnownValue(g_.input(i));
      if (!first.has_value() || first->dtype() != kInt32 || !first->shape().IsScalar() ||
          first->ScalarValue<int32_t>() != 0) {
        continue;
      }
      Output result = function_->body().rets[static_cast<size_t>(i)]->input(0);
      while (result.node->Is("Identity")) result = result.node->input(0);
      if (!result.node->Is("AddV2") && !result.node->Is("Add")) continue;
      const Output x = result.node->input(0);
      const Output y = result.node->input(1);
      if ((PassedArg(x) == i && IsOne(y)) || (PassedArg(y) == i && IsOne(x))) counter_ = i;
    }
    return absl::OkStatus();
  }

  // Adds the counter and the lists to the forward loop.
  absl::Status GrowForward() {
    FunctionBody& body = function_->body();
    const Scope scope = Scope::ForGraph(&body.graph).SubScope("history");
    std::vector<DataType> added;
    std::vector<Output> inputs;
    const auto add = [&](DataType type) {
      added.push_back(type);
      return FunctionArg(scope, num_values_ + static_cast<int>(added.size()) - 1, type);
    };
    const auto set_next = [&](const Output& value) {
      FunctionResult(scope, num_values_ + static_cast<int>(added.size()) - 1, value);
    };
    if (counter_ < 0) {
      counter_ = num_values_;
      set_next(scope.Call("AddV2", {add(kInt32), 1}));
      inputs.push_back(g_.Constant(Tensor::Scalar<int32_t>(0)));
    }
    for (Carried& carried : carried_) {
      if (carried.argument >= 0 || carried.list >= 0) continue;
      const DataType type = RemoveReference(carried.kept.dtype());
      carried.list = num_values_ + static_cast<int>(added.size());
      set_next(scope.Call("TensorListPushBack", {add(kVariant), carried.kept}));
      const Output unknown = g_.Constant(Tensor::Scalar<int32_t>(-1));
      inputs.push_back(g_.Call("EmptyTensorList", {unknown, unknown}, {{"element_dtype", type}}));
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    TANDEM_RETURN_IF_ERROR(g_.status());
    if (added.empty()) return absl::OkStatus();

    AttrMap attrs;
    TANDEM_ASSIGN_OR_RETURN(attrs["body"], function_->DefineForward());
    TANDEM_ASSIGN_OR_RETURN(attrs["cond"], ForwardCondition(added));
    std::vector<DataType> types = g_.Attr<std::vector<DataType>>("T");
    types.insert(types.end(), added.begin(), added.end());
    attrs["T"] = types;
    std::vector<PartialShape> shapes = g_.Attr<std::vector<PartialShape>>("output_shapes");
    if (!shapes.empty()) {
      shapes.resize(types.size(), PartialShape::Unknown());
      attrs["output_shapes"] = shapes;
    }
    return g_.graph().GrowNode(node_, inputs, std::move(attrs));
  }

  // The condition, with arguments of which it takes no notice.
  absl::StatusOr<FunctionRef> ForwardCondition(const std::vector<DataType>& added) {
    const FunctionRef& function = g_.Attr<FunctionRef>("cond");
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<FunctionBody> body,
                            InstantiateFunction(function, g_.graph().shared_functions()));
    const Scope scope = Scope::ForGraph(&body->graph).SubScope("history");
    for (size_t i = 0; i < added.size(); ++i) {
      FunctionArg(scope, num_values_ + static_cast<int>(i), added[i]);
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    return DefineNewFunction(absl::StrCat(function.name, "_forward"), body->graph,
                             body->control_rets);
  }

  absl::Status CallBackward() {
    std::vector<Output> inputs = {node_->output(counter_)};
    for (const int i : values_) {
      inputs.push_back(g_.HasOutputGradient(i) ? g_.OutputGradient(i)
                                               : Zeros(node_->output(i), node_->output(i).dtype()));
    }
    for (const int i : handles_) {
      const DataType type = types_[inputs.size()];
      inputs.push_back(g_.HasOutputGradient(i) ? g_.OutputGradient(i) : Zeros(g_.input(i), type));
    }
    for (const Carried& carried : carried_) {
      inputs.push_back(carried.argument >= 0 ? g_.input(carried.argument)
                                             : node_->output(carried.list));
    }
    AttrMap attrs;
    TANDEM_ASSIGN_OR_RETURN(
        attrs["body"], DefineNewFunction(absl::StrCat(function_->name(), "_backward"), *backward_));
    TANDEM_ASSIGN_OR_RETURN(attrs["cond"], BackwardCondition());
    attrs["parallel_iterations"] = g_.Attr<int64_t>("parallel_iterations");
    const std::vector<Output> results = g_.CallMulti(
        OpForFunctions(node_->type(), {backward_.get()}), std::move(inputs), std::move(attrs));
    TANDEM_RETURN_IF_ERROR(g_.status());
    size_t next = 1;
    for (const int i : values_) g_.SetInputGradient(i, results[next++]);
    for (const int i : handles_) g_.SetInputGradient(i, results[next++]);
    return absl::OkStatus();
  }

  absl::StatusOr<FunctionRef> BackwardCondition() {
    Graph graph(g_.graph().registry(), g_.graph().shared_functions());
    const Scope scope = Scope::ForGraph(&graph);
    Output turns;
    for (size_t i = 0; i < types_.size(); ++i) {
      const Output arg = FunctionArg(scope, static_cast<int>(i), types_[i]);
      if (i == 0) turns = arg;
    }
    FunctionResult(scope, 0, scope.Call("Greater", {turns, 0}));
    TANDEM_RETURN_IF_ERROR(scope.status());
    return DefineNewFunction(absl::StrCat(function_->name(), "_backward_condition"), graph);
  }

  // Zeros in the outer graph.
  Output Zeros(const Output& value, DataType type) {
    if (value.dtype() == kVariant) return g_.Call("ZerosLike", {value});
    const Output shape = g_.Call(value.dtype() == kResource ? "VariableShape" : "Shape", {value});
    return g_.Call("Fill", {shape, g_.Constant(Tensor::Zeros(type, Shape()))});
  }

  GradientContext& g_;
  Node* const node_;
  const int num_values_;      // Of the forward loop, before it grows.
  std::vector<int> values_;   // Those that have gradients, handles aside.
  std::vector<int> handles_;  // Handles of variables that the body reads.
  std::unique_ptr<DifferentiatedFunction> function_;
  std::unique_ptr<Graph> backward_;
  std::vector<DataType> types_;  // Of the backward loop's values.
  std::vector<Carried> carried_;
  int counter_ = -1;  // The forward loop's value that counts its turns.
};

}  // namespace

absl::Status AddLoopGradient(GradientContext& g) { return LoopDifferentiator(g).Run(); }

}  // namespace tandem
