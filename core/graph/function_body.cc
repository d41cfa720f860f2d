#include "core/graph/function_body.h"

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/attr_proto.h"
#include "core/graph/function_endpoints.h"
#include "core/graph/import.h"
#include "core/graph/node_resolution.h"
#include "core/graph/op_def_proto.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using NodeDef = tensorflow::NodeDef;

// Replaces "the value of the function's attribute T" by that value.
absl::Status Substitute(const AttrMap& values, int depth, tensorflow::AttrValue* attr) {
  if (attr->has_placeholder()) {
    const std::string name = attr->placeholder();
    const auto value = values.find(name);
    if (value == values.end()) {
      return errors::InvalidArgument("it is the value of '", name,
                                     "', which is no attribute of the function");
    }
    return AttrToProto(value->second, attr);
  }
  // AttrFromProto refuses what is nested deeper.
  constexpr int kMaxDepth = 40;
  if (depth > kMaxDepth) return absl::OkStatus();
  if (attr->has_func()) {
    for (auto& entry : *attr->mutable_func()->mutable_attr()) {
      TANDEM_RETURN_IF_ERROR(Substitute(values, depth + 1, &entry.second));
    }
  } else if (attr->has_list()) {
    for (auto& function : *attr->mutable_list()->mutable_func()) {
      for (auto& entry : *function.mutable_attr()) {
        TANDEM_RETURN_IF_ERROR(Substitute(values, depth + 1, &entry.second));
      }
    }
  }
  return absl::OkStatus();
}

// Turns a FunctionDef into a GraphDef with _Arg and _Retval nodes, which is then imported.
class BodyBuilder {
 public:
  BodyBuilder(const tensorflow::FunctionDef& function, const FunctionLibrary& functions,
              const OpRegistry& registry)
      : function_(function), endpoints_(functions, registry) {}

  absl::Status Build(const AttrMap& attrs) {
    TANDEM_ASSIGN_OR_RETURN(signature_, OpDefFromProto(function_.signature()));
    for (const auto* args : {&signature_.inputs, &signature_.outputs}) {
      for (const ArgDef& arg : *args) {
        if (arg.is_ref) {
          return errors::Unimplemented("'", arg.name,
                                       "' is a reference, which functions cannot "
                                       "take or give; use resource variables");
        }
      }
    }
    TANDEM_RETURN_IF_ERROR(ResolveNode(signature_, attrs, {}, 0, &resolved_));
    for (const NodeDef& node : function_.node_def()) endpoints_.ReserveName(node.name());
    TANDEM_RETURN_IF_ERROR(AddArgs());
    TANDEM_RETURN_IF_ERROR(AddNodes());
    TANDEM_RETURN_IF_ERROR(AddResults());
    return AddControlResults();
  }

  const tensorflow::GraphDef& def() const { return def_; }
  const std::vector<std::string>& args() const { return args_; }
  const std::vector<std::string>& rets() const { return rets_; }
  const std::vector<std::string>& control_rets() const { return control_rets_; }

 private:
  absl::Status AddArgs();
  absl::Status AddNodes();
  absl::Status AddResults();
  absl::Status AddControlResults();
  NodeDef* AddBoundary(const std::string& name, const char* op, DataType type, size_t index) {
    NodeDef* const node = def_.add_node();
    node->set_name(name);
    node->set_op(op);
    (*node->mutable_attr())["T"].set_type(static_cast<tensorflow::DataType>(type));
    (*node->mutable_attr())["index"].set_i(static_cast<int64_t>(index));
    return node;
  }

  const tensorflow::FunctionDef& function_;
  FunctionEndpoints endpoints_;
  OpDef signature_;
  ResolvedNode resolved_;  // Types of arguments and results, and all attributes.
  tensorflow::GraphDef def_;
  std::vector<std::string> args_;  // Names of nodes.
  std::vector<std::string> rets_;
  std::vector<std::string> control_rets_;
};

absl::Status BodyBuilder::AddArgs() {
  for (size_t i = 0; i < signature_.inputs.size(); ++i) {
    const ArgDef& arg = signature_.inputs[i];
    const bool is_list = !arg.number_attr.empty() || !arg.type_list_attr.empty();
    TANDEM_ASSIGN_OR_RETURN(const int count, ArgLength(arg, resolved_.attrs));
    std::vector<std::string> names;
    for (int element = 0; element < count; ++element) {
      std::string name = is_list ? absl::StrCat(arg.name, "_", element) : arg.name;
      if (is_list) name = endpoints_.UniqueName(name);
      NodeDef* const node =
          AddBoundary(name, "_Arg", resolved_.input_types[args_.size()], args_.size());
      const auto private_attrs = function_.arg_attr().find(static_cast<uint32_t>(i));
      if (private_attrs != function_.arg_attr().end()) {
        for (const auto& [key, value] : private_attrs->second.attr()) {
          if (absl::StartsWith(key, "_")) (*node->mutable_attr())[key] = value;
        }
      }
      args_.push_back(name);
      names.push_back(std::move(name));
    }
    TANDEM_RETURN_IF_ERROR(endpoints_.AddArg(arg.name, std::move(names)));
  }
  return absl::OkStatus();
}

