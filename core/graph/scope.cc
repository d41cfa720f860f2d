#include "core/graph/scope.h"

#include <map>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/graph/literal.h"

namespace tandem {

struct Scope::Shared {
  std::unique_ptr<Graph> owned;  // Null for ForGraph.
  Graph* graph = nullptr;
  absl::Status status;
  // The paths of all scopes, with the last suffix that was tried for each.
  std::map<std::string, int> paths;
};

namespace {

std::string JoinPath(absl::string_view path, absl::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(path, "/", name);
}

// The arguments of `op` that a flat list of `count` inputs belongs to, and where in its argument
// each lies (-1: the argument is a single tensor). Shorter than `count` where the attributes do not
// tell the lengths.
struct Slot {
  const ArgDef* arg;
  int element;
};

std::vector<Slot> Slots(const OpDef& op, const AttrMap& attrs, size_t count) {
  const auto variadic = [](const ArgDef& arg) {
    return !arg.number_attr.empty() || !arg.type_list_attr.empty();
  };
  const bool one_variadic = absl::c_count_if(op.inputs, variadic) == 1;
  std::vector<Slot> slots;
  for (const ArgDef& arg : op.inputs) {
    if (!variadic(arg)) {
      slots.push_back({&arg, -1});
      continue;
    }
    size_t length = 0;
    const auto given = attrs.find(arg.number_attr.empty() ? arg.type_list_attr : arg.number_attr);
    if (given != attrs.end() && given->second.Get<int64_t>() != nullptr) {
      length = static_cast<size_t>(std::max<int64_t>(*given->second.Get<int64_t>(), 0));
    } else if (given != attrs.end() && given->second.Get<std::vector<DataType>>() != nullptr) {
      length = given->second.Get<std::vector<DataType>>()->size();
    } else if (one_variadic && count + 1 >= op.inputs.size()) {
      length = count + 1 - op.inputs.size();
    } else {
      return slots;
    }
    // More than there are inputs is an error that the graph will report.
    length = std::min(length, count - std::min(count, slots.size()));
    for (size_t i = 0; i < length; ++i) slots.push_back({&arg, static_cast<int>(i)});
  }
  return slots;
}

// What type each single type attribute has, as the attributes and the inputs with a type of their
// own say; numbers come last.
std::map<std::string, DataType> TypesOfAttrs(const std::vector<Slot>& slots,
                                             const InputList& inputs, const AttrMap& attrs) {
  std::map<std::string, DataType> types;
  for (const auto& [name, value] : attrs) {
    if (const auto* type = value.Get<DataType>()) types.emplace(name, *type);
  }
  for (const bool literals : {false, true}) {
    for (size_t i = 0; i < std::min(slots.size(), inputs.size()); ++i) {
      const std::string& attr = slots[i].arg->type_attr;
      if (attr.empty() || inputs[i].is_literal() != literals) continue;
      const DataType type =
          inputs[i].is_value() ? inputs[i].value().dtype() : inputs[i].output().dtype();
      types.emplace(attr, RemoveReference(type));
    }
  }
  return types;
}

DataType WantedType(const Slot& slot, const AttrMap& attrs,
                    const std::map<std::string, DataType>& types) {
  const ArgDef& arg = *slot.arg;
  if (!arg.type_list_attr.empty()) {
    const auto given = attrs.find(arg.type_list_attr);
    const auto* list = given == attrs.end() ? nullptr : given->second.Get<std::vector<DataType>>();
    return list != nullptr && static_cast<size_t>(slot.element) < list->size()
               ? (*list)[static_cast<size_t>(slot.element)]
               : DataType::kInvalid;
  }
  if (arg.type_attr.empty()) return arg.type;
  const auto type = types.find(arg.type_attr);
  return type == types.end() ? DataType::kInvalid : type->second;
}

}  // namespace

Input::Input(std::initializer_list<const char*> texts)
    : value_(kString, Shape({static_cast<int64_t>(texts.size())})) {
  std::string* next = value_.MutableElements<std::string>().data();
  for (const char* text : texts) *next++ = text;
}

Scope Scope::NewRoot(const OpRegistry& registry) {
  auto shared = std::make_shared<Shared>();
  shared->owned = std::make_unique<Graph>(registry);
  shared->graph = shared->owned.get();
  return Scope(std::move(shared));
}

Scope Scope::ForGraph(Graph* graph) {
  auto shared = std::make_shared<Shared>();
  shared->graph = graph;
  return Scope(std::move(shared));
}

Scope Scope::SubScope(absl::string_view name) const {
  Scope scope(*this);
  scope.op_name_.clear();
  if (name.empty()) return scope;
  const std::string base = JoinPath(path_, name);
  scope.path_ = base;
  while (!shared_->paths.emplace(scope.path_, 0).second) {
    scope.path_ = absl::StrCat(base, "_", ++shared_->paths[base]);
  }
  return scope;
}

Scope Scope::WithOpName(absl::string_view name) const {
  Scope scope(*this);
  scope.op_name_ = std::string(name);
  return scope;
}

Scope Scope::WithControlDependencies(absl::Span<Node* const> nodes) const {
  Scope scope(*this);
  absl::flat_hash_set<const Node*> known(control_dependencies_.begin(),
                                         control_dependencies_.end());
  for (Node* const node : nodes) {
    if (node == nullptr) {
      UpdateStatus(errors::InvalidArgument("scope '", path_, "': a control dependency is no node"));
    } else if (known.insert(node).second) {
      scope.control_dependencies_.push_back(node);
    }
  }
  return scope;
}

Scope Scope::WithoutControlDependencies() const {
  Scope scope(*this);
  scope.control_dependencies_.clear();
  return scope;
}

Scope Scope::WithDevice(absl::string_view device) const {
  Scope scope(*this);
  const absl::StatusOr<DeviceName> inner = DeviceName::Parse(device);
  const absl::StatusOr<DeviceName> outer = DeviceName::Parse(device_);
  if (!inner.ok()) {
    UpdateStatus(WithContext(inner.status(), absl::StrCat("scope '", path_, "'")));
  } else {
    scope.device_ = NestDevice(outer.value(), *inner).ToString();
  }
  return scope;
}

Scope Scope::ColocateWith(const Node* node) const {
  Scope scope(*this);
  if (node == nullptr) {
    UpdateStatus(errors::InvalidArgument("scope '", path_, "': there is no node to colocate with"));
  } else {
    scope.colocated_.push_back(absl::StrCat("loc:@", node->name()));
  }
  return scope;
}

std::string Scope::NodeName(absl::string_view name) const {
  return shared_->graph->UniqueName(JoinPath(path_, name));
}

Output Scope::AddConstant(std::string name, Tensor value) const {
  NodeSpec spec;
  spec.name = std::move(name);
  spec.op = "Const";
  spec.device = device_;
  spec.attrs.emplace("dtype", value.dtype());
  spec.attrs.emplace("value", std::move(value));
  const absl::StatusOr<Node*> node = shared_->graph->AddNode(std::move(spec));
  if (!node.ok()) {
    UpdateStatus(node.status());
    return Output();
  }
  return Output(*node, 0);
}

absl::StatusOr<std::vector<Output>> Scope::Resolve(const OpDef& op, const std::string& node_name,
                                                   const InputList& inputs,
                                                   const AttrMap& attrs) const {
  const std::string context = absl::StrCat("node '", node_name, "' (", op.name, ")");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_value()) continue;
    const Node* node = inputs[i].output().node;
    if (node == nullptr) {
      return errors::InvalidArgument(context, ": input ", i,
                                     inputs[i].is_literal()
                                         ? " is a matrix whose rows have different lengths"
                                         : " is not an output of any node");
    }
    if (inputs[i].output().index < 0 || inputs[i].output().index >= node->num_outputs()) {
      return errors::InvalidArgument(context, ": input ", i, " is output ",
                                     inputs[i].output().index, " of node '", node->name(),
                                     "', which has ", node->num_outputs());
    }
    if (node->id() >= graph()->id_limit() || graph()->node(node->id()) != node) {
      return errors::InvalidArgument(context, ": input ", i, ", '", node->name(),
                                     "', is a node of another graph");
    }
  }

  const std::vector<Slot> slots = Slots(op, attrs, inputs.size());
  const std::map<std::string, DataType> types = TypesOfAttrs(slots, inputs, attrs);
  std::vector<Output> outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_value()) {
      outputs.push_back(inputs[i].output());
      continue;
    }
    Tensor value = inputs[i].value();
    std::string name = absl::StrCat(node_name, "/Const");
    if (i < slots.size()) {
      name = absl::StrCat(node_name, "/", slots[i].arg->name);
      if (slots[i].element >= 0) absl::StrAppend(&name, "_", slots[i].element);
      const DataType wanted = WantedType(slots[i], attrs, types);
      if (inputs[i].is_literal() && wanted != DataType::kInvalid) {
        absl::StatusOr<Tensor> converted = ConvertLiteral(value, wanted);
        if (!converted.ok()) {
          return WithContext(converted.status(),
                             absl::StrCat(context, ": input ", i, " ('", slots[i].arg->name, "')"));
        }
        value = *std::move(converted);
      }
    }
    const Output constant = AddConstant(graph()->UniqueName(name), std::move(value));
    if (!constant.valid()) return status();
    outputs.push_back(constant);
  }
  return outputs;
}

