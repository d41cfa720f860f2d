#include "core/graph/graph.h"

#include <algorithm>
#include <queue>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/graph/known_values.h"
#include "core/graph/node_resolution.h"

namespace tandem {
namespace {

// TensorFlow's rule: letters, digits and "._\/>-"; the first is a letter, a digit or ".", or an
// underscore in names that the runtime makes.
absl::Status CheckName(absl::string_view name) {
  const auto inner = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("._\\/>-").find(c) != absl::string_view::npos;
  };
  const bool first_ok =
      !name.empty() && (absl::ascii_isalnum(static_cast<unsigned char>(name[0])) ||
                        name[0] == '.' || name[0] == '_');
  if (!first_ok || !absl::c_all_of(name, inner)) {
    return errors::InvalidArgument("'", name,
                                   "' is no name for a node: letters, digits and ._\\/>- are "
                                   "possible, and a letter, digit, '.' or '_' at the front");
  }
  return absl::OkStatus();
}

}  // namespace

DataType Output::dtype() const { return node->output_info(index).dtype; }
const PartialShape& Output::shape() const { return node->output_info(index).shape; }
std::string Output::name() const {
  return index == 0 ? node->name() : absl::StrCat(node->name(), ":", index);
}

bool IsBackEdge(const Node& from, const Node& to) {
  return (from.Is("NextIteration") || from.Is("RefNextIteration")) &&
         (to.Is("Merge") || to.Is("RefMerge"));
}

absl::Status WithNode(const absl::Status& status, const Node& node) {
  const std::string context = absl::StrCat("node '", node.name(), "' (", node.type(), ")");
  if (status.ok() || absl::StrContains(status.message(), context)) return status;
  return WithContext(status, context);
}

Graph::Graph(const OpRegistry& registry) : Graph(registry, std::make_shared<FunctionLibrary>()) {}

Graph::Graph(const OpRegistry& registry, std::shared_ptr<FunctionLibrary> functions)
    : registry_(&registry), functions_(std::move(functions)) {}

absl::StatusOr<Node*> Graph::AddNode(NodeSpec spec) {
  TANDEM_RETURN_IF_ERROR(CheckName(spec.name));
  if (by_name_.contains(spec.name)) {
    return errors::AlreadyExists("node '", spec.name, "' exists already in this graph");
  }
  const std::string context = absl::StrCat("node '", spec.name, "' (", spec.op, ")");
  absl::StatusOr<const OpDef*> op = registry_->Get(spec.op);
  if (!op.ok()) return WithContext(op.status(), absl::StrCat("node '", spec.name, "'"));

  const auto is_ours = [this](const Node* node) {
    return node->id() < id_limit() && this->node(node->id()) == node;
  };
  std::vector<DataType> input_types;
  for (const Output& input : spec.inputs) {
    if (!input.valid() || input.index < 0 || input.index >= input.node->num_outputs()) {
      return errors::InvalidArgument(
          context, ": input ", input_types.size(),
          input.valid() ? absl::StrCat(" is output ", input.index, " of node '", input.node->name(),
                                       "', which has ", input.node->num_outputs())
                        : " is not an output of any node");
    }
    if (!is_ours(input.node)) {
      return errors::InvalidArgument(context, ": input ", input_types.size(), ", '",
                                     input.node->name(), "', is a node of another graph");
    }
    input_types.push_back(input.dtype());
  }
  for (const Node* control : spec.control_inputs) {
    if (control == nullptr || !is_ours(control)) {
      return errors::InvalidArgument(
          context, ": the control input ",
          control == nullptr ? std::string("is no node")
                             : absl::StrCat("'", control->name(), "' is a node of another graph"));
    }
  }
  ResolvedNode resolved;
  const absl::Status status =
      ResolveNode(**op, std::move(spec.attrs), input_types, spec.first_missing_input, &resolved);
  if (!status.ok()) return WithContext(status, context);

  auto node = std::make_unique<Node>();
  node->id_ = id_limit();
  node->name_ = spec.name;
  node->op_ = *op;
  node->attrs_ = std::move(resolved.attrs);
  node->input_types_ = std::move(resolved.input_types);
  node->inputs_.resize(node->input_types_.size());
  node->edge_positions_.resize(node->input_types_.size());
  for (const DataType type : resolved.output_types) {
    node->outputs_.push_back(OutputInfo{type, PartialShape::Unknown(), {}});
  }
  node->requested_device_ = std::move(spec.device);

  Node* added = node.get();
  nodes_.push_back(std::move(node));
  by_name_.emplace(added->name_, added);
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    Connect(added, static_cast<int>(i), spec.inputs[i]);
  }
  for (Node* control : spec.control_inputs) AddControlEdge(control, added);
  const absl::Status shapes = InferShape(added);
  if (!shapes.ok()) {
    RemoveNode(added);
    // The id was handed to nobody, so that it may be used again.
    nodes_.pop_back();
    return shapes;
  }
  return added;
}

