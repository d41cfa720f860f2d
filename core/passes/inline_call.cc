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
#include "core/tensor/tensor.h"

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
    TANDEM_ASSIGN_OR_RETURN(const BodyPtr body, Instantiate(function));
    TANDEM_ASSIGN_OR_RETURN(const Copy copy, CopyBody(function, *body, call_.name(), args, begin));
    std::vector<Node*> ends = copy.effects;
    ends.push_back(begin);
    for (const Output& result : copy.results) ends.push_back(result.node);
    return Replace(copy.results, ends);
  }

  // An If, or a Case: `branches`, by the output of the switch that they hang on, with their names.
  absl::Status Conditional(const std::vector<std::pair<std::string, FunctionRef>>& branches) {
    const bool is_case = IsCase(call_);
    Output condition = call_.input(0);
    if (!is_case) {
      TANDEM_ASSIGN_OR_RETURN(condition, AsBool(condition, "condition"));
    }
    TANDEM_ASSIGN_OR_RETURN(Node * begin, AddBegin());
    const auto add_switch = [&](const std::string& name, const Output& value, bool follows) {
      AttrMap attrs;
      if (is_case) attrs["num_outs"] = static_cast<int64_t>(branches.size());
      return Add(name, is_case ? "_SwitchN" : "Switch", {value, condition}, {begin},
                 std::move(attrs), "", follows);
    };
    // Which branch is taken, for what has no inputs of its own.
    TANDEM_ASSIGN_OR_RETURN(Node * pivots, add_switch("pivot", condition, false));
    std::vector<Node*> switches;
    for (int i = 1; i < call_.num_inputs(); ++i) {
      const bool is_handle = call_.input(i).dtype() == kResource;
      TANDEM_ASSIGN_OR_RETURN(Node * each, add_switch("switch", call_.input(i), is_handle));
      switches.push_back(each);
    }
    std::vector<std::vector<Output>> results(static_cast<size_t>(call_.num_outputs()));
    std::vector<Output> ends;
    for (size_t b = 0; b < branches.size(); ++b) {
      const auto& [name, function] = branches[b];
      const int index = static_cast<int>(b);
      std::vector<Output> args;
      for (Node* each : switches) args.push_back(each->output(index));
      TANDEM_ASSIGN_OR_RETURN(Node * pivot,
                              Add(name, "Identity", {pivots->output(index)}, {}, {}, "", false));
      TANDEM_ASSIGN_OR_RETURN(const BodyPtr body, Instantiate(function));
      TANDEM_ASSIGN_OR_RETURN(
          const Copy copy,
          CopyBody(function, *body, absl::StrCat(call_.name(), "/", name), args, pivot));
      std::vector<Node*> waits_for = copy.effects;
      waits_for.push_back(pivot);
      TANDEM_ASSIGN_OR_RETURN(Node * end, Add(name + "_end", "Identity", {pivots->output(index)},
                                              waits_for, {}, "", false));
      ends.push_back(end->output(0));
      if (copy.results.size() != results.size()) {
        return errors::InvalidArgument("function '", function.name, "' has ", copy.results.size(),
                                       " results; node '", call_.name(), "', which calls it, has ",
                                       results.size(), " outputs");
      }
      for (size_t i = 0; i < results.size(); ++i) results[i].push_back(copy.results[i]);
    }
    std::vector<Output> merged;
    for (std::vector<Output>& each : results) {
      TANDEM_ASSIGN_OR_RETURN(Node * merge,
                              Add("merge", "Merge", std::move(each), {}, {}, "", false));
      merged.push_back(merge->output(0));
    }
    TANDEM_ASSIGN_OR_RETURN(Node * end, Add("end", "Merge", ends, {}, {}, "", false));
    std::vector<Node*> waits_for = {end};
    for (const Output& result : merged) waits_for.push_back(result.node);
    return Replace(merged, waits_for);
  }

  // Every value goes round by Enter, Merge, Switch and NextIteration, but for those that the body
  // gives back as they are: all rounds see the one that entered.
  absl::Status Loop(const FunctionRef& condition, const FunctionRef& body) {
    TANDEM_ASSIGN_OR_RETURN(const BodyPtr check, Instantiate(condition));
    TANDEM_ASSIGN_OR_RETURN(const BodyPtr round, Instantiate(body));
    TANDEM_RETURN_IF_ERROR(CheckLoop(condition, *check, body, *round));
    TANDEM_ASSIGN_OR_RETURN(Node * begin, AddBegin());
    // What has effects waits, in every round, for all that it is given; other things need not.
    const bool in_order = HasEffects(*check) || HasEffects(*round);
    // A value that means nothing goes round with the others, for who waits for a round.
    TANDEM_ASSIGN_OR_RETURN(
        Node * start, Add("start", "Const", {}, {begin},
                          {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(0)}}, "", false));
    TANDEM_ASSIGN_OR_RETURN(Node * turn, AddRoundValue(start->output(0), begin));
    std::vector<Output> values;
    std::vector<bool> stays;
    std::vector<Node*> in_round = {turn};
    for (int i = 0; i < call_.num_inputs(); ++i) {
      stays.push_back(StaysTheSame(*round, i));
      if (stays.back()) {
        AttrMap attrs = FrameAttrs();
        attrs["is_constant"] = true;
        TANDEM_ASSIGN_OR_RETURN(
            Node * enter, Add("enter", "Enter", {call_.input(i)}, {begin}, std::move(attrs), "",
                              call_.input(i).dtype() == kResource));
        values.push_back(enter->output(0));
      } else {
        TANDEM_ASSIGN_OR_RETURN(Node * merge, AddRoundValue(call_.input(i), begin));
        values.push_back(merge->output(0));
        if (in_order) in_round.push_back(merge);
      }
    }
    // The condition.
    TANDEM_ASSIGN_OR_RETURN(
        Node * check_begin,
        Add("round", "Identity", {turn->output(0)},
            std::vector<Node*>(in_round.begin() + 1, in_round.end()), {}, "", false));
    std::vector<Output> args = values;
    if (in_order) TANDEM_RETURN_IF_ERROR(LetWait(check_begin, &args));
    TANDEM_ASSIGN_OR_RETURN(
        const Copy checked,
        CopyBody(condition, *check, absl::StrCat(call_.name(), "/cond"), args, check_begin));
    TANDEM_ASSIGN_OR_RETURN(const Output answer, AsBool(checked.results[0], "condition"));
    TANDEM_ASSIGN_OR_RETURN(Node * goes_on,
                            Add("goes_on", "LoopCond", {answer}, {}, {}, "", false));
    TANDEM_ASSIGN_OR_RETURN(Node * after_check, Add("checked", "Identity", {turn->output(0)},
                                                    checked.effects, {}, "", false));
    // The body.
    const auto add_switch = [&](const Output& value) {
      return Add("switch", "Switch", {value, goes_on->output(0)}, {}, {}, "", false);
    };
    TANDEM_ASSIGN_OR_RETURN(Node * turns, add_switch(after_check->output(0)));
    TANDEM_ASSIGN_OR_RETURN(Node * body_begin,
                            Add("body", "Identity", {turns->output(1)}, {}, {}, "", false));
    TANDEM_ASSIGN_OR_RETURN(Node * end, Add("end", "Exit", {turns->output(0)}, {}, {}, "", false));
    std::vector<Output> results;
    args.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      std::vector<Output> arg = {values[i]};
      if (stays[i]) {
        // Every round has it, also the one in which the body does not run.
        TANDEM_RETURN_IF_ERROR(LetWait(body_begin, &arg));
        const bool is_handle = values[i].dtype() == kResource;
        TANDEM_ASSIGN_OR_RETURN(
            Node * result, Add("result", "Identity", {call_.input(static_cast<int>(i))}, {end}, {},
                               "", is_handle));
        results.push_back(result->output(0));
      } else {
        TANDEM_ASSIGN_OR_RETURN(Node * ways, add_switch(values[i]));
        arg = {ways->output(1)};
        if (in_order) TANDEM_RETURN_IF_ERROR(LetWait(body_begin, &arg));
        TANDEM_ASSIGN_OR_RETURN(Node * exit,
                                Add("exit", "Exit", {ways->output(0)}, {}, {}, "", false));
        results.push_back(exit->output(0));
      }
      args.push_back(arg[0]);
    }
    TANDEM_ASSIGN_OR_RETURN(
        const Copy done,
        CopyBody(body, *round, absl::StrCat(call_.name(), "/body"), args, body_begin));
    TANDEM_ASSIGN_OR_RETURN(Node * turned, Add("turned", "Identity", {body_begin->output(0)},
                                               done.effects, {}, "", false));
    TANDEM_RETURN_IF_ERROR(GoRound(turned->output(0), turn));
    for (size_t i = 0; i < values.size(); ++i) {
      if (!stays[i]) TANDEM_RETURN_IF_ERROR(GoRound(done.results[i], values[i].node));
    }
    std::vector<Node*> ends = {end};
    for (const Output& result : results) ends.push_back(result.node);
    return Replace(results, ends);
  }

 private:
  using BodyPtr = std::unique_ptr<FunctionBody>;

  static bool IsCase(const Node& node) { return node.Is("Case") || node.Is("StatelessCase"); }

  absl::StatusOr<BodyPtr> Instantiate(const FunctionRef& function) const {
    return InstantiateFunction(function, graph_.shared_functions());
  }

  static bool HasEffects(const FunctionBody& body) {
    return absl::c_any_of(body.graph.nodes(), [](const Node* node) {
      return node->op().is_stateful && !node->Is("_Arg") && !node->Is("_Retval");
    });
  }

  // Result `i` of the body is its argument `i`.
  static bool StaysTheSame(const FunctionBody& body, int i) {
    const Node* ret = body.rets[static_cast<size_t>(i)];
    const Node* source = ret->input(0).node;
    while (source->Is("Identity") && source->control_inputs().empty()) {
      source = source->input(0).node;
    }
    return source == body.args[static_cast<size_t>(i)] && ret->control_inputs().empty();
  }

  absl::Status CheckLoop(const FunctionRef& condition, const FunctionBody& check,
                         const FunctionRef& body, const FunctionBody& round) const {
    const size_t values = static_cast<size_t>(call_.num_inputs());
    if (check.rets.size() != 1) {
      return errors::InvalidArgument("function '", condition.name,
                                     "', the condition of a loop, must have one result; it has ",
                                     check.rets.size());
    }
    if (round.args.size() != values || round.rets.size() != values) {
      return errors::InvalidArgument("function '", body.name, "', the body of a loop of ", values,
                                     " values, takes ", round.args.size(), " and gives ",
                                     round.rets.size());
    }
    for (int i = 0; i < call_.num_inputs(); ++i) {
      if (call_.input(i).dtype() != kResource || StaysTheSame(round, i)) continue;
      return errors::Unimplemented("node '", call_.name(), "' (", call_.type(),
                                   ") spans tasks, and its body gives another handle for value ", i,
                                   "; that is supported for loops in one task only");
    }
    return absl::OkStatus();
  }

  AttrMap FrameAttrs() const {
    AttrMap attrs = {{"frame_name", call_.name()}};
    if (const int64_t* parallel = call_.Attr<int64_t>("parallel_iterations")) {
      attrs["parallel_iterations"] = *parallel;
    }
    return attrs;
  }

  // What is `start` in the first round. Gives the Merge; GoRound tells it what comes then.
  absl::StatusOr<Node*> AddRoundValue(const Output& start, Node* begin) {
    TANDEM_ASSIGN_OR_RETURN(Node * enter,
                            Add("enter", "Enter", {start}, {begin}, FrameAttrs(), "", false));
    NodeSpec merge;
    merge.name = graph_.UniqueName(absl::StrCat(call_.name(), "/merge"));
    merge.op = "Merge";
    merge.inputs = {enter->output(0)};
    merge.first_missing_input = 1;
    merge.attrs = {{"T", enter->output_info(0).dtype}, {"N", int64_t{2}}};
    merge.device = device_.ToString();
    return graph_.AddNode(std::move(merge));
  }

  absl::Status GoRound(const Output& value, Node* merge) {
    TANDEM_ASSIGN_OR_RETURN(Node * next, Add("next", "NextIteration", {value}, {}, {}, "", false));
    return graph_.SetInput(merge, 1, next->output(0));
  }

  // Lets whoever is given the values run after `begin`.
  absl::Status LetWait(Node* begin, std::vector<Output>* values) {
    for (Output& value : *values) {
      const bool is_handle = value.dtype() == kResource;
      TANDEM_ASSIGN_OR_RETURN(Node * late,
                              Add("value", "Identity", {value}, {begin}, {}, "", is_handle));
      value = late->output(0);
    }
    return absl::OkStatus();
  }

  // Whether a value counts as true.
  absl::StatusOr<Output> AsBool(const Output& value, const std::string& name) {
    if (RemoveReference(value.dtype()) == kBool) return value;
    TANDEM_ASSIGN_OR_RETURN(Node * node, Add(name, "ToBool", {value}, {}, {}, "", false));
    return node->output(0);
  }

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
  absl::StatusOr<Copy> CopyBody(const FunctionRef& function, const FunctionBody& body,
                                const std::string& prefix, const std::vector<Output>& args,
                                Node* begin) {
    if (body.args.size() != args.size()) {
      return errors::InvalidArgument("function '", function.name, "' takes ", body.args.size(),
                                     " arguments and is called with ", args.size());
    }
    absl::flat_hash_map<const Node*, Node*> copies;
    absl::flat_hash_map<const Node*, Output> arg_values;
    for (size_t i = 0; i < args.size(); ++i) arg_values.emplace(body.args[i], args[i]);
    const auto value_of = [&](const Output& output) {
      const auto arg = arg_values.find(output.node);
      return arg != arg_values.end() ? arg->second : copies.at(output.node)->output(output.index);
    };
    Copy copy;
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, body.graph.TopologicalOrder());
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
    for (Node* ret : body.rets) {
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
    for (Node* control : body.control_rets) {
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
  static constexpr const char* kOps[] = {
      "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase",
      "While",           "StatelessWhile"};
  return absl::c_any_of(kOps, [&](const char* op) { return node.Is(op); });
}

absl::Status InlineCall(Node* call, const std::string& device, Graph& graph) {
  TANDEM_ASSIGN_OR_RETURN(const DeviceName where, DeviceName::Parse(device));
  Inliner inliner(call, where, graph);
  if (const auto* function = call->Attr<FunctionRef>("f")) return inliner.Call(*function);
  if (const auto* condition = call->Attr<FunctionRef>("cond")) {
    return inliner.Loop(*condition, *call->Attr<FunctionRef>("body"));
  }
  if (const auto* functions = call->Attr<std::vector<FunctionRef>>("branches")) {
    std::vector<std::pair<std::string, FunctionRef>> branches;
    for (const FunctionRef& function : *functions) {
      branches.emplace_back(absl::StrCat("branch_", branches.size()), function);
    }
    return inliner.Conditional(branches);
  }
  return inliner.Conditional({{"else", *call->Attr<FunctionRef>("else_branch")},
                              {"then", *call->Attr<FunctionRef>("then_branch")}});
}

}  // namespace tandem
