#include "core/graph/function_endpoints.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/graph/op_def_proto.h"
#include "proto/function.pb.h"

namespace tandem {
namespace {

// As for nodes of graphs (core/graph/node_resolution.cc).
constexpr int64_t kMaxTensors = 1 << 20;

absl::Status CheckLength(const std::string& name, int64_t length) {
  if (length >= 0 && length <= kMaxTensors) return absl::OkStatus();
  return errors::InvalidArgument("argument '", name, "' stands for ", length, " tensors; 0 to ",
                                 kMaxTensors, " are possible");
}

// The length of an output as the message's attributes, or else the op's defaults, give it.
absl::StatusOr<int64_t> LengthInMessage(const OpDef& op, const ArgDef& arg,
                                        const tensorflow::NodeDef& node) {
  const std::string& attr = arg.number_attr.empty() ? arg.type_list_attr : arg.number_attr;
  if (attr.empty()) return 1;
  const auto given = node.attr().find(attr);
  if (given != node.attr().end()) {
    if (arg.number_attr.empty() && given->second.has_list()) {
      return given->second.list().type_size();
    }
    if (!arg.number_attr.empty() && given->second.value_case() == tensorflow::AttrValue::kI) {
      return given->second.i();
    }
  } else if (const AttrDef* def = op.FindAttr(attr); def != nullptr && def->has_default) {
    if (const auto* number = def->default_value.Get<int64_t>()) return *number;
    if (const auto* types = def->default_value.Get<std::vector<DataType>>()) {
      return static_cast<int64_t>(types->size());
    }
  }
  return errors::InvalidArgument("attribute '", attr, "', on which output '", arg.name,
                                 "' depends, is missing or of the wrong kind");
}

}  // namespace

absl::StatusOr<int> ArgLength(const ArgDef& arg, const AttrMap& attrs) {
  const std::string& attr = arg.number_attr.empty() ? arg.type_list_attr : arg.number_attr;
  if (attr.empty()) return 1;
  const auto found = attrs.find(attr);
  int64_t length = -1;
  if (found != attrs.end()) {
    if (const auto* number = found->second.Get<int64_t>()) length = *number;
    if (const auto* types = found->second.Get<std::vector<DataType>>()) {
      length = static_cast<int64_t>(types->size());
    }
  }
  TANDEM_RETURN_IF_ERROR(CheckLength(arg.name, length));
  return static_cast<int>(length);
}

std::string FunctionEndpoints::UniqueName(const std::string& base) {
  std::string name = base;
  for (int suffix = 1; !names_.insert(name).second; ++suffix) {
    name = absl::StrCat(base, "_", suffix);
  }
  return name;
}

absl::Status FunctionEndpoints::AddArg(const std::string& name, std::vector<std::string> nodes) {
  const bool is_node = nodes.size() == 1 && nodes[0] == name;
  if ((is_node && !names_.insert(name).second) || !args_.emplace(name, std::move(nodes)).second) {
    return errors::InvalidArgument("argument '", name,
                                   "' has the name of a node of the body or of another argument");
  }
  return absl::OkStatus();
}

absl::StatusOr<const OpDef*> FunctionEndpoints::FindOp(const std::string& op) {
  if (const OpDef* found = registry_.Find(op)) return found;
  const auto known = signatures_.find(op);
  if (known != signatures_.end()) return &known->second;
  const auto function = functions_.Find(op);
  if (function == nullptr) return registry_.Get(op);
  TANDEM_ASSIGN_OR_RETURN(OpDef signature, OpDefFromProto(function->signature()));
  return &signatures_.emplace(op, std::move(signature)).first->second;
}

absl::Status FunctionEndpoints::AddNode(const tensorflow::NodeDef& node) {
  TANDEM_ASSIGN_OR_RETURN(const OpDef* const op, FindOp(node.op()));
  std::vector<Range> ranges;
  int64_t next = 0;
  for (const ArgDef& output : op->outputs) {
    TANDEM_ASSIGN_OR_RETURN(const int64_t length, LengthInMessage(*op, output, node));
    TANDEM_RETURN_IF_ERROR(CheckLength(output.name, length));
    ranges.push_back({output.name, static_cast<int>(next), static_cast<int>(length)});
    next += length;
    TANDEM_RETURN_IF_ERROR(CheckLength(output.name, next));
  }
  if (!nodes_.emplace(node.name(), std::move(ranges)).second) {
    return errors::InvalidArgument("its name is that of an earlier node; names must differ");
  }
  return absl::OkStatus();
}

absl::Status FunctionEndpoints::Resolve(const std::string& text,
                                        std::vector<std::string>* inputs) const {
  if (!text.empty() && text[0] == '^') {
    const std::string name = text.substr(1);
    if (const auto arg = args_.find(name); arg != args_.end()) {
      for (const std::string& node : arg->second) inputs->push_back(absl::StrCat("^", node));
      return absl::OkStatus();
    }
    if (HasNode(name)) {
      inputs->push_back(text);
      return absl::OkStatus();
    }
    return errors::InvalidArgument("control input '", text,
                                   "' is no node or argument of the function");
  }
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  int element = -1;  // All.
  const bool has_element = parts.size() == 3 || (parts.size() == 2 && args_.count(parts[0]) != 0);
  if (has_element && (!absl::SimpleAtoi(parts.back(), &element) || element < 0)) {
    return errors::InvalidArgument("input '", text, "' has a malformed index");
  }
  if (const auto arg = args_.find(parts[0]); arg != args_.end() && parts.size() <= 2) {
    if (element >= static_cast<int>(arg->second.size())) {
      return errors::InvalidArgument("input '", text, "': argument '", parts[0], "' has ",
                                     arg->second.size(), " tensors");
    }
    for (size_t i = 0; i < arg->second.size(); ++i) {
      if (element < 0 || static_cast<size_t>(element) == i) inputs->push_back(arg->second[i]);
    }
    return absl::OkStatus();
  }
  const auto node = nodes_.find(parts[0]);
  if (node == nodes_.end() || parts.size() > 3) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : args_) names.push_back(name);
    for (const auto& [name, unused] : nodes_) names.push_back(name);
    return errors::InvalidArgument("input '", text, "' is of '", parts[0],
                                   "', which is no node or argument of the function",
                                   DidYouMean(parts[0], names));
  }
  std::vector<std::string> outputs;
  for (const Range& range : node->second) {
    outputs.push_back(range.name);
    if (parts.size() < 2 || range.name != parts[1]) continue;
    if (element >= range.count) {
      return errors::InvalidArgument("input '", text, "': output '", range.name, "' has ",
                                     range.count, " tensors");
    }
    for (int i = 0; i < range.count; ++i) {
      if (element < 0 || element == i) {
        inputs->push_back(absl::StrCat(parts[0], ":", range.first + i));
      }
    }
    return absl::OkStatus();
  }
  return errors::InvalidArgument("input '", text, "' must name an output of node '", parts[0],
                                 "', as 'node:output:index'; it has ",
                                 outputs.empty() ? "none" : absl::StrJoin(outputs, ", "));
}

}  // namespace tandem
