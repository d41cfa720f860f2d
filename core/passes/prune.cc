#include "core/passes/prune.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/graph/missing_op.h"
#include "core/passes/partial_ends.h"

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

// The node when `name` is an output that nobody knows of, since the node's op is missing. Null
// else.
Node* MissingOutput(const Graph& graph, absl::string_view name) {
  Node* const node = graph.FindNode(name.substr(0, name.find(':')));
  if (node == nullptr || !node->Is(kMissingOp)) return nullptr;
  return graph.GetOutput(name).ok() && node->num_outputs() > 0 ? nullptr : node;
}

// Ends of the step where its caller begins.
NodeSpec FeedEnd(const RunSignature& signature, size_t i, DataType type) {
  NodeSpec spec;
  if (signature.is_partial) {
    spec.op = "_HostRecv";
    spec.attrs = {{"tensor_type", type},
                  {"tensor_name", PartialFeedEdge(i)},
                  {"send_device", std::string(kPartialClient)},
                  {"send_device_incarnation", int64_t{0}},
                  {"recv_device", std::string(kPartialClient)},
                  {"client_terminated", true},
                  {"_alive", true}};
  } else {
    spec.op = "_Arg";
    spec.attrs = {{"T", type}, {"index", static_cast<int64_t>(i)}};
  }
  return spec;
}

NodeSpec FetchEnd(const RunSignature& signature, size_t i, Output source) {
  NodeSpec spec;
  spec.inputs = {source};
  if (signature.is_partial) {
    spec.op = "_HostSend";
    spec.attrs = {{"tensor_name", PartialFetchEdge(i)},
                  {"send_device", std::string(kPartialClient)},
                  {"send_device_incarnation", int64_t{0}},
                  {"recv_device", std::string(kPartialClient)},
                  {"client_terminated", true}};
  } else {
    spec.op = "_Retval";
    spec.attrs = {{"index", static_cast<int64_t>(i)}};
  }
  return spec;
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
  std::vector<Output> feeds;  // Not valid: of an output that nobody takes.
  absl::flat_hash_map<Output, size_t> fed;
  for (const std::string& name : signature.feeds) {
    if (MissingOutput(graph, name) != nullptr) {
      feeds.emplace_back();
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(const Output output, Endpoint(graph, name, "feed"));
    if (!fed.emplace(output, feeds.size()).second) {
      return errors::InvalidArgument("feed: '", name, "' is fed twice");
    }
    feeds.push_back(output);
  }
  std::vector<Node*> roots;
  std::vector<Output> fetches;
  for (const std::string& name : signature.fetches) {
    if (Node* const node = MissingOutput(graph, name)) {
      roots.push_back(node);  // For the message.
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(const Output output, Endpoint(graph, name, "fetch"));
    fetches.push_back(output);
  }
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

  std::vector<Node*> args(feeds.size(), nullptr);
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!feeds[i].valid()) continue;
    NodeSpec spec = FeedEnd(signature, i, RemoveReference(feeds[i].dtype()));
    spec.name = graph.UniqueName(absl::StrCat("_arg_", feeds[i].node->name(), "_", i));
    spec.device = host_device;
    TANDEM_ASSIGN_OR_RETURN(args[i], graph.AddNode(std::move(spec)));
    TANDEM_RETURN_IF_ERROR(WithContext(graph.ReplaceOutput(feeds[i], args[i]->output(0)), "feed"));
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    const auto arg = fed.find(fetches[i]);
    const Output source = arg == fed.end() ? fetches[i] : args[arg->second]->output(0);
    NodeSpec spec = FetchEnd(signature, i, source);
    spec.name = graph.UniqueName(absl::StrCat("_retval_", source.node->name(), "_", i));
    spec.device = host_device;
    TANDEM_ASSIGN_OR_RETURN(Node * retval, graph.AddNode(std::move(spec)));
    roots.push_back(retval);
  }
  // Who waits for a fed placeholder waits for the feed: it cannot run. Any other node runs when
  // somebody waits for it by a control edge, although its value is not looked at.
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!feeds[i].valid()) continue;
    if (feeds[i].node->Is("Placeholder") || feeds[i].node->Is("PlaceholderV2")) {
      graph.MoveControlConsumers(feeds[i].node, args[i]);
    }
  }
  RemoveUnneeded(roots, graph);
  return CheckNoMissingOps(graph);
}

}  // namespace tandem
