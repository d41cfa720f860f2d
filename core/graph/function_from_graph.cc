// The way back from a graph to a FunctionDef; declared in function_body.h.
#include <algorithm>
#include <map>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/attr_proto.h"
#include "core/graph/export.h"
#include "core/graph/function_body.h"
#include "core/graph/function_endpoints.h"
#include "proto/function.pb.h"

namespace tandem {
namespace {

bool IsBoundary(const Node& node) { return node.Is("_Arg") || node.Is("_Retval"); }

// The nodes of one kind by their index. InvalidArgument when the indices are not 0, 1, …
absl::StatusOr<std::vector<Node*>> ByIndex(const Graph& graph, absl::string_view op) {
  std::vector<Node*> nodes;
  for (Node* node : graph.nodes()) {
    if (node->Is(op)) nodes.push_back(node);
  }
  const auto index = [](const Node* node) { return *node->Attr<int64_t>("index"); };
  absl::c_stable_sort(nodes, [&](Node* a, Node* b) { return index(a) < index(b); });
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (index(nodes[i]) != static_cast<int64_t>(i)) {
      return WithNode(errors::InvalidArgument("its index is ", index(nodes[i]), "; ", nodes.size(),
                                              " nodes of this op must have the indices 0 to ",
                                              nodes.size() - 1),
                      *nodes[i]);
    }
  }
  return nodes;
}

class FunctionWriter {
 public:
  FunctionWriter(absl::string_view name, const Graph& body, tensorflow::FunctionDef* def)
      : body_(body), def_(def) {
    def_->mutable_signature()->set_name(std::string(name));
  }

  absl::Status Write(const std::vector<Node*>& control_rets);

 private:
  // A name that a signature may have: [a-z][a-z0-9_]*, and no other argument or node has.
  std::string ArgName(const std::string& node_name);
  absl::StatusOr<std::string> Endpoint(const Output& output) const;
  std::string ControlEndpoint(const Node& node) const;
  absl::Status WriteNode(const Node& node);
  void AddControlResult(const Node& node);

