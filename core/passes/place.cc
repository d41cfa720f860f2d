#include "core/passes/place.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"

namespace tandem {
namespace {

struct Candidate {
  DeviceName name;
  std::string text;
  int rank;  // Lower is better.
};

// Types that nobody ranked come last.
int RankOfType(const std::string& type) {
  return static_cast<int>(absl::c_find(kDeviceTypesByPreference, type) -
                          std::begin(kDeviceTypesByPreference));
}

// Nodes that have to stay together, as a forest over node ids.
class Groups {
 public:
  explicit Groups(size_t limit) : parent_(limit) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int id) {
    while (parent_[static_cast<size_t>(id)] != id) {
      int& parent = parent_[static_cast<size_t>(id)];
      parent = parent_[static_cast<size_t>(parent)];
      id = parent;
    }
    return id;
  }
  // The lower id becomes the group's number, so that groups do not depend on the order of joins.
  void Join(int a, int b) {
    a = Find(a);
    b = Find(b);
    if (a != b) parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

// Ops that the executor itself carries out; they have no kernels and run anywhere.
bool RunsAnywhere(const Node& node) {
  return node.Is("_Arg") || node.Is("_Retval") || node.Is("_TandemCopy");
}

bool HasKernel(const Node& node, const std::string& device_type) {
  return RunsAnywhere(node) ||
         OpRegistry::Global().FindKernel(node.op(), device_type, node.attrs()).ok();
}

class Placer {
 public:
  Placer(const PlaceOptions& options, Graph& graph)
      : options_(options), graph_(graph), groups_(static_cast<size_t>(graph.id_limit())) {}

  absl::Status Run() {
    TANDEM_ASSIGN_OR_RETURN(const DeviceName wished, DeviceName::Parse(options_.default_device));
    bool found = wished.IsEmpty();
    for (const std::string& text : options_.devices) {
      TANDEM_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(text));
      const bool is_default = !wished.IsEmpty() && Matches(wished, name);
      found |= is_default;
      candidates_.push_back({name, text, is_default ? -1 : RankOfType(*name.type)});
    }
    if (!found) {
      return errors::InvalidArgument(
          "the default device '", options_.default_device,
          "' is none of those there are: ", absl::StrJoin(options_.devices, ", "));
    }
    absl::c_stable_sort(candidates_,
                        [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
    TANDEM_RETURN_IF_ERROR(JoinGroups());
    std::vector<std::vector<Node*>> members(static_cast<size_t>(graph_.id_limit()));
    for (Node* node : graph_.nodes()) {
      members[static_cast<size_t>(groups_.Find(node->id()))].push_back(node);
    }
    for (const std::vector<Node*>& group : members) {
      if (!group.empty()) TANDEM_RETURN_IF_ERROR(PlaceGroup(group));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status JoinGroups() {
    for (Node* node : graph_.nodes()) {
      for (int i = 0; i < node->num_inputs(); ++i) {
        const DataType wanted = node->input_dtype(i);
        // Function calls may take handles of several devices; they look them up where they are.
        if (IsReference(wanted) ||
            (wanted == kResource && !RunsAnywhere(*node) && !IsCall(*node))) {
          groups_.Join(node->id(), node->input(i).node->id());
        }
        // A copy in between would make the back edge one like others, which close no loop.
        const Output source = node->input(i);
        if (source.valid() && IsBackEdge(*source.node, *node)) {
          groups_.Join(node->id(), source.node->id());
        }
      }
      const auto* classes = node->Attr<std::vector<std::string>>("_class");
      if (classes == nullptr) continue;
      for (absl::string_view text : *classes) {
        if (!absl::ConsumePrefix(&text, "loc:@")) continue;
        // A node that was pruned away is no company any more.
        if (Node* other = graph_.FindNode(text)) groups_.Join(node->id(), other->id());
      }
    }
    return absl::OkStatus();
  }

  // Takes a reference or a handle, and is placed with its source.
  static bool Follows(const Node& node) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      const DataType wanted = node.input_dtype(i);
      if (IsReference(wanted)) return true;
      if (wanted == kResource && !RunsAnywhere(node) && !IsCall(node)) return true;
    }
    return false;
  }

  static bool IsCall(const Node& node) {
    return absl::c_any_of(node.op().attrs, [](const AttrDef& attr) {
      return attr.kind == AttrKind::kFunction || attr.kind == AttrKind::kFunctionList;
    });
  }

  absl::Status PlaceGroup(const std::vector<Node*>& group) {
    DeviceName wish;
    const Node* wisher = nullptr;
    // First those that others follow: who is given a reference or a handle runs where it comes
    // from, whatever it wished itself.
    for (const bool follows : {false, true}) {
      for (const Node* node : group) {
        const std::string& requested = node->requested_device();
        if (requested.empty() || Follows(*node) != follows) continue;
        absl::StatusOr<DeviceName> name = DeviceName::Parse(requested);
        if (!name.ok()) return WithNode(name.status(), *node);
        const absl::Status merged = MergeDevice(
            *name, options_.soft ? DeviceMerge::kSoftPlacement : DeviceMerge::kStrict, &wish);
        if (!merged.ok()) {
          if (follows) continue;
          return errors::InvalidArgument(
              "node '", node->name(), "' shall run on '", requested, "', but it has to stay with '",
              wisher->name(), "', which shall run on '", wisher->requested_device(), "'");
        }
        if (wisher == nullptr) wisher = node;
      }
    }
    const Candidate* chosen = Choose(group, wish);
    if (chosen == nullptr && options_.soft) {
      DeviceName task = wish;
      task.type.reset();
      task.id.reset();
      chosen = Choose(group, task);
      if (chosen != nullptr && options_.moved != nullptr) {
        for (const Node* node : group) {
          options_.moved->push_back(absl::StrCat("node '", node->name(), "': wished ",
                                                 wish.ToString(), ", placed on ", chosen->text));
        }
      }
    }
    if (chosen == nullptr) return Refusal(group, wish);
    for (Node* node : group) node->set_device(chosen->text);
    return absl::OkStatus();
  }

  const Candidate* Choose(const std::vector<Node*>& group, const DeviceName& wish) const {
    for (const Candidate& candidate : candidates_) {
      if (!Matches(wish, candidate.name)) continue;
      const auto runs_there = [&](const Node* node) {
        return HasKernel(*node, *candidate.name.type);
      };
      if (absl::c_all_of(group, runs_there)) return &candidate;
    }
    return nullptr;
  }

  absl::Status Refusal(const std::vector<Node*>& group, const DeviceName& wish) const {
    std::vector<std::string> types;
    bool wish_matches = false;
    for (const Candidate& candidate : candidates_) {
      if (!Matches(wish, candidate.name)) continue;
      wish_matches = true;
      types.push_back(*candidate.name.type);
    }
    if (!wish_matches) {
      return errors::InvalidArgument("node '", group.front()->name(), "' (", group.front()->type(),
                                     ") shall run on '", wish.ToString(),
                                     "', but there is no such device; there are ",
                                     absl::StrJoin(options_.devices, ", "));
    }
    for (const Node* node : group) {
      for (const std::string& type : types) {
        const auto kernel = OpRegistry::Global().FindKernel(node->op(), type, node->attrs());
        if (!RunsAnywhere(*node) && !kernel.ok()) return WithNode(kernel.status(), *node);
      }
    }
    return errors::InvalidArgument("node '", group.front()->name(),
                                   "' and those it has to stay with find no device that has "
                                   "kernels for all of them");
  }

  const PlaceOptions& options_;
  Graph& graph_;
  Groups groups_;
  std::vector<Candidate> candidates_;
};

}  // namespace

absl::Status Place(const PlaceOptions& options, Graph& graph) {
  return Placer(options, graph).Run();
}

}  // namespace tandem
