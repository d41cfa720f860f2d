#include "core/passes/inline_call.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/graph/function_body.h"

namespace tandem {
namespace {

// A body that was copied into the graph.
struct Copy {
  std::vector<Output> results;
  std::vector<Node*> effects;  // What runs although no result depends on it.
};

class Inliner {
 public:
  Inliner(Node* call, const DeviceName& device, Graph& graph)
      : call_(*call), device_(device), graph_(graph) {}

  absl::Status Call(const FunctionRef& function) {
    std::vector<Output> args(call_.inputs().begin(), call_.inputs().end());
    TANDEM_ASSIGN_OR_RETURN(Node * begin, AddBegin());
    TANDEM_ASSIGN_OR_RETURN(const Copy copy, CopyBody(function, call_.name(), args, begin));
    std::vector<Node*> ends = copy.effects;
    ends.push_back(begin);
    for (const Output& result : copy.results) ends.push_back(result.node);
    return Replace(copy.results, ends);
  }

  absl::Status Conditional(const FunctionRef& then_branch, const FunctionRef& else_branch) {
    const Output condition = call_.input(0);
    if (RemoveReference(condition.dtype()) != kBool) {
      return errors::Unimplemented(
          "node '", call_.name(), "' (", call_.type(), ") spans tasks, and its condition is ",
          DataTypeName(condition.dtype()), "; that is supported for bool only");
    }
    TANDEM_ASSIGN_OR_RETURN(Node * begin, AddBegin());
    // Which branch is taken, for what has no inputs of its own.
    TANDEM_ASSIGN_OR_RETURN(Node * pivots,
                            Add("pivot", "Switch", {condition, condition}, {begin}, {}, "", false));
    std::vector<Node*> switches;
    for (int i = 1; i < call_.num_inputs(); ++i) {
      const bool is_handle = call_.input(i).dtype() == kResource;
      TANDEM_ASSIGN_OR_RETURN(Node * each, Add("switch", "Switch", {call_.input(i), condition},
                                               {begin}, {}, "", is_handle));
      switches.push_back(each);
    }
    std::vector<Copy> branches;
    std::vector<Output> ends;
    for (const bool taken : {false, true}) {
      const int index = taken ? 1 : 0;
      std::vector<Output> args;
      for (Node* each : switches) args.push_back(each->output(index));
      TANDEM_ASSIGN_OR_RETURN(Node * pivot, Add(taken ? "then" : "else", "Identity",
                                                {pivots->output(index)}, {}, {}, "", false));
      TANDEM_ASSIGN_OR_RETURN(
          Copy copy, CopyBody(taken ? then_branch : else_branch,
                              absl::StrCat(call_.name(), taken ? "/then" : "/else"), args, pivot));
      std::vector<Node*> waits_for = copy.effects;
      waits_for.push_back(pivot);
      TANDEM_ASSIGN_OR_RETURN(Node * end, Add(taken ? "then_end" : "else_end", "Identity",
                                              {pivots->output(index)}, waits_for, {}, "", false));
      ends.push_back(end->output(0));
      branches.push_back(std::move(copy));
    }
    std::vector<Output> results;
    for (size_t i = 0; i < branches[0].results.size(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(
          Node * merge, Add("merge", "Merge", {branches[0].results[i], branches[1].results[i]}, {},
                            {}, "", false));
      results.push_back(merge->output(0));
    }
    TANDEM_ASSIGN_OR_RETURN(Node * end, Add("end", "Merge", ends, {}, {}, "", false));
    std::vector<Node*> waits_for = {end};
    for (const Output& result : results) waits_for.push_back(result.node);
    return Replace(results, waits_for);
  }

 private:
  // A node of our own under the call's name. Without `device` it runs where `device_` says.
  absl::StatusOr<Node*> Add(const std::string& name, const std::string& op,
                            std::vector<Output> inputs, std::vector<Node*> controls, AttrMap attrs,
                            const std::string& device, bool follows) {
    NodeSpec spec;
    spec.name = graph_.UniqueName(absl::StrCat(call_.name(), "/", name));
    spec.op = op;
    spec.inputs = std::move(inputs);
    spec.control_inputs = std::move(controls);
    spec.attrs = std::move(attrs);
    if (!follows) spec.device = device.empty() ? device_.ToString() : device;
    return graph_.AddNode(std::move(spec));
  }

  // Ends when all that the call waits for is there.
  absl::StatusOr<Node*> AddBegin() {
    std::vector<Node*> controls(call_.control_inputs().begin(), call_.control_inputs().end());
    for (const Output& input : call_.inputs()) {
      // What waits for nothing is always there.
      const bool is_source = input.node->num_inputs() == 0 &&
                             input.node->control_inputs().empty() && !input.node->Is("_Recv") &&
                             !input.node->Is("_HostRecv");
      if (!is_source) controls.push_back(input.node);
    }
    return Add("begin", "NoOp", {}, std::move(controls), {}, "", false);
  }

  // `begin`: what the nodes that have no inputs wait for.
  absl::StatusOr<Copy> CopyBody(const FunctionRef& function, const std::string& prefix,
                                const std::vector<Output>& args, Node* begin) {
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<FunctionBody> body,
                            InstantiateFunction(function, graph_.shared_functions()));
    if (body->args.size() != args.size()) {
      return errors::InvalidArgument("function '", function.name, "' takes ", body->args.size(),
                                     " arguments and is called with ", args.size());
    }
    absl::flat_hash_map<const Node*, Node*> copies;
    absl::flat_hash_map<const Node*, Output> arg_values;
    for (size_t i = 0; i < args.size(); ++i) arg_values.emplace(body->args[i], args[i]);
    const auto value_of = [&](const Output& output) {
      const auto arg = arg_values.find(output.node);
      return arg != arg_values.end() ? arg->second : copies.at(output.node)->output(output.index);
    };
    Copy copy;
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, body->graph.TopologicalOrder());
    std::vector<std::pair<Node*, int>> back_edges;  // Inputs that are connected in the end.
    for (Node* node : order) {
      if (node->Is("_Arg") || node->Is("_Retval")) continue;
      NodeSpec spec;
      spec.name = graph_.UniqueName(absl::StrCat(prefix, "/", node->name()));
      spec.op = node->type();
      spec.attrs = node->attrs();
      bool takes_handle = false;
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Output input = node->input(i);
        takes_handle |= input.dtype() == kResource;
        if (IsBackEdge(*input.node, *node)) {
          if (spec.first_missing_input < 0) spec.first_missing_input = i;
          back_edges.emplace_back(node, i);
        } else if (spec.first_missing_input < 0) {
          spec.inputs.push_back(value_of(input));
        } else {
          return errors::Unimplemented("function '", function.name, "' has a Merge, '",
                                       node->name(), "', with an input behind a back edge");
        }
      }
      for (Node* control : node->control_inputs()) {
        const auto arg = arg_values.find(control);
        spec.control_inputs.push_back(arg == arg_values.end() ? copies.at(control)
                                                              : arg->second.node);
      }
      if (node->num_inputs() == 0 && node->control_inputs().empty()) {
        spec.control_inputs.push_back(begin);
      }
      TANDEM_ASSIGN_OR_RETURN(spec.device, DeviceOf(*node, takes_handle));
      const auto classes = spec.attrs.find("_class");
      if (classes != spec.attrs.end()) MoveClasses(prefix, &classes->second);
      TANDEM_ASSIGN_OR_RETURN(Node * made, graph_.AddNode(std::move(spec)));
      copies.emplace(node, made);
      if (node->op().is_stateful) copy.effects.push_back(made);
    }
    for (const auto& [node, i] : back_edges) {
      TANDEM_RETURN_IF_ERROR(graph_.SetInput(copies.at(node), i, value_of(node->input(i))));
    }
    for (Node* ret : body->rets) {
      // Who waits for a result waits for what the result waits for.
      if (ret->control_inputs().empty()) {
        copy.results.push_back(value_of(ret->input(0)));
        continue;
      }
      std::vector<Node*> controls;
      for (Node* control : ret->control_inputs()) controls.push_back(copies.at(control));
      const bool is_handle = ret->input_dtype(0) == kResource;
      TANDEM_ASSIGN_OR_RETURN(Node * result, Add("result", "Identity", {value_of(ret->input(0))},
                                                 std::move(controls), {}, "", is_handle));
      copy.results.push_back(result->output(0));
    }
    for (Node* control : body->control_rets) {
      const auto made = copies.find(control);
      if (made != copies.end()) copy.effects.push_back(made->second);
    }
    return copy;
  }

