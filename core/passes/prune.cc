#include "core/passes/prune.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"

namespace tandem {
namespace {

absl::StatusOr<Output> Endpoint(const Graph& graph, const std::string& name, const char* role) {
  absl::StatusOr<Output> output = graph.GetOutput(name);
  if (!output.ok()) return WithContext(output.status(), role);
  if (output->index == Consumer::kControl) {
    return errors::InvalidArgument(role, ": '", name, "' names a control edge, not a value");
  }
  if (output->node->num_outputs() == 0) {
    return errors::InvalidArgument(role, ": node '", name, "' (", output->node->type(),
                                   ") has no outputs; run it as a target");
  }
  return output;
}

}  // namespace

void RemoveUnneeded(const std::vector<Node*>& roots, Graph& graph) {
  std::vector<bool> needed(static_cast<size_t>(graph.id_limit()), false);
  std::vector<Node*> stack;
  const auto need = [&](Node* node) {
    if (node == nullptr || needed[static_cast<size_t>(node->id())]) return;
    needed[static_cast<size_t>(node->id())] = true;
    stack.push_back(node);
  };
  for (Node* root : roots) need(root);
  while (!stack.empty()) {
    Node* const node = stack.back();
    stack.pop_back();
    for (const Output& input : node->inputs()) need(input.node);
    for (Node* control : node->control_inputs()) need(control);
  }
  std::vector<Node*> unneeded;
  for (Node* node : graph.nodes()) {
    if (!needed[static_cast<size_t>(node->id())]) unneeded.push_back(node);
  }
  graph.RemoveNodes(unneeded);
}

absl::Status PruneToSignature(const RunSignature& signature, const std::string& host_device,
                              Graph& graph) {
  if (signature.fetches.empty() && signature.targets.empty()) {
    return errors::InvalidArgument("a run must fetch or target something; it names neither");
  }
  // All names are resolved before anything changes.
  std::vector<Output> feeds;
  absl::flat_hash_map<Output, size_t> fed;
  for (const std::string& name : signature.feeds) {
    TANDEM_ASSIGN_OR_RETURN(const Output output, Endpoint(graph, name, "feed"));
    if (!fed.emplace(output, feeds.size()).second) {
      return errors::InvalidArgument("feed: '", name, "' is fed twice");
    }
    feeds.push_back(output);
  }
  std::vector<Output> fetches;
  for (const std::string& name : signature.fetches) {
    TANDEM_ASSIGN_OR_RETURN(const Output output, Endpoint(graph, name, "fetch"));
    fetches.push_back(output);
  }
  std::vector<Node*> roots;
  for (const std::string& name : signature.targets) {
    // A target need not have outputs.
    if (Node* const node = graph.FindNode(name)) {
      roots.push_back(node);
      continue;
    }
    absl::StatusOr<Output> target = graph.GetOutput(name);
    if (!target.ok()) return WithContext(target.status(), "target");
    roots.push_back(target->node);
  }

  std::vector<Node*> args;
  for (size_t i = 0; i < feeds.size(); ++i) {
    NodeSpec spec;
    spec.name = graph.UniqueName(absl::StrCat("_arg_", feeds[i].node->name(), "_", i));
    spec.op = "_Arg";
    spec.attrs = {{"T", RemoveReference(feeds[i].dtype())}, {"index", static_cast<int64_t>(i)}};
    spec.device = host_device;
    TANDEM_ASSIGN_OR_RETURN(Node * arg, graph.AddNode(std::move(spec)));
    args.push_back(arg);
    TANDEM_RETURN_IF_ERROR(WithContext(graph.ReplaceOutput(feeds[i], arg->output(0)), "feed"));
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    const auto arg = fed.find(fetches[i]);
    const Output source = arg == fed.end() ? fetches[i] : args[arg->second]->output(0);
    NodeSpec spec;
    spec.name = graph.UniqueName(absl::StrCat("_retval_", source.node->name(), "_", i));
    spec.op = "_Retval";
    spec.inputs = {source};
    spec.attrs = {{"index", static_cast<int64_t>(i)}};
    spec.device = host_device;
    TANDEM_ASSIGN_OR_RETURN(Node * retval, graph.AddNode(std::move(spec)));
    roots.push_back(retval);
  }
  // Who waits for a fed placeholder waits for the feed: it cannot run. Any other node runs when
  // somebody waits for it by a control edge, although its value is not looked at.
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].node->Is("Placeholder") || feeds[i].node->Is("PlaceholderV2")) {
      graph.MoveControlConsumers(feeds[i].node, args[i]);
    }
  }
  RemoveUnneeded(roots, graph);
  return absl::OkStatus();
}

}  // namespace tandem
