#include "core/passes/fuse_updates.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/passes/node_kinds.h"
#include "core/passes/rewrite.h"

namespace tandem {
namespace {

// The op that does for many variables what `op` does for one; null when there is none.
const OpDef* ManyOf(const OpDef& op, const OpRegistry& registry) {
  absl::string_view rule = op.name;
  if (!absl::ConsumePrefix(&rule, "ResourceApply") && !absl::ConsumePrefix(&rule, "_TandemApply")) {
    return nullptr;
  }
  return registry.Find(absl::StrCat("_TandemApplyMany", rule));
}

// What updates have to have in common to become one. Nodes are named by their ids.
struct GroupKey {
  std::string op;
  std::string device;
  std::string attrs;
  int level = 0;
  std::vector<std::pair<int, int>> scalars;
  std::vector<int> control_inputs;

  friend bool operator<(const GroupKey& a, const GroupKey& b) {
    const auto fields = [](const GroupKey& k) {
      return std::tie(k.op, k.device, k.attrs, k.level, k.scalars, k.control_inputs);
    };
    return fields(a) < fields(b);
  }
};

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph) {}

  absl::Status Run() {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
    Survey(order);
    std::vector<Node*> replaced;
    for (const auto& [key, members] : groups_) {
      if (members.size() < 2) continue;
      TANDEM_RETURN_IF_ERROR(Fuse(members));
      replaced.insert(replaced.end(), members.begin(), members.end());
    }
    graph_.RemoveNodes(replaced);
    return absl::OkStatus();
  }

 private:
  // Finds out of every node what lies before it, and puts the updates into groups.
  void Survey(const std::vector<Node*>& order) {
    struct Before {
      int updates = 0;  // The most updates on a path to the node.
      bool control_flow = false;
      const OpDef* many = nullptr;  // The node itself is an update.
    };
    std::vector<Before> before(static_cast<size_t>(graph_.id_limit()));
    for (Node* node : order) {
      Before& mine = before[static_cast<size_t>(node->id())];
      const auto follow = [&](const Node* source) {
        const Before& its = before[static_cast<size_t>(source->id())];
        mine.updates = std::max(mine.updates, its.updates + (its.many != nullptr ? 1 : 0));
        mine.control_flow |= its.control_flow;
      };
      for (const Output& input : node->inputs()) follow(input.node);
      for (const Node* control : node->control_inputs()) follow(control);
      mine.control_flow |= IsControlFlow(*node);
      mine.many = ManyOf(node->op(), graph_.registry());
      if (mine.many != nullptr && !mine.control_flow && *node->Attr<DataType>("T") == kFloat32 &&
          HasKernelBeside(*node, graph_, mine.many->name, node->attrs())) {
        groups_[KeyOf(*node, *mine.many, mine.updates)].push_back(node);
      }
    }
  }

  static GroupKey KeyOf(const Node& node, const OpDef& many, int level) {
    GroupKey key;
    key.op = node.type();
    key.device = node.device();
    key.level = level;
    for (const auto& [name, value] : node.attrs()) {
      // Names for tools begin with an underscore; they say nothing of the update.
      if (name[0] == '_') continue;
      absl::StrAppend(&key.attrs, name, "=", value.DebugString(), ";");
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (!IsPerVariable(many.inputs[static_cast<size_t>(i)])) {
        key.scalars.emplace_back(node.input(i).node->id(), node.input(i).index);
      }
    }
    for (const Node* control : node.control_inputs()) key.control_inputs.push_back(control->id());
    std::sort(key.control_inputs.begin(), key.control_inputs.end());
    return key;
  }

  static bool IsPerVariable(const ArgDef& arg) { return !arg.number_attr.empty(); }

  absl::Status Fuse(const std::vector<Node*>& members) {
    Node* const first = members.front();
    const OpDef& many = *ManyOf(first->op(), graph_.registry());
    NodeSpec spec;
    spec.op = many.name;
    for (const AttrDef& attr : many.attrs) {
      const auto found = first->attrs().find(attr.name);
      if (found != first->attrs().end()) spec.attrs[attr.name] = found->second;
    }
    spec.attrs["N"] = static_cast<int64_t>(members.size());
    for (int i = 0; i < first->num_inputs(); ++i) {
      if (!IsPerVariable(many.inputs[static_cast<size_t>(i)])) {
        spec.inputs.push_back(first->input(i));
        continue;
      }
      for (const Node* member : members) spec.inputs.push_back(member->input(i));
    }
    // All members have the control inputs of the first.
    TANDEM_ASSIGN_OR_RETURN(Node* const fused,
                            PutInPlaceOf({first}, first, std::move(spec), graph_));
    for (Node* member : members) graph_.MoveControlConsumers(member, fused);
    return absl::OkStatus();
  }

  Graph& graph_;
  std::map<GroupKey, std::vector<Node*>> groups_;
};

}  // namespace

absl::Status FuseUpdates(Graph& graph) { return Fuser(graph).Run(); }

}  // namespace tandem