void Graph::RemoveNode(Node* node) {
  for (int i = 0; i < node->num_inputs(); ++i) Disconnect(node, i);
  while (!node->control_inputs_.empty()) RemoveControlEdge(node->control_inputs_.back(), node);
  by_name_.erase(node->name_);
  nodes_[static_cast<size_t>(node->id_)].reset();
}

void Graph::RemoveNodes(absl::Span<Node* const> nodes) {
  std::vector<bool> removed(nodes_.size(), false);
  for (const Node* node : nodes) removed[static_cast<size_t>(node->id_)] = true;
  // Every node that stays and loses consumers is filtered once.
  std::vector<bool> filtered(nodes_.size(), false);
  const auto filter = [&](Node* source) {
    const size_t id = static_cast<size_t>(source->id_);
    if (removed[id] || filtered[id]) return;
    filtered[id] = true;
    size_t kept = 0;
    for (const Consumer& consumer : source->consumers_) {
      if (removed[static_cast<size_t>(consumer.node->id_)]) continue;
      if (consumer.input != Consumer::kControl) {
        consumer.node->edge_positions_[static_cast<size_t>(consumer.input)] = kept;
      }
      source->consumers_[kept++] = consumer;
    }
    source->consumers_.erase(source->consumers_.begin() + static_cast<std::ptrdiff_t>(kept),
                             source->consumers_.end());
  };
  for (Node* node : nodes) {
    for (const Output& input : node->inputs_) {
      if (input.valid()) filter(input.node);
    }
    for (Node* control : node->control_inputs_) filter(control);
  }
  for (Node* node : nodes) {
    by_name_.erase(node->name_);
    nodes_[static_cast<size_t>(node->id_)].reset();
  }
}

void Graph::Connect(Node* node, int i, Output source) {
  node->inputs_[static_cast<size_t>(i)] = source;
  node->edge_positions_[static_cast<size_t>(i)] = source.node->consumers_.size();
  source.node->consumers_.push_back(Consumer{node, i, source.index});
}

void Graph::EraseConsumer(Node* node, size_t position) {
  const Consumer last = node->consumers_.back();
  node->consumers_.pop_back();
  if (position == node->consumers_.size()) return;
  node->consumers_[position] = last;
  if (last.input != Consumer::kControl) {
    last.node->edge_positions_[static_cast<size_t>(last.input)] = position;
  }
}

void Graph::Disconnect(Node* node, int i) {
  Output& source = node->inputs_[static_cast<size_t>(i)];
  if (!source.valid()) return;
  EraseConsumer(source.node, node->edge_positions_[static_cast<size_t>(i)]);
  source = Output();
}

