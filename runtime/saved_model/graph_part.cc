#include "runtime/saved_model/graph_part.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

bool IsPrivate(const std::string& attr) { return absl::StartsWith(attr, "_"); }

// "node:0" and "node" are one tensor.
std::string FullName(absl::string_view tensor) {
  return absl::StrContains(tensor, ':') ? std::string(tensor) : absl::StrCat(tensor, ":0");
}

void AddFunctionsOf(const tensorflow::NameAttrList& function, std::set<std::string>& functions);

void AddFunctionsOf(const tensorflow::AttrValue& value, std::set<std::string>& functions) {
  if (value.has_func()) AddFunctionsOf(value.func(), functions);
  for (const tensorflow::NameAttrList& function : value.list().func()) {
    AddFunctionsOf(function, functions);
  }
}

// As deep as the message, whose depth the parser limits.
void AddFunctionsOf(const tensorflow::NameAttrList& function, std::set<std::string>& functions) {
  functions.insert(function.name());
  for (const auto& [name, value] : function.attr()) AddFunctionsOf(value, functions);
}

int NumDataInputs(const tensorflow::NodeDef& node) {
  int count = 0;
  for (const std::string& input : node.input()) count += absl::StartsWith(input, "^") ? 0 : 1;
  return count;
}

}  // namespace

void AddCalledFunctions(const tensorflow::NodeDef& node, std::set<std::string>* functions) {
  for (const auto& [name, value] : node.attr()) {
    if (!IsPrivate(name)) AddFunctionsOf(value, *functions);
  }
}

absl::string_view NodeOfInput(absl::string_view input) {
  absl::ConsumePrefix(&input, "^");
  return input.substr(0, input.find(':'));
}

void GraphPart::Add(const GraphPart& other) {
  nodes.insert(other.nodes.begin(), other.nodes.end());
  functions.insert(other.functions.begin(), other.functions.end());
  given.insert(other.given.begin(), other.given.end());
}

std::string MissingOpsText(const MissingOps& missing) {
  return absl::StrJoin(missing, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, " (", entry.second, entry.second == 1 ? " node)" : " nodes)");
  });
}

absl::StatusOr<GraphParts> GraphParts::Create(const tensorflow::GraphDef& graph,
                                              const tensorflow::OpList& ops,
                                              const OpRegistry& registry) {
  GraphParts parts(graph, registry);
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!parts.by_name_.emplace(graph.node(i).name(), i).second) {
      return errors::InvalidArgument("two nodes of the graph have the name '", graph.node(i).name(),
                                     "'");
    }
  }
  TANDEM_RETURN_IF_ERROR(parts.AddFunctions(ops));
  return parts;
}

absl::Status GraphParts::AddFunctions(const tensorflow::OpList& ops) {
  for (const tensorflow::OpDef& op : ops.op()) producer_ops_.emplace(op.name(), &op);
  for (const tensorflow::FunctionDef& function : graph_->library().function()) {
    if (!bodies_.emplace(function.signature().name(), Body{&function, {}, {}, {}}).second) {
      return errors::InvalidArgument("two functions of the graph have the name '",
                                     function.signature().name(), "'");
    }
  }
  for (auto& [name, body] : bodies_) {
    const absl::Status status = ReadBody(body);
    if (!status.ok()) return WithContext(status, absl::StrCat("function '", name, "'"));
  }
  return absl::OkStatus();
}

bool GraphParts::IsStateful(const std::string& op) const {
  if (const OpDef* known = registry_->Find(op)) return known->is_stateful;
  if (const auto body = bodies_.find(op); body != bodies_.end()) {
    return body->second.def->signature().is_stateful();
  }
  const auto producer = producer_ops_.find(op);
  return producer != producer_ops_.end() && producer->second->is_stateful();
}

bool GraphParts::IsMissing(const std::string& op) const {
  return registry_->Find(op) == nullptr && bodies_.count(op) == 0;
}