absl::Status BodyBuilder::AddNodes() {
  const int first = def_.node_size();
  for (const NodeDef& message : function_.node_def()) {
    const std::string context = absl::StrCat("node '", message.name(), "' (", message.op(), ")");
    if (message.op() == "_Arg" || message.op() == "_Retval") {
      return errors::InvalidArgument(context,
                                     ": a function's arguments and results stand in its "
                                     "signature, not among its nodes");
    }
    NodeDef* const node = def_.add_node();
    *node = message;
    for (auto& [name, value] : *node->mutable_attr()) {
      const absl::Status status = Substitute(resolved_.attrs, 0, &value);
      if (!status.ok()) {
        return WithContext(status, absl::StrCat(context, ": attribute '", name, "'"));
      }
    }
    const absl::Status status = endpoints_.AddNode(*node);
    if (!status.ok()) return WithContext(status, context);
  }
  for (int i = first; i < def_.node_size(); ++i) {
    NodeDef* const node = def_.mutable_node(i);
    std::vector<std::string> inputs;
    for (const std::string& text : node->input()) {
      const absl::Status status = endpoints_.Resolve(text, &inputs);
      if (!status.ok()) {
        return WithContext(status, absl::StrCat("node '", node->name(), "' (", node->op(), ")"));
      }
    }
    node->clear_input();
    for (std::string& input : inputs) node->add_input(std::move(input));
  }
  return absl::OkStatus();
}

absl::Status BodyBuilder::AddResults() {
  for (const ArgDef& arg : signature_.outputs) {
    const std::string context = absl::StrCat("result '", arg.name, "'");
    const auto ret = function_.ret().find(arg.name);
    if (ret == function_.ret().end()) {
      return errors::InvalidArgument(context, ": the body does not say what it is");
    }
    if (absl::StartsWith(ret->second, "^")) {
      return errors::InvalidArgument(context, ": '", ret->second, "' is a control edge");
    }
    std::vector<std::string> sources;
    const absl::Status status = endpoints_.Resolve(ret->second, &sources);
    if (!status.ok()) return WithContext(status, context);
    TANDEM_ASSIGN_OR_RETURN(const int count, ArgLength(arg, resolved_.attrs));
    if (sources.size() != static_cast<size_t>(count)) {
      return errors::InvalidArgument(context, ": '", ret->second, "' gives ", sources.size(),
                                     " tensors; the signature says ", count);
    }
    for (const std::string& source : sources) {
      const std::string name = endpoints_.UniqueName(absl::StrCat(arg.name, "_RetVal"));
      AddBoundary(name, "_Retval", resolved_.output_types[rets_.size()], rets_.size())
          ->add_input(source);
      rets_.push_back(name);
    }
  }
  return absl::OkStatus();
}

absl::Status BodyBuilder::AddControlResults() {
  for (const std::string& output : function_.signature().control_output()) {
    const auto node = function_.control_ret().find(output);
    if (node == function_.control_ret().end() || !endpoints_.HasNode(node->second)) {
      return errors::InvalidArgument("control result '", output, "': the body has no node for it");
    }
    control_rets_.push_back(node->second);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Node*>> FindNodes(const Graph& graph,
                                             const std::vector<std::string>& names) {
  std::vector<Node*> nodes;
  for (const std::string& name : names) {
    TANDEM_ASSIGN_OR_RETURN(Node* const node, graph.GetNode(name));
    nodes.push_back(node);
  }
  return nodes;
}

absl::StatusOr<std::unique_ptr<FunctionBody>> Instantiate(
    const tensorflow::FunctionDef& function, const AttrMap& attrs,
    std::shared_ptr<FunctionLibrary> functions, const OpRegistry& registry) {
  BodyBuilder builder(function, *functions, registry);
  TANDEM_RETURN_IF_ERROR(builder.Build(attrs));
  auto body = std::make_unique<FunctionBody>(Graph(registry, std::move(functions)));
  ImportOptions import;
  import.internal_ops = true;  // Our own boundary nodes; others were refused with the library.
  TANDEM_RETURN_IF_ERROR(ImportInto(&body->graph, builder.def(), import));
  TANDEM_ASSIGN_OR_RETURN(body->args, FindNodes(body->graph, builder.args()));
  TANDEM_ASSIGN_OR_RETURN(body->rets, FindNodes(body->graph, builder.rets()));
  TANDEM_ASSIGN_OR_RETURN(body->control_rets, FindNodes(body->graph, builder.control_rets()));
  return body;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FunctionBody>> InstantiateFunction(
    const tensorflow::FunctionDef& function, const AttrMap& attrs,
    std::shared_ptr<FunctionLibrary> functions, const OpRegistry& registry) {
  absl::StatusOr<std::unique_ptr<FunctionBody>> body =
      Instantiate(function, attrs, std::move(functions), registry);
  if (!body.ok()) {
    return WithContext(body.status(), absl::StrCat("function '", function.signature().name(), "'"));
  }
  return body;
}

absl::StatusOr<std::unique_ptr<FunctionBody>> InstantiateFunction(
    const FunctionRef& function, std::shared_ptr<FunctionLibrary> functions,
    const OpRegistry& registry) {
  const auto def = functions->Find(function.name);
  if (def == nullptr) {
    return errors::NotFound("there is no function '", function.name, "' in the library",
                            DidYouMean(function.name, functions->Names()));
  }
  return InstantiateFunction(*def, function.attrs, std::move(functions), registry);
}

}  // namespace tandem
