#include "strategies/parameter_server/cut_roles.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/passes/node_kinds.h"
#include "strategies/parameter_server/combination.h"
#include "strategies/parameter_server/parameter_builder.h"

namespace tandem::parameter_server {
namespace {

bool IsPlaceholder(const Node& node) { return node.Is("Placeholder") || node.Is("PlaceholderV2"); }

}  // namespace

absl::StatusOr<absl::optional<int>> ShardOfDevice(const std::string& device) {
  TANDEM_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(device));
  if (name.job != kServerJob) return absl::optional<int>();
  if (name.task.has_value()) return absl::optional<int>(*name.task);
  return errors::InvalidArgument("'", device, "' does not say which server (/job:", kServerJob,
                                 "/task:<n>)");
}

std::string WithoutServer(const std::string& device) {
  absl::StatusOr<DeviceName> name = DeviceName::Parse(device);
  if (!name.ok() || name->job != kServerJob) return device;
  name->job.reset();
  name->replica.reset();
  name->task.reset();
  return name->ToString();
}

bool CallsFunctions(const Node& node) {
  return absl::c_any_of(node.attrs(), [](const auto& attr) {
    return attr.second.template Get<FunctionRef>() != nullptr ||
           attr.second.template Get<std::vector<FunctionRef>>() != nullptr;
  });
}

absl::StatusOr<CutRoles> CutRoles::Find(const Graph& graph, const RunSignature& signature) {
  CutRoles roles(graph);
  TANDEM_RETURN_IF_ERROR(roles.Resolve(signature));
  TANDEM_RETURN_IF_ERROR(roles.FindNeeded());
  TANDEM_RETURN_IF_ERROR(roles.FindShards());
  roles.FindPushed();
  TANDEM_RETURN_IF_ERROR(roles.FindLevels());
  return roles;
}

absl::Status CutRoles::Resolve(const RunSignature& signature) {
  const auto endpoint = [&](const std::string& name, const char* kind) -> absl::StatusOr<Output> {
    absl::StatusOr<Output> output = graph_.GetOutput(name);
    if (!output.ok()) return WithContext(output.status(), kind);
    if (output->index == Consumer::kControl || output->node->num_outputs() == 0) {
      return errors::InvalidArgument(kind, ": '", name, "' has no value");
    }
    return output;
  };
  for (const std::string& name : signature.feeds) {
    TANDEM_ASSIGN_OR_RETURN(const Output output, endpoint(name, "feed"));
    if (!fed_.insert(output).second) {
      return errors::InvalidArgument("feed: '", name, "' is fed twice");
    }
    feeds_.push_back(output);
  }
  for (const std::string& name : signature.fetches) {
    TANDEM_ASSIGN_OR_RETURN(const Output output, endpoint(name, "fetch"));
    fetches_.push_back(output);
    ends_.insert(output.node);
  }
  for (const std::string& name : signature.targets) {
    absl::StatusOr<Node*> node = graph_.GetNode(name);
    if (!node.ok()) return WithContext(node.status(), "target");
    targets_.push_back(*node);
    ends_.insert(*node);
  }
  return absl::OkStatus();
}