Node* Scope::AddNode(absl::string_view op, const InputList& inputs, AttrMap attrs) const {
  if (!ok()) return nullptr;
  NodeSpec spec;
  spec.name = NodeName(op_name_.empty() ? op : absl::string_view(op_name_));
  spec.op = std::string(op);
  const absl::StatusOr<const OpDef*> def = graph()->registry().Get(op);
  if (!def.ok()) {
    UpdateStatus(WithContext(def.status(), absl::StrCat("node '", spec.name, "'")));
    return nullptr;
  }
  absl::StatusOr<std::vector<Output>> resolved = Resolve(**def, spec.name, inputs, attrs);
  if (!resolved.ok()) {
    UpdateStatus(resolved.status());
    return nullptr;
  }
  spec.inputs = *std::move(resolved);
  spec.control_inputs = control_dependencies_;
  spec.device = device_;
  spec.attrs = std::move(attrs);
  if (!colocated_.empty()) spec.attrs.emplace("_class", colocated_);
  const absl::StatusOr<Node*> node = graph()->AddNode(std::move(spec));
  if (!node.ok()) {
    UpdateStatus(node.status());
    return nullptr;
  }
  return *node;
}

Output Scope::Call(absl::string_view op, const InputList& inputs, AttrMap attrs) const {
  Node* const node = AddNode(op, inputs, std::move(attrs));
  if (node == nullptr) return Output();
  if (node->num_outputs() == 0) {
    UpdateStatus(errors::InvalidArgument("node '", node->name(), "' (", op,
                                         ") has no output that a call could return"));
    return Output();
  }
  return node->output(0);
}