void GraphParts::AddCalls(const tensorflow::NodeDef& node, std::set<std::string>& functions) const {
  if (bodies_.count(node.op()) != 0) functions.insert(node.op());
  AddCalledFunctions(node, &functions);
}

absl::Status GraphParts::ReadBody(Body& body) const {
  const tensorflow::FunctionDef& def = *body.def;
  absl::flat_hash_map<absl::string_view, int> by_name;
  std::vector<int> stack;
  std::vector<bool> needed(static_cast<size_t>(def.node_def_size()), false);
  // Names that are not in the body are arguments, or are refused when the function is made a graph.
  const auto need = [&](absl::string_view input) {
    const auto found = by_name.find(NodeOfInput(input));
    if (found == by_name.end() || needed[static_cast<size_t>(found->second)]) return;
    needed[static_cast<size_t>(found->second)] = true;
    stack.push_back(found->second);
  };
  for (int i = 0; i < def.node_def_size(); ++i) {
    if (!by_name.emplace(def.node_def(i).name(), i).second) {
      return errors::InvalidArgument("two nodes have the name '", def.node_def(i).name(), "'");
    }
  }
  for (const tensorflow::NodeDef& node : def.node_def()) {
    if (IsStateful(node.op())) need(node.name());
  }
  for (const auto& [name, output] : def.ret()) need(output);
  for (const auto& [name, node] : def.control_ret()) need(node);
  while (!stack.empty()) {
    const tensorflow::NodeDef& node = def.node_def(stack.back());
    stack.pop_back();
    for (const std::string& input : node.input()) need(input);
  }
  for (int i = 0; i < def.node_def_size(); ++i) {
    if (!needed[static_cast<size_t>(i)]) continue;
    body.nodes.push_back(i);
    AddCalls(def.node_def(i), body.functions);
    if (IsMissing(def.node_def(i).op())) ++body.missing[def.node_def(i).op()];
  }
  return absl::OkStatus();
}

absl::StatusOr<int> GraphParts::FindNode(absl::string_view tensor) const {
  const absl::string_view name = NodeOfInput(tensor);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return found->second;
  return errors::InvalidArgument("'", tensor, "' is of node '", name,
                                 "', which is not in the graph");
}

absl::StatusOr<GraphPart> GraphParts::Find(const std::vector<std::string>& roots,
                                           const std::vector<FedTensor>& fed) const {
  GraphPart part;
  std::vector<int> stack;
  const auto need = [&](int node) {
    if (part.nodes.insert(node).second) stack.push_back(node);
  };
  absl::flat_hash_set<std::string> given;
  for (const FedTensor& tensor : fed) {
    const std::string name = FullName(tensor.name);
    TANDEM_ASSIGN_OR_RETURN(const int node, FindNode(name));
    given.insert(name);
    if (tensor.dtype != DataType::kInvalid && NumDataInputs(graph_->node(node)) > 0 &&
        absl::EndsWith(name, ":0")) {
      part.given.emplace(node, tensor.dtype);
    } else {
      need(node);
    }
  }
  const auto need_input = [&](const std::string& input) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const int node, FindNode(input));
    if (absl::StartsWith(input, "^") || given.count(FullName(input)) == 0) need(node);
    return absl::OkStatus();
  };
  for (const std::string& root : roots) TANDEM_RETURN_IF_ERROR(need_input(root));
  std::set<std::string> called;
  while (!stack.empty()) {
    const tensorflow::NodeDef& node = graph_->node(stack.back());
    stack.pop_back();
    AddCalls(node, called);
    for (const std::string& input : node.input()) {
      const absl::Status status = need_input(input);
      if (!status.ok()) return WithContext(status, absl::StrCat("node '", node.name(), "': input"));
    }
  }
  while (!called.empty()) {
    const std::string name = *called.begin();
    called.erase(called.begin());
    // A function that is nowhere is an error when it is called, which may never be.
    const auto body = bodies_.find(name);
    if (body == bodies_.end() || !part.functions.insert(name).second) continue;
    for (const std::string& callee : body->second.functions) {
      if (part.functions.count(callee) == 0) called.insert(callee);
    }
  }
  return part;
}