absl::Status Graph::SetInput(Node* node, int i, Output source) {
  if (!TypesFit(source.dtype(), node->input_dtype(i))) {
    return errors::InvalidArgument("node '", node->name(), "' (", node->type(), "): input ", i,
                                   " shall be '", source.name(), "' of type ",
                                   DataTypeName(source.dtype()), "; ",
                                   DataTypeName(node->input_dtype(i)), " is wanted");
  }
  Disconnect(node, i);
  Connect(node, i, source);
  return absl::OkStatus();
}

void Graph::AddControlEdge(Node* from, Node* to) {
  // The shorter list of the two is searched: a barrier has many inputs, a variable many consumers,
  // but hardly ever is the edge between two such nodes.
  if (to->control_inputs_.size() <= from->consumers_.size()) {
    if (absl::c_linear_search(to->control_inputs_, from)) return;
  } else if (absl::c_any_of(from->consumers_, [&](const Consumer& c) {
               return c.node == to && c.input == Consumer::kControl;
             })) {
    return;
  }
  to->control_inputs_.push_back(from);
  from->consumers_.push_back(Consumer{to, Consumer::kControl, Consumer::kControl});
}

void Graph::RemoveControlEdge(Node* from, Node* to) {
  const auto control = absl::c_find(to->control_inputs_, from);
  if (control == to->control_inputs_.end()) return;
  to->control_inputs_.erase(control);
  // From the back: nodes go in the opposite order of their coming when an import is undone, and the
  // edge is then the last one.
  const auto& consumers = from->consumers_;
  const auto edge = std::find_if(consumers.rbegin(), consumers.rend(), [&](const Consumer& c) {
    return c.node == to && c.input == Consumer::kControl;
  });
  EraseConsumer(from, static_cast<size_t>(consumers.rend() - edge) - 1);
}

absl::Status Graph::ReplaceOutput(Output from, Output to) {
  std::vector<Consumer> moved;
  for (const Consumer& consumer : from.node->consumers_) {
    if (consumer.input == Consumer::kControl || consumer.output != from.index) continue;
    if (!TypesFit(to.dtype(), consumer.node->input_dtype(consumer.input))) {
      return errors::InvalidArgument(
          "node '", consumer.node->name(), "' (", consumer.node->type(), "): input ",
          consumer.input, " shall be '", to.name(), "' of type ", DataTypeName(to.dtype()), "; ",
          DataTypeName(consumer.node->input_dtype(consumer.input)), " is wanted");
    }
    moved.push_back(consumer);
  }
  for (const Consumer& consumer : moved) {
    Disconnect(consumer.node, consumer.input);
    Connect(consumer.node, consumer.input, to);
  }
  return absl::OkStatus();
}

void Graph::MoveControlConsumers(Node* from, Node* to) {
  std::vector<Consumer> kept;
  std::vector<Node*> moved;
  for (const Consumer& consumer : from->consumers_) {
    if (consumer.input == Consumer::kControl) {
      moved.push_back(consumer.node);
      continue;
    }
    consumer.node->edge_positions_[static_cast<size_t>(consumer.input)] = kept.size();
    kept.push_back(consumer);
  }
  from->consumers_ = std::move(kept);
  for (Node* node : moved) {
    node->control_inputs_.erase(absl::c_find(node->control_inputs_, from));
    if (node != to) AddControlEdge(to, node);
  }
}

