#include "core/op/gradients.h"

#include <functional>
#include <queue>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// Types through which gradients flow. Handles and variants carry them to what they lead to.
bool CarriesGradient(DataType type) {
  const DataType value = RemoveReference(type);
  return IsFloating(value) || IsComplex(value) || value == kResource || value == kVariant;
}

// Adds nodes one by one under a name; keeps the first error.
class Builder {
 public:
  Builder(Graph* graph, std::string scope, std::string device)
      : graph_(graph), scope_(std::move(scope)), device_(std::move(device)) {}

  Output Call(const std::string& op, std::vector<Output> inputs, AttrMap attrs = {}) {
    if (!status_.ok()) return Output();
    NodeSpec spec;
    spec.name = graph_->UniqueName(absl::StrCat(scope_, "/", op));
    spec.op = op;
    spec.inputs = std::move(inputs);
    spec.attrs = std::move(attrs);
    spec.device = device_;
    absl::StatusOr<Node*> node = graph_->AddNode(std::move(spec));
    if (node.ok()) return (*node)->output(0);
    status_ = node.status();
    return Output();
  }
  Output Constant(Tensor value) {
    const DataType dtype = value.dtype();
    return Call("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
  }
  const absl::Status& status() const { return status_; }

 private:
  Graph* const graph_;
  const std::string scope_;
  const std::string device_;
  absl::Status status_;
};

class Differentiator {
 public:
  Differentiator(Graph* graph, const GradientOptions& options) : graph_(graph), options_(options) {}