MissingOps GraphParts::Missing(const GraphPart& part) const {
  MissingOps missing;
  for (const int node : part.nodes) {
    if (IsMissing(graph_->node(node).op())) ++missing[graph_->node(node).op()];
  }
  for (const std::string& function : part.functions) {
    for (const auto& [op, count] : bodies_.at(function).missing) missing[op] += count;
  }
  return missing;
}

void GraphParts::ExtractNode(tensorflow::NodeDef* node) const {
  const OpDef* const op = registry_->Find(node->op());
  const auto producer = producer_ops_.find(node->op());
  if (op == nullptr || producer == producer_ops_.end()) return;
  for (const tensorflow::OpDef::AttrDef& attr : producer->second->attr()) {
    if (!attr.has_default_value() || op->FindAttr(attr.name()) != nullptr) continue;
    const auto value = node->attr().find(attr.name());
    if (value == node->attr().end()) continue;
    if (google::protobuf::util::MessageDifferencer::Equals(value->second, attr.default_value())) {
      node->mutable_attr()->erase(attr.name());
    }
  }
}

tensorflow::GraphDef GraphParts::Extract(const GraphPart& part) const {
  tensorflow::GraphDef copy = *graph_;
  return TakeOut(part, &copy);
}

tensorflow::GraphDef GraphParts::TakeOut(const GraphPart& part, tensorflow::GraphDef* graph) const {
  tensorflow::GraphDef result;
  *result.mutable_versions() = graph->versions();
  for (int i = 0; i < graph->node_size(); ++i) {
    if (part.nodes.count(i) != 0) {
      tensorflow::NodeDef* const node = result.add_node();
      node->Swap(graph->mutable_node(i));
      ExtractNode(node);
    } else if (const auto given = part.given.find(i); given != part.given.end()) {
      tensorflow::NodeDef* const placeholder = result.add_node();
      placeholder->set_name(graph->node(i).name());
      placeholder->set_op("Placeholder");
      (*placeholder->mutable_attr())["dtype"].set_type(
          static_cast<tensorflow::DataType>(given->second));
    }
  }
  // In the order of their names.
  std::map<absl::string_view, tensorflow::FunctionDef*> functions;
  for (tensorflow::FunctionDef& function : *graph->mutable_library()->mutable_function()) {
    functions.emplace(function.signature().name(), &function);
  }
  for (const auto& [name, from] : functions) {
    if (part.functions.count(std::string(name)) == 0) continue;
    const std::vector<int> needed = bodies_.at(std::string(name)).nodes;
    tensorflow::FunctionDef* const function = result.mutable_library()->add_function();
    tensorflow::FunctionDef body;
    body.mutable_node_def()->Swap(from->mutable_node_def());
    *function = *from;
    for (const int node : needed) {
      function->add_node_def()->Swap(body.mutable_node_def(node));
      ExtractNode(function->mutable_node_def(function->node_def_size() - 1));
    }
  }
  for (const tensorflow::GradientDef& gradient : graph->library().gradient()) {
    if (part.functions.count(gradient.function_name()) != 0 &&
        part.functions.count(gradient.gradient_func()) != 0) {
      *result.mutable_library()->add_gradient() = gradient;
    }
  }
  return result;
}

bool GraphParts::Uses(const GraphPart& part, absl::string_view op) const {
  for (const int node : part.nodes) {
    if (graph_->node(node).op() == op) return true;
  }
  for (const std::string& name : part.functions) {
    const Body& body = bodies_.at(name);
    for (const int node : body.nodes) {
      if (body.def->node_def(node).op() == op) return true;
    }
  }
  return false;
}

}  // namespace tandem