absl::Status Graph::GrowNode(Node* node, const std::vector<Output>& more_inputs, AttrMap attrs) {
  attrs.insert(node->attrs_.begin(), node->attrs_.end());
  std::vector<DataType> sources(node->input_types_);
  for (const Output& input : more_inputs) {
    if (!input.valid()) {
      return WithNode(errors::InvalidArgument("a new input is not an output of any node"), *node);
    }
    sources.push_back(input.dtype());
  }
  ResolvedNode resolved;
  TANDEM_RETURN_IF_ERROR(
      WithNode(ResolveNode(*node->op_, std::move(attrs), sources, -1, &resolved), *node));
  bool keeps = resolved.output_types.size() >= node->outputs_.size();
  for (size_t i = 0; keeps && i < node->outputs_.size(); ++i) {
    keeps = resolved.output_types[i] == node->outputs_[i].dtype;
  }
  if (!keeps) {
    return WithNode(errors::InvalidArgument("its outputs would not stay as they are"), *node);
  }
  const size_t old_inputs = node->inputs_.size();
  const size_t old_outputs = node->outputs_.size();
  std::swap(node->attrs_, resolved.attrs);
  std::swap(node->input_types_, resolved.input_types);
  node->inputs_.resize(sources.size());
  node->edge_positions_.resize(sources.size());
  for (size_t i = 0; i < more_inputs.size(); ++i) {
    Connect(node, static_cast<int>(old_inputs + i), more_inputs[i]);
  }
  for (size_t i = old_outputs; i < resolved.output_types.size(); ++i) {
    node->outputs_.push_back(OutputInfo{resolved.output_types[i], PartialShape::Unknown(), {}});
  }
  absl::Status shapes = InferShape(node);
  if (shapes.ok()) return shapes;
  for (size_t i = old_inputs; i < sources.size(); ++i) Disconnect(node, static_cast<int>(i));
  node->inputs_.resize(old_inputs);
  node->edge_positions_.resize(old_inputs);
  node->outputs_.resize(old_outputs);
  std::swap(node->attrs_, resolved.attrs);
  std::swap(node->input_types_, resolved.input_types);
  return shapes;
}

void Graph::SwapNames(Node* a, Node* b) {
  std::swap(a->name_, b->name_);
  by_name_[a->name_] = a;
  by_name_[b->name_] = b;
}

void Graph::SetAttr(Node* node, absl::string_view name, AttrValue value) {
  node->attrs_[std::string(name)] = std::move(value);
}

absl::Status Graph::InferShape(Node* node) {
  static const OutputInfo* nothing = new OutputInfo;
  std::vector<const OutputInfo*> inputs;
  for (const Output& input : node->inputs_) {
    inputs.push_back(input.valid() ? &input.node->outputs_[static_cast<size_t>(input.index)]
                                   : nothing);
  }
  std::vector<OutputInfo> outputs;
  for (const OutputInfo& output : node->outputs_) {
    outputs.push_back(OutputInfo{output.dtype, PartialShape::Unknown(), {}});
  }
  ShapeContext::Values values;
  values.constant = [node](int i) { return KnownValue(node->input(i)); };
  values.as_shape = [node](int i) { return KnownShapeValue(node->input(i)); };
  ShapeContext context(*node->op_, node->attrs_, std::move(inputs), std::move(values), &outputs);
  TANDEM_RETURN_IF_ERROR(WithNode(node->op_->shape(context), *node));
  node->outputs_ = std::move(outputs);
  return absl::OkStatus();
}