  absl::StatusOr<std::string> DeviceOf(const Node& node, bool takes_handle) const {
    absl::StatusOr<DeviceName> wish = DeviceName::Parse(node.requested_device());
    if (!wish.ok()) return WithNode(wish.status(), node);
    if (!takes_handle) FillUnset(device_, &*wish);
    return wish->ToString();
  }

  // Names of the body's nodes in _class have the call's name before them now.
  static void MoveClasses(const std::string& prefix, AttrValue* value) {
    const auto* const classes = value->Get<std::vector<std::string>>();
    if (classes == nullptr) return;
    std::vector<std::string> moved;
    for (absl::string_view text : *classes) {
      moved.push_back(absl::ConsumePrefix(&text, "loc:@") ? absl::StrCat("loc:@", prefix, "/", text)
                                                          : std::string(text));
    }
    *value = AttrValue(std::move(moved));
  }

  absl::Status Replace(const std::vector<Output>& results, std::vector<Node*> waits_for) {
    Node* const call = graph_.FindNode(call_.name());
    if (results.size() != static_cast<size_t>(call->num_outputs())) {
      return errors::InvalidArgument("node '", call->name(), "' has ", call->num_outputs(),
                                     " outputs, and its function ", results.size(), " results");
    }
    for (size_t i = 0; i < results.size(); ++i) {
      TANDEM_RETURN_IF_ERROR(graph_.ReplaceOutput(call->output(static_cast<int>(i)), results[i]));
    }
    // Nobody may wait for the end, but what has effects has to run in any case, and does: only what
    // nobody needs before a graph is cut is removed, and that is over.
    absl::c_sort(waits_for, [](const Node* a, const Node* b) { return a->id() < b->id(); });
    waits_for.erase(std::unique(waits_for.begin(), waits_for.end()), waits_for.end());
    TANDEM_ASSIGN_OR_RETURN(Node * end, Add("done", "NoOp", {}, waits_for, {}, "", false));
    graph_.MoveControlConsumers(call, end);
    graph_.RemoveNode(call);
    return absl::OkStatus();
  }

  const Node& call_;
  const DeviceName device_;
  Graph& graph_;
};

}  // namespace

bool CanInlineCall(const Node& node) {
  return node.Is("PartitionedCall") || node.Is("StatefulPartitionedCall") || node.Is("If") ||
         node.Is("StatelessIf");
}

absl::Status InlineCall(Node* call, const std::string& device, Graph& graph) {
  TANDEM_ASSIGN_OR_RETURN(const DeviceName where, DeviceName::Parse(device));
  Inliner inliner(call, where, graph);
  if (const auto* function = call->Attr<FunctionRef>("f")) return inliner.Call(*function);
  return inliner.Conditional(*call->Attr<FunctionRef>("then_branch"),
                             *call->Attr<FunctionRef>("else_branch"));
}

}  // namespace tandem