  absl::StatusOr<std::vector<Gradient>> Run(const std::vector<Output>& ys,
                                            const std::vector<Output>& xs) {
    if (!options_.output_gradients.empty() && options_.output_gradients.size() != ys.size()) {
      return errors::InvalidArgument(options_.output_gradients.size(), " gradients were given for ",
                                     ys.size(), " outputs");
    }
    for (const auto* outputs : {&ys, &xs, &options_.output_gradients, &options_.stop_at}) {
      for (const Output& output : *outputs) {
        if (!output.valid()) {
          return errors::InvalidArgument("an output that gradients are asked for does not exist");
        }
        if (output.node->id() >= graph_->id_limit() ||
            graph_->node(output.node->id()) != output.node) {
          return errors::InvalidArgument("gradients are asked for '", output.name(),
                                         "', which is an output of another graph");
        }
      }
    }
    for (const Output& stop : options_.stop_at) stops_.insert(stop);
    // Gradient functions add nodes while we walk; only those of the forward pass are walked.
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, InOrder(FindBetween(ys, xs)));
    for (size_t i = 0; i < ys.size(); ++i) TANDEM_RETURN_IF_ERROR(Seed(ys[i], i));
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      TANDEM_RETURN_IF_ERROR(Step(*node));
    }
    std::vector<Gradient> results;
    for (const Output& x : xs) {
      TANDEM_ASSIGN_OR_RETURN(Gradient gradient, Total(x));
      results.push_back(gradient);
    }
    return results;
  }

 private:
  bool IsBetween(const Node& node) const {
    return static_cast<size_t>(node.id()) < between_.size() &&
           between_[static_cast<size_t>(node.id())];
  }

  // Marks the nodes through which a gradient may flow, and returns them: those that depend on an x
  // and on which a y depends.
  std::vector<Node*> FindBetween(const std::vector<Output>& ys, const std::vector<Output>& xs) {
    const size_t limit = static_cast<size_t>(graph_->id_limit());
    std::vector<bool> from_x(limit, false);
    std::vector<Node*> stack;
    // From an x on, not through its own node: what lies behind it does not matter.
    for (const Output& x : xs) {
      for (const Consumer& consumer : x.node->consumers()) {
        if (consumer.input != Consumer::kControl && consumer.output == x.index) {
          stack.push_back(consumer.node);
        }
      }
    }
    while (!stack.empty()) {
      Node* const node = stack.back();
      stack.pop_back();
      if (from_x[static_cast<size_t>(node->id())]) continue;
      from_x[static_cast<size_t>(node->id())] = true;
      for (const Consumer& consumer : node->consumers()) {
        if (consumer.input == Consumer::kControl) continue;
        if (CarriesGradient(node->output_info(consumer.output).dtype) &&
            !stops_.contains(node->output(consumer.output))) {
          stack.push_back(consumer.node);
        }
      }
    }
    between_.assign(limit, false);
    std::vector<Node*> between;
    for (const Output& y : ys) stack.push_back(y.node);
    while (!stack.empty()) {
      Node* const node = stack.back();
      stack.pop_back();
      const size_t id = static_cast<size_t>(node->id());
      if (between_[id] || !from_x[id]) continue;
      between_[id] = true;
      between.push_back(node);
      for (const Output& input : node->inputs()) {
        if (input.valid()) stack.push_back(input.node);
      }
    }
    return between;
  }

  // The nodes so that each comes after those it depends on, with the least id first where there is
  // a choice, as in Graph::TopologicalOrder. Its cost is that of the nodes between: a graph of many
  // replicas is differentiated once for each, and the whole of it cannot be put in order each time.
  absl::StatusOr<std::vector<Node*>> InOrder(const std::vector<Node*>& between) {
    const auto waits_for = [this](const Node& node, const Output& input) {
      return input.valid() && IsBetween(*input.node) && !IsBackEdge(*input.node, node);
    };
    absl::flat_hash_map<const Node*, int> pending;
    std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
    for (const Node* node : between) {
      const auto count = absl::c_count_if(
          node->inputs(), [&](const Output& input) { return waits_for(*node, input); });
      if (count == 0) ready.push(node->id());
      pending[node] = static_cast<int>(count);
    }
    std::vector<Node*> order;
    while (!ready.empty()) {
      Node* const node = graph_->node(ready.top());
      ready.pop();
      order.push_back(node);
      for (const Consumer& consumer : node->consumers()) {
        if (consumer.input == Consumer::kControl || !IsBetween(*consumer.node)) continue;
        if (IsBackEdge(*node, *consumer.node)) continue;
        if (--pending[consumer.node] == 0) ready.push(consumer.node->id());
      }
    }
    if (order.size() == between.size()) return order;
    // A cycle, which this names.
    TANDEM_RETURN_IF_ERROR(graph_->TopologicalOrder().status());
    return errors::Internal("the nodes between have no order");
  }

  absl::Status Seed(const Output& y, size_t i) {
    const DataType dtype = RemoveReference(y.dtype());
    const bool is_given = !options_.output_gradients.empty();
    const bool is_number = IsFloating(dtype) || IsComplex(dtype);
    // The gradient of a list is a list, and that of a variable's handle is like the variable's
    // value: they can be given, but there are no ones to begin with.
    if (!is_number && !(is_given && CarriesGradient(dtype))) {
      return errors::InvalidArgument("'", y.name(), "' is ", DataTypeName(dtype),
                                     " and has no gradient; it must be floating or complex");
    }
    Output seed;
    if (is_given) {
      seed = options_.output_gradients[i];
      const DataType given = RemoveReference(seed.dtype());
      const bool fits = dtype == kResource
                            ? IsFloating(given) || IsComplex(given)
                            : given == dtype && seed.shape().IsCompatibleWith(y.shape());
      if (!fits) {
        return errors::InvalidArgument("the gradient '", seed.name(), "' (",
                                       DataTypeName(seed.dtype()), seed.shape().DebugString(),
                                       ") does not fit '", y.name(), "' (", DataTypeName(dtype),
                                       y.shape().DebugString(), ")");
      }
    } else {
      Builder builder(graph_, absl::StrCat("gradients/", y.node->name()),
                      y.node->requested_device());
      seed = builder.Call("OnesLike", {y});
      TANDEM_RETURN_IF_ERROR(builder.status());
    }
    gradients_[y].push_back(seed);
    return absl::OkStatus();
  }

  // The whole gradient of an output, once all its consumers were visited.
  absl::StatusOr<Gradient> Total(const Output& output) {
    const auto found = gradients_.find(output);
    if (found == gradients_.end()) return Gradient();
    std::vector<Gradient>& parts = found->second;
    if (parts.size() > 1) {
      TANDEM_ASSIGN_OR_RETURN(
          Gradient sum, SumGradients(graph_, parts, absl::StrCat("gradients/", output.node->name()),
                                     output.node->requested_device()));
      parts = {sum};
    }
    return parts[0];
  }

  absl::Status Step(Node* node) {
    std::vector<Gradient> output_gradients;
    bool any = false;
    for (int i = 0; i < node->num_outputs(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(Gradient gradient, Total(node->output(i)));
      if (stops_.contains(node->output(i))) gradient = Gradient();
      any = any || gradient.exists();
      output_gradients.push_back(gradient);
    }
    if (!any || node->num_inputs() == 0) return absl::OkStatus();
    const OpDef& op = node->op();
    if (op.differentiability == Differentiability::kNotDifferentiable) return absl::OkStatus();
    if (op.gradient == nullptr) {
      return errors::Unimplemented("node '", node->name(), "': op ", op.name,
                                   " has no gradient, but lies between what is differentiated "
                                   "and what it is differentiated by");
    }
    // A gradient function may put another node in this one's place (If and While give out more).
    const std::vector<Output> inputs(node->inputs().begin(), node->inputs().end());
    GradientContext context(graph_, node, std::move(output_gradients),
                            absl::StrCat("gradients/", node->name()));
    TANDEM_RETURN_IF_ERROR(WithNode(op.gradient(context), *node));
    TANDEM_RETURN_IF_ERROR(context.status());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Gradient& gradient = context.input_gradients()[i];
      if (!gradient.exists()) continue;
      const PartialShape& shape = inputs[i].shape();
      if (!gradient.is_sparse() && IsFloating(RemoveReference(inputs[i].dtype())) &&
          !shape.IsCompatibleWith(gradient.values.shape())) {
        return errors::Internal("the gradient of node '", node->name(), "' (", op.name,
                                ") gives its input ", i, " of shape ", shape.DebugString(),
                                " a gradient of shape ", gradient.values.shape().DebugString());
      }
      gradients_[inputs[i]].push_back(gradient);
    }
    return absl::OkStatus();
  }

  Graph* const graph_;
  const GradientOptions& options_;
  absl::flat_hash_set<Output> stops_;
  std::vector<bool> between_;
  // The parts that came so far. Looked up only, never iterated over.
  absl::flat_hash_map<Output, std::vector<Gradient>> gradients_;
};

}  // namespace

