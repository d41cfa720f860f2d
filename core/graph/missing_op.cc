#include "core/graph/missing_op.h"

#include <set>
#include <vector>

#include "core/base/status.h"
#include "core/graph/function_library.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

// In messages.
constexpr size_t kMaxOpsShown = 20;

TANDEM_OP("_TandemMissingOp")
    .Inputs("inputs:Tin")
    .Outputs("outputs:Tout")
    .Attrs("op:string; is_known:bool=false; Tin:list(type)>=0; Tout:list(type)>=0")
    .Stateful()
    .Shape(UnknownShape)
    .NotDifferentiable();

// " and 2 others", of several nodes of which the first was named.
std::string Others(int64_t nodes) {
  if (nodes < 2) return "";
  return absl::StrCat(" and ", nodes - 1, nodes == 2 ? " other" : " others");
}

// Adds the ops that are missing in functions that `graph` calls, and in those that these call.
class FunctionSearch {
 public:
  FunctionSearch(const Graph& graph, UnknownOps* unknown) : graph_(graph), unknown_(*unknown) {}

  void Look() {
    for (const Node* node : graph_.nodes()) {
      for (const auto& [name, value] : node->attrs()) {
        if (const auto* function = value.Get<FunctionRef>()) Visit(function->name);
        if (const auto* list = value.Get<std::vector<FunctionRef>>()) {
          for (const FunctionRef& each : *list) Visit(each.name);
        }
      }
    }
    while (!waiting_.empty()) {
      const std::string name = waiting_.back();
      waiting_.pop_back();
      const auto function = graph_.functions().Find(name);
      if (function != nullptr) LookInto(*function);
    }
  }

 private:
  void Visit(const std::string& function) {
    if (visited_.insert(function).second) waiting_.push_back(function);
  }

  void LookInto(const tensorflow::FunctionDef& function) {
    for (const tensorflow::NodeDef& node : function.node_def()) {
      if (graph_.functions().Find(node.op()) != nullptr) {
        Visit(node.op());
      } else if (graph_.registry().Find(node.op()) == nullptr) {
        unknown_.Add(node.op(), absl::StrCat(function.signature().name(), "/", node.name()));
      }
      for (const auto& [name, value] : node.attr()) {
        if (value.has_func()) Visit(value.func().name());
        for (const tensorflow::NameAttrList& each : value.list().func()) Visit(each.name());
      }
    }
  }

  const Graph& graph_;
  UnknownOps& unknown_;
  std::set<std::string> visited_;
  std::vector<std::string> waiting_;
};

}  // namespace

void UnknownOps::Add(absl::string_view op, absl::string_view node) {
  Use& use = ops_.try_emplace(std::string(op), Use{std::string(node)}).first->second;
  ++use.nodes;
}

absl::Status UnknownOps::ToStatus(const OpRegistry& registry) const {
  std::vector<std::string> names;
  for (const OpDef* def : registry.List()) names.push_back(def->name);
  if (ops_.size() == 1) {
    const auto& [op, use] = *ops_.begin();
    return errors::NotFound("node '", use.first_node, "'", Others(use.nodes), ": there is no op '",
                            op, "'", DidYouMean(op, names));
  }
  std::string text;
  size_t shown = 0;
  for (const auto& [op, use] : ops_) {
    if (++shown > kMaxOpsShown) {
      absl::StrAppend(&text, "; and ", ops_.size() - kMaxOpsShown, " more");
      break;
    }
    const std::vector<std::string> near = NearNames(op, names, /*limit=*/1);
    absl::StrAppend(&text, text.empty() ? "" : "; ", "'", op, "' (node '", use.first_node, "'",
                    Others(use.nodes),
                    near.empty() ? "" : absl::StrCat(", did you mean '", near[0], "'?"), ")");
  }
  return errors::NotFound("there are no ops of these ", ops_.size(), " names: ", text);
}

absl::Status CheckNoMissingOps(const Graph& graph) {
  UnknownOps unknown;
  const Node* known = nullptr;
  for (const Node* node : graph.nodes()) {
    if (!node->Is(kMissingOp)) continue;
    if (*node->Attr<bool>("is_known")) {
      known = node;
    } else {
      unknown.Add(*node->Attr<std::string>("op"), node->name());
    }
  }
  if (unknown.empty()) {
    if (known == nullptr) return absl::OkStatus();
    return errors::NotFound("node '", known->name(), "' (", *known->Attr<std::string>("op"),
                            ") needs a value of a node whose op is not known");
  }
  FunctionSearch(graph, &unknown).Look();
  return unknown.ToStatus(graph.registry());
}

}  // namespace tandem
