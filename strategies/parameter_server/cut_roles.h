// CutRoles: what becomes of each node of a graph that is cut (cut.h).
//
// Threads: any, once made. Lifetime: the graph outlives it, and does not change.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_ROLES_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_ROLES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "core/graph/graph.h"
#include "core/passes/prune.h"

namespace tandem::parameter_server {

enum class Role {
  kUnneeded,  // Nothing depends on it that is fetched or a target.
  kWorker,
  kHandle,  // Of a variable of a shard.
  kPull,    // Reads a variable for the worker.
  kPush,    // Runs in the shard's update: changes a variable, or is on the way to that.
};

struct NodeRole {
  Role role = Role::kUnneeded;
  int shard = -1;
  // Of a pull: how many pulls are behind each other before it.
  int level = 0;
};

class CutRoles {
 public:
  // NotFound, InvalidArgument: a name of the signature; what CutGraph refuses. Unimplemented: as
  // CutGraph.
  static absl::StatusOr<CutRoles> Find(const Graph& graph, const RunSignature& signature);

  const NodeRole& of(const Node& node) const { return roles_[static_cast<size_t>(node.id())]; }
  bool Is(const Node& node, Role role) const { return of(node).role == role; }
  bool IsPush(const Node& node, int shard) const {
    return Is(node, Role::kPush) && of(node).shard == shard;
  }
  // All nodes that are needed, each after those it depends on.
  const std::vector<Node*>& order() const { return order_; }
  const std::vector<Output>& feeds() const { return feeds_; }
  const std::vector<Output>& fetches() const { return fetches_; }
  const std::vector<Node*>& targets() const { return targets_; }
  bool IsFed(const Output& output) const { return fed_.contains(output); }
  // Of a read: whether the worker needs this output.
  bool IsPulled(const Output& output) const;

 private:
  explicit CutRoles(const Graph& graph)
      : graph_(graph), roles_(static_cast<size_t>(graph.id_limit())) {}

  absl::Status Resolve(const RunSignature& signature);
  absl::Status FindNeeded();
  absl::Status FindShards();
  void FindPushed();
  absl::Status FindLevels();
  NodeRole& role(const Node& node) { return roles_[static_cast<size_t>(node.id())]; }
  // The shard whose handle it takes; none: it takes no handle.
  absl::StatusOr<absl::optional<int>> ShardOfInputs(const Node& node) const;
  // Whether all that is done with its values is done in the shard's update.
  bool IsOnTheWay(Node& node, int shard) const;
  absl::Status CheckUse(const Node& node) const;

  const Graph& graph_;
  std::vector<NodeRole> roles_;  // By node id.
  std::vector<Node*> order_;
  std::vector<Output> feeds_;
  std::vector<Output> fetches_;
  std::vector<Node*> targets_;
  absl::flat_hash_set<Output> fed_;        // Looked up only, as the next.
  absl::flat_hash_set<const Node*> ends_;  // That are fetched or targets.
};

// The shard of a device "/job:ps/task:<n>/…". None: it is no server's. InvalidArgument: a server's
// without a number, or one that does not parse.
absl::StatusOr<absl::optional<int>> ShardOfDevice(const std::string& device);
// The device without its task, if that is a server's.
std::string WithoutServer(const std::string& device);
// Whether one of its attributes names a function of the graph's library.
bool CallsFunctions(const Node& node);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_ROLES_H_