absl::StatusOr<std::vector<Gradient>> AddGradients(Graph* graph, const std::vector<Output>& ys,
                                                   const std::vector<Output>& xs,
                                                   const GradientOptions& options) {
  return Differentiator(graph, options).Run(ys, xs);
}

absl::StatusOr<Gradient> SumGradients(Graph* graph, const std::vector<Gradient>& gradients,
                                      const std::string& scope, const std::string& device) {
  Builder builder(graph, scope, device);
  std::vector<Gradient> parts;
  bool all_sparse = true;
  for (const Gradient& gradient : gradients) {
    if (!gradient.exists()) continue;
    parts.push_back(gradient);
    all_sparse = all_sparse && gradient.is_sparse();
  }
  if (parts.empty()) return Gradient();
  if (parts.size() == 1) return parts[0];
  if (all_sparse) {
    std::vector<Output> values;
    std::vector<Output> indices;
    for (const Gradient& part : parts) {
      values.push_back(part.values);
      // Parts may count their rows in different types; the wider one serves all.
      indices.push_back(part.indices.dtype() == kInt64
                            ? part.indices
                            : builder.Call("Cast", {part.indices}, {{"DstT", kInt64}}));
    }
    const Output axis = builder.Constant(Tensor::Scalar<int32_t>(0));
    values.push_back(axis);
    indices.push_back(axis);
    const Output shape = parts[0].dense_shape.dtype() == kInt64
                             ? parts[0].dense_shape
                             : builder.Call("Cast", {parts[0].dense_shape}, {{"DstT", kInt64}});
    const Gradient sum(builder.Call("ConcatV2", std::move(values)),
                       builder.Call("ConcatV2", std::move(indices)), shape);
    TANDEM_RETURN_IF_ERROR(builder.status());
    return sum;
  }
  std::vector<Output> dense;
  for (const Gradient& part : parts) {
    dense.push_back(Densify(builder, part));
  }
  const Output sum = dense.size() == 2 && IsFloating(RemoveReference(dense[0].dtype()))
                         ? builder.Call("AddV2", std::move(dense))
                         : builder.Call("AddN", std::move(dense));
  TANDEM_RETURN_IF_ERROR(builder.status());
  return Gradient(sum);
}

}  // namespace tandem