Node* Graph::FindNode(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

absl::StatusOr<Node*> Graph::GetNode(absl::string_view name) const {
  if (Node* node = FindNode(name)) return node;
  std::vector<std::string> names;
  for (const auto& entry : by_name_) names.push_back(entry.first);
  absl::c_sort(names);
  return errors::NotFound("there is no node '", name, "' in the graph", DidYouMean(name, names));
}

absl::StatusOr<Output> Graph::GetOutput(absl::string_view text) const {
  absl::string_view name = text;
  int index = 0;
  if (absl::ConsumePrefix(&name, "^")) {
    index = Consumer::kControl;
  } else if (const size_t colon = name.rfind(':'); colon != absl::string_view::npos) {
    if (!absl::SimpleAtoi(name.substr(colon + 1), &index) || index < 0) {
      return errors::InvalidArgument("'", text, "' is not of the form 'node' or 'node:output'");
    }
    name = name.substr(0, colon);
  }
  TANDEM_ASSIGN_OR_RETURN(Node* const node, GetNode(name));
  if (index >= node->num_outputs()) {
    return errors::InvalidArgument("'", text, "': node '", node->name(), "' (", node->type(),
                                   ") has ", node->num_outputs(), " outputs");
  }
  return Output(node, index);
}

std::string Graph::UniqueName(absl::string_view base) {
  std::string name(base);
  int& suffix = name_suffixes_[name];
  while (by_name_.contains(name)) name = absl::StrCat(base, "_", ++suffix);
  return name;
}

std::vector<Node*> Graph::nodes() const {
  std::vector<Node*> list;
  list.reserve(by_name_.size());
  for (const auto& node : nodes_) {
    if (node != nullptr) list.push_back(node.get());
  }
  return list;
}

absl::StatusOr<std::vector<Node*>> Graph::TopologicalOrder() const {
  std::vector<int> pending(nodes_.size(), 0);
  // The least id first, so that the order depends on the graph alone.
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  const std::vector<Node*> all = nodes();
  for (const Node* node : all) {
    int count = static_cast<int>(node->control_inputs_.size());
    for (const Output& input : node->inputs_) {
      if (input.valid() && !IsBackEdge(*input.node, *node)) ++count;
    }
    pending[static_cast<size_t>(node->id())] = count;
    if (count == 0) ready.push(node->id());
  }
  std::vector<Node*> order;
  order.reserve(all.size());
  while (!ready.empty()) {
    Node* const next = node(ready.top());
    ready.pop();
    order.push_back(next);
    for (const Consumer& consumer : next->consumers_) {
      if (consumer.input != Consumer::kControl && IsBackEdge(*next, *consumer.node)) continue;
      if (--pending[static_cast<size_t>(consumer.node->id())] == 0) {
        ready.push(consumer.node->id());
      }
    }
  }
  if (order.size() == all.size()) return order;

  // What is left waits for itself. Walking back through nodes that wait finds a cycle.
  Node* at = nullptr;
  for (Node* node : all) {
    if (pending[static_cast<size_t>(node->id())] > 0) at = node;
  }
  std::vector<Node*> path;
  while (!absl::c_linear_search(path, at)) {
    path.push_back(at);
    const auto waits = [&](const Node* node) {
      return pending[static_cast<size_t>(node->id())] > 0;
    };
    Node* previous = nullptr;
    for (const Output& input : at->inputs_) {
      if (input.valid() && waits(input.node) && !IsBackEdge(*input.node, *at)) {
        previous = input.node;
      }
    }
    for (Node* control : at->control_inputs_) {
      if (previous == nullptr && waits(control)) previous = control;
    }
    at = previous;
  }
  std::vector<std::string> names;
  for (auto node = absl::c_find(path, at); node != path.end(); ++node) {
    names.push_back((*node)->name());
  }
  std::reverse(names.begin(), names.end());
  constexpr size_t kShown = 8;
  const size_t length = names.size();
  if (length > kShown) names.resize(kShown);
  return errors::InvalidArgument("the graph has a cycle of ", length,
                                 " nodes: ", absl::StrJoin(names, " -> "),
                                 length > kShown ? " -> …" : "", " -> ", names.front());
}

Graph Graph::Clone() const {
  Graph copy(*registry_, functions_);
  copy.nodes_.resize(nodes_.size());
  for (const auto& node : nodes_) {
    if (node == nullptr) continue;
    auto& target = copy.nodes_[static_cast<size_t>(node->id_)];
    target = std::make_unique<Node>(*node);
    copy.by_name_.emplace(target->name_, target.get());
  }
  const auto translate = [&](Node* node) {
    return node == nullptr ? nullptr : copy.node(node->id_);
  };
  for (const auto& node : copy.nodes_) {
    if (node == nullptr) continue;
    for (Output& input : node->inputs_) input.node = translate(input.node);
    for (Node*& control : node->control_inputs_) control = translate(control);
    for (Consumer& consumer : node->consumers_) consumer.node = translate(consumer.node);
  }
  copy.name_suffixes_ = name_suffixes_;
  return copy;
}

}  // namespace tandem
