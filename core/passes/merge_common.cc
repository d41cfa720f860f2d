#include "core/passes/merge_common.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/passes/node_kinds.h"

namespace tandem {
namespace {

// So many bytes of a constant go into its hash; equality looks at all of them.
constexpr size_t kHashedBytes = 4096;

std::vector<int> ControlIds(const Node& node) {
  std::vector<int> ids;
  for (const Node* control : node.control_inputs()) ids.push_back(control->id());
  absl::c_sort(ids);
  return ids;
}

bool Counts(const AttrMap::value_type& attr) { return !absl::StartsWith(attr.first, "_"); }

size_t Hash(const Tensor& tensor) {
  const size_t start = absl::HashOf(tensor.dtype(), tensor.shape().dims());
  if (!IsTriviallyCopyable(tensor.dtype())) return start;
  const absl::string_view bytes(static_cast<const char*>(tensor.data()),
                                std::min(tensor.num_bytes(), kHashedBytes));
  return absl::HashOf(start, bytes);
}

size_t Hash(const Node& node) {
  size_t hash = absl::HashOf(&node.op(), node.device(), node.inputs(), ControlIds(node));
  for (const auto& attr : node.attrs()) {
    if (!Counts(attr)) continue;
    const Tensor* const tensor = attr.second.Get<Tensor>();
    hash = tensor != nullptr ? absl::HashOf(hash, attr.first, Hash(*tensor))
                             : absl::HashOf(hash, attr.first, attr.second.DebugString());
  }
  return hash;
}

bool AttrsAreEqual(const AttrMap& a, const AttrMap& b) {
  auto i = a.begin();
  auto j = b.begin();
  while (true) {
    while (i != a.end() && !Counts(*i)) ++i;
    while (j != b.end() && !Counts(*j)) ++j;
    if (i == a.end() || j == b.end()) return i == a.end() && j == b.end();
    if (i->first != j->first || i->second != j->second) return false;
    ++i;
    ++j;
  }
}

bool AreTheSame(const Node& a, const Node& b) {
  return &a.op() == &b.op() && a.device() == b.device() && a.inputs() == b.inputs() &&
         ControlIds(a) == ControlIds(b) && AttrsAreEqual(a.attrs(), b.attrs());
}

}  // namespace

absl::Status MergeCommon(Graph& graph) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  // Only looked up in, never walked through: the outcome depends on `order` alone.
  absl::flat_hash_map<size_t, std::vector<Node*>> seen;
  for (Node* node : order) {
    // Without outputs there is nothing to share; such a node orders others, or is a target.
    if (node->num_outputs() == 0 || node->consumers().empty() || !IsPure(*node)) continue;
    std::vector<Node*>& alike = seen[Hash(*node)];
    const auto same =
        absl::c_find_if(alike, [&](const Node* other) { return AreTheSame(*other, *node); });
    if (same == alike.end()) {
      alike.push_back(node);
      continue;
    }
    for (int i = 0; i < node->num_outputs(); ++i) {
      TANDEM_RETURN_IF_ERROR(graph.ReplaceOutput(node->output(i), (*same)->output(i)));
    }
    graph.MoveControlConsumers(node, *same);
  }
  return absl::OkStatus();
}

}  // namespace tandem