std::vector<Output> Scope::CallMulti(absl::string_view op, const InputList& inputs,
                                     AttrMap attrs) const {
  std::vector<Output> outputs;
  Node* const node = AddNode(op, inputs, std::move(attrs));
  for (int i = 0; node != nullptr && i < node->num_outputs(); ++i) {
    outputs.push_back(node->output(i));
  }
  return outputs;
}

Output Scope::Constant(const Input& value) const {
  if (!ok()) return Output();
  const std::string name = NodeName(op_name_.empty() ? "Const" : absl::string_view(op_name_));
  if (!value.is_value()) {
    UpdateStatus(errors::InvalidArgument("node '", name, "' (Const): no value was given"));
    return Output();
  }
  return AddConstant(name, value.value());
}

const absl::Status& Scope::status() const { return shared_->status; }

void Scope::UpdateStatus(const absl::Status& status) const { shared_->status.Update(status); }

Graph* Scope::graph() const { return shared_->graph; }

namespace ops {

Output Const(const Scope& scope, const Input& value) { return scope.Constant(value); }

Output Const(const Scope& scope, const Input& value, DataType dtype) {
  if (!scope.ok() || !value.is_value()) return scope.Constant(value);
  absl::StatusOr<Tensor> converted = ConvertLiteral(value.value(), dtype);
  if (!converted.ok()) {
    scope.UpdateStatus(WithContext(converted.status(), "Const"));
    return Output();
  }
  return scope.Constant(*std::move(converted));
}

}  // namespace ops

}  // namespace tandem