absl::Status CutRoles::FindNeeded() {
  std::vector<Node*> stack;
  const auto need = [&](Node* node) {
    if (role(*node).role != Role::kUnneeded) return;
    role(*node).role = Role::kWorker;
    stack.push_back(node);
  };
  for (const Output& fetch : fetches_) {
    if (!IsFed(fetch)) need(fetch.node);
  }
  for (Node* target : targets_) need(target);
  while (!stack.empty()) {
    Node* const node = stack.back();
    stack.pop_back();
    for (const Output& input : node->inputs()) {
      if (!IsFed(input)) need(input.node);
    }
    for (Node* control : node->control_inputs()) {
      // A placeholder that is fed does not run.
      if (!IsPlaceholder(*control) || !IsFed(control->output(0))) need(control);
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> all, graph_.TopologicalOrder());
  for (Node* node : all) {
    if (!Is(*node, Role::kUnneeded)) order_.push_back(node);
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::optional<int>> CutRoles::ShardOfInputs(const Node& node) const {
  absl::optional<int> shard;
  const Node* first = nullptr;
  for (const Output& input : node.inputs()) {
    if (!Is(*input.node, Role::kHandle) || IsFed(input)) continue;
    const int here = of(*input.node).shard;
    if (shard.has_value() && *shard != here) {
      return errors::InvalidArgument("node '", node.name(), "' (", node.type(),
                                     ") takes the variables '", first->name(), "' of server ",
                                     *shard, " and '", input.node->name(), "' of server ", here,
                                     "; they must lie on one");
    }
    shard = here;
    first = input.node;
  }
  return shard;
}

// Of a node that takes a handle.
absl::Status CutRoles::CheckUse(const Node& node) const {
  if (IsRead(node) || IsUpdate(node)) return absl::OkStatus();
  if (IsControlFlow(node) || CallsFunctions(node)) {
    return errors::Unimplemented("node '", node.name(), "' (", node.type(),
                                 ") takes a variable of a parameter server into a ",
                                 CallsFunctions(node) ? "function" : "loop or conditional",
                                 "; read it outside, and give the value");
  }
  const bool leaves =
      absl::c_any_of(node.op().outputs, [](const ArgDef& arg) { return arg.type == kResource; });
  return errors::InvalidArgument(
      "node '", node.name(), "' (", node.type(), ") ",
      leaves || node.Is("Identity") || node.Is("IdentityN")
          ? "hands on the handle of a variable of a parameter server; take the handle itself"
          : "does something with a variable of a parameter server that is not known there");
}

absl::Status CutRoles::FindShards() {
  for (Node* node : order_) {
    if (node->Is("VarHandleOp")) {
      absl::StatusOr<absl::optional<int>> shard = ShardOfDevice(node->requested_device());
      if (!shard.ok()) return WithNode(shard.status(), *node);
      if (!shard->has_value()) continue;
      role(*node) = {Role::kHandle, **shard, 0};
      if (ends_.contains(node)) {
        return errors::InvalidArgument("'", node->name(),
                                       "' is the handle of a variable of a parameter server; it "
                                       "cannot be fetched, nor be a target");
      }
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(const absl::optional<int> shard, ShardOfInputs(*node));
    if (!shard.has_value()) continue;
    TANDEM_RETURN_IF_ERROR(CheckUse(*node));
    role(*node) = {IsRead(*node) ? Role::kPull : Role::kPush, *shard, 0};
  }
  return absl::OkStatus();
}

bool CutRoles::IsOnTheWay(Node& node, int shard) const {
  if (ends_.contains(&node)) return false;
  bool has_consumer = false;
  for (const Consumer& consumer : node.consumers()) {
    const Role role = of(*consumer.node).role;
    if (role == Role::kUnneeded) continue;
    if (consumer.input == Consumer::kControl) {
      if (!IsPush(*consumer.node, shard)) return false;
      continue;
    }
    if (IsFed(node.output(consumer.output))) continue;
    if (!IsPush(*consumer.node, shard)) return false;
    has_consumer = true;
  }
  return has_consumer;
}

void CutRoles::FindPushed() {
  for (auto next = order_.rbegin(); next != order_.rend(); ++next) {
    Node& node = **next;
    const NodeRole before = of(node);
    if (before.role == Role::kPull) {
      if (IsOnTheWay(node, before.shard)) role(node).role = Role::kPush;
      continue;
    }
    // Constants are copied to where they are used anyway.
    if (before.role != Role::kWorker || IsFreeConstant(node)) continue;
    if (IsControlFlow(node) || CallsFunctions(node)) continue;
    const absl::StatusOr<absl::optional<int>> shard = ShardOfDevice(node.requested_device());
    if (!shard.ok() || !shard->has_value()) continue;
    if (IsOnTheWay(node, **shard)) role(node) = {Role::kPush, **shard, 0};
  }
}

absl::Status CutRoles::FindLevels() {
  // By node id: how many pulls are behind each other before a worker's node, and an update that it
  // comes after, if there is one.
  std::vector<int> depth(roles_.size(), 0);
  std::vector<const Node*> after(roles_.size(), nullptr);
  for (Node* node : order_) {
    const NodeRole& own = of(*node);
    if (own.role == Role::kHandle) continue;
    int level = 0;
    const Node* update = nullptr;
    const auto depend = [&](const Node& source) {
      const size_t id = static_cast<size_t>(source.id());
      switch (of(source).role) {
        case Role::kWorker:
          level = std::max(level, depth[id]);
          break;
        case Role::kPull:
          level = std::max(level, of(source).level + 1);
          break;
        case Role::kPush:
          // Within one update the shard keeps the order.
          if (own.role == Role::kPush && own.shard == of(source).shard) return;
          update = &source;
          return;
        case Role::kHandle:
        case Role::kUnneeded:
          return;
      }
      if (after[id] != nullptr) update = after[id];
    };
    for (const Output& input : node->inputs()) {
      if (!IsFed(input)) depend(*input.node);
    }
    for (const Node* control : node->control_inputs()) depend(*control);
    const size_t id = static_cast<size_t>(node->id());
    if (own.role == Role::kWorker) {
      depth[id] = level;
      after[id] = update;
      continue;
    }
    if (update != nullptr) {
      return errors::InvalidArgument(
          "node '", node->name(), "' (", node->type(), ") ",
          own.role == Role::kPull ? "reads" : "updates",
          " a variable of a parameter server after the update '", update->name(),
          "' of the same step; all reads come before all updates, and these at once");
    }
    if (own.role == Role::kPull) role(*node).level = level;
  }
  return absl::OkStatus();
}

bool CutRoles::IsPulled(const Output& output) const {
  if (absl::c_linear_search(fetches_, output)) return true;
  if (output.index == 0 && absl::c_linear_search(targets_, output.node)) return true;
  if (IsFed(output)) return false;
  return absl::c_any_of(output.node->consumers(), [&](const Consumer& consumer) {
    return consumer.input != Consumer::kControl && consumer.output == output.index &&
           !Is(*consumer.node, Role::kUnneeded);
  });
}

}  // namespace tandem::parameter_server