  const Graph& body_;
  tensorflow::FunctionDef* const def_;
  std::set<std::string> taken_;
  std::map<const Node*, std::string> arg_names_;
  std::set<const Node*> control_results_;
};

std::string FunctionWriter::ArgName(const std::string& node_name) {
  std::string base;
  for (const char c : node_name) {
    const auto byte = static_cast<unsigned char>(c);
    base.push_back(absl::ascii_isalnum(byte) ? absl::ascii_tolower(byte) : '_');
  }
  base.erase(0, std::min(base.find_first_not_of("_0123456789"), base.size()));
  if (base.empty()) base = "x";
  std::string name = base;
  for (int suffix = 1; !taken_.insert(name).second; ++suffix) {
    name = absl::StrCat(base, "_", suffix);
  }
  return name;
}

absl::StatusOr<std::string> FunctionWriter::Endpoint(const Output& output) const {
  const auto arg = arg_names_.find(output.node);
  if (arg != arg_names_.end()) return arg->second;
  int first = 0;
  for (const ArgDef& def : output.node->op().outputs) {
    TANDEM_ASSIGN_OR_RETURN(const int length, ArgLength(def, output.node->attrs()));
    if (output.index < first + length) {
      return absl::StrCat(output.node->name(), ":", def.name, ":", output.index - first);
    }
    first += length;
  }
  return WithNode(errors::InvalidArgument("it has no output ", output.index), *output.node);
}

std::string FunctionWriter::ControlEndpoint(const Node& node) const {
  const auto arg = arg_names_.find(&node);
  return absl::StrCat("^", arg != arg_names_.end() ? arg->second : node.name());
}

absl::Status FunctionWriter::WriteNode(const Node& node) {
  ExportOptions options;
  options.internal_ops = true;  // Checked when a graph leaves the process.
  tensorflow::NodeDef* const message = def_->add_node_def();
  TANDEM_RETURN_IF_ERROR(NodeToProto(node, options, message));
  message->clear_input();
  for (const Output& input : node.inputs()) {
    TANDEM_ASSIGN_OR_RETURN(std::string endpoint, Endpoint(input));
    message->add_input(std::move(endpoint));
  }
  for (const Node* control : node.control_inputs()) {
    if (control->Is("_Retval")) {
      return WithNode(errors::InvalidArgument("it waits for '", control->name(),
                                              "', which is a result of the function"),
                      node);
    }
    message->add_input(ControlEndpoint(*control));
  }
  if (node.op().is_stateful) def_->mutable_signature()->set_is_stateful(true);
  return absl::OkStatus();
}

void FunctionWriter::AddControlResult(const Node& node) {
  if (IsBoundary(node) || !control_results_.insert(&node).second) return;
  def_->mutable_signature()->add_control_output(node.name());
  (*def_->mutable_control_ret())[node.name()] = node.name();
}

absl::Status FunctionWriter::Write(const std::vector<Node*>& control_rets) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> args, ByIndex(body_, "_Arg"));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> rets, ByIndex(body_, "_Retval"));
  for (const Node* node : body_.nodes()) {
    if (!IsBoundary(*node)) taken_.insert(node->name());
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string name = ArgName(args[i]->name());
    arg_names_.emplace(args[i], name);
    tensorflow::OpDef::ArgDef* const arg = def_->mutable_signature()->add_input_arg();
    arg->set_name(name);
    arg->set_type(static_cast<tensorflow::DataType>(args[i]->output_info(0).dtype));
    for (const auto& [key, value] : args[i]->attrs()) {
      if (!absl::StartsWith(key, "_")) continue;
      auto& attrs = *(*def_->mutable_arg_attr())[static_cast<uint32_t>(i)].mutable_attr();
      TANDEM_RETURN_IF_ERROR(AttrToProto(value, &attrs[key]));
    }
  }
  for (const Node* node : body_.nodes()) {
    if (!IsBoundary(*node)) TANDEM_RETURN_IF_ERROR(WriteNode(*node));
  }
  for (const Node* ret : rets) {
    if (!ret->input(0).valid()) {
      return WithNode(errors::InvalidArgument("its input is not connected"), *ret);
    }
    tensorflow::OpDef::ArgDef* const result = def_->mutable_signature()->add_output_arg();
    result->set_name(ArgName(ret->name()));
    result->set_type(static_cast<tensorflow::DataType>(ret->input_dtype(0)));
    TANDEM_ASSIGN_OR_RETURN((*def_->mutable_ret())[result->name()], Endpoint(ret->input(0)));
    for (const Node* control : ret->control_inputs()) AddControlResult(*control);
  }
  for (const Node* node : control_rets) AddControlResult(*node);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<tensorflow::FunctionDef> FunctionFromGraph(absl::string_view name, const Graph& body,
                                                          const std::vector<Node*>& control_rets) {
  tensorflow::FunctionDef def;
  const absl::Status status = FunctionWriter(name, body, &def).Write(control_rets);
  if (!status.ok()) return WithContext(status, absl::StrCat("function '", name, "'"));
  return def;
}

absl::Status DefineFunction(absl::string_view name, const Graph& body,
                            const std::vector<Node*>& control_rets, FunctionLibrary* library) {
  TANDEM_ASSIGN_OR_RETURN(const tensorflow::FunctionDef def,
                          FunctionFromGraph(name, body, control_rets));
  if (&body.functions() != library) {
    for (const std::string& inner : body.functions().Names()) {
      TANDEM_RETURN_IF_ERROR(library->Add(*body.functions().Find(inner)));
      const std::string gradient = body.functions().FindGradient(inner);
      if (!gradient.empty()) TANDEM_RETURN_IF_ERROR(library->SetGradient(inner, gradient));
    }
  }
  return library->Add(def);
}

Output FunctionArg(const Scope& scope, int index, DataType type) {
  return scope.Call("_Arg", {}, {{"T", type}, {"index", index}});
}

Node* FunctionResult(const Scope& scope, int index, const Input& value) {
  return scope.AddNode("_Retval", {value}, {{"index", index}});
}

}  // namespace tandem
