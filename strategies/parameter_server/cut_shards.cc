#include "strategies/parameter_server/cut_shards.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "strategies/parameter_server/combination.h"
#include "strategies/parameter_server/shard_side.h"

namespace tandem::parameter_server {
namespace {

// The updates that the targets stand for, by shard.
absl::StatusOr<std::map<int, std::vector<const Node*>>> UpdatesOf(const CutRoles& roles,
                                                                  const CutOptions& options) {
  std::map<int, std::vector<const Node*>> updates;
  absl::flat_hash_set<const Node*> seen;
  std::vector<const Node*> stack(roles.targets().begin(), roles.targets().end());
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    if (IsUpdate(*node) && roles.Is(*node, Role::kPush)) {
      updates[roles.of(*node).shard].push_back(node);
    } else if (node->Is("NoOp")) {
      stack.insert(stack.end(), node->control_inputs().begin(), node->control_inputs().end());
    } else {
      return errors::InvalidArgument("step '", options.name, "' is to run without a worker; node '",
                                     node->name(), "' (", node->type(),
                                     ") changes no variable of a parameter server");
    }
  }
  return updates;
}

// All that `updates` depend on.
absl::StatusOr<absl::flat_hash_set<const Node*>> Closure(const CutRoles& roles, int shard,
                                                         const std::vector<const Node*>& updates) {
  absl::flat_hash_set<const Node*> closure;
  std::vector<const Node*> stack = updates;
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (!closure.insert(node).second) continue;
    const NodeRole& role = roles.of(*node);
    if (role.role != Role::kWorker && role.shard != shard) {
      return errors::InvalidArgument("the updates of server ", shard, " depend on node '",
                                     node->name(), "' of server ", role.shard,
                                     "; without a worker nothing goes from one to another");
    }
    for (const Output& input : node->inputs()) stack.push_back(input.node);
    stack.insert(stack.end(), node->control_inputs().begin(), node->control_inputs().end());
  }
  return closure;
}

}  // namespace

absl::StatusOr<CutStep> CutForShards(const Graph& graph, const CutRoles& roles,
                                     const CutOptions& options) {
  if (!roles.feeds().empty() || !roles.fetches().empty()) {
    return errors::InvalidArgument("step '", options.name,
                                   "' is to run without a worker; it has feeds or fetches");
  }
  TANDEM_ASSIGN_OR_RETURN(const auto updates, UpdatesOf(roles, options));
  CutStep step{Graph(graph.registry()), {}, /*has_worker=*/false, {}};
  for (const auto& [shard, nodes] : updates) {
    TANDEM_ASSIGN_OR_RETURN(const absl::flat_hash_set<const Node*> closure,
                            Closure(roles, shard, nodes));
    ShardSide shard_side(
        graph, absl::c_any_of(closure, [](const Node* node) { return CallsFunctions(*node); }));
    ShardSide::Call call;
    call.program.set_name(absl::StrCat(options.name, "/push"));
    call.program.set_updates(true);
    for (const Node* node : roles.order()) {
      if (!closure.contains(node)) continue;
      TANDEM_RETURN_IF_ERROR(shard_side.Add(
          *node, [](const Output&) { return true; }, call));
      if (IsUpdate(*node)) call.program.add_targets(node->name());
    }
    ShardPart part;
    part.shard = shard;
    TANDEM_ASSIGN_OR_RETURN(part.graph, shard_side.Export());
    part.programs.push_back(std::move(call.program));
    step.shards.push_back(std::move(part));
  }
  return step;
}

}  // namespace tandem::parameter_server
