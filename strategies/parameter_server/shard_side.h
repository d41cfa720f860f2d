// ShardSide: what one shard gets of a graph that is cut (cut.h): copies of its nodes, and
// placeholders for what workers give it.
//
// A placeholder is called "<node>/argument_<output>" after the value that it stands for: programs
// that take the same value share it, and the nodes behind it.
//
// Threads: one. Lifetime: the whole graph outlives it.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_SHARD_SIDE_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_SHARD_SIDE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "proto/graph.pb.h"
#include "proto/parameter_server.pb.h"

namespace tandem::parameter_server {

class ShardSide {
 public:
  // A program, and the values of the whole graph that it takes, in order.
  struct Call {
    Program program;
    std::vector<Output> arguments;
  };

  // With `functions` its nodes may call the whole graph's functions.
  explicit ShardSide(const Graph& whole, bool functions = false);

  // Adds a copy of the node and of the handles and constants that it takes. Other inputs for which
  // `is_here` does not hold become arguments of `call`. Control edges from nodes that are here
  // stay. Does nothing for one that was added. REQUIRES: inputs that are here have been added.
  absl::Status Add(const Node& node, absl::FunctionRef<bool(const Output&)> is_here, Call& call);

  const std::vector<Call>& calls() const { return calls_; }
  void AddCall(Call call) { calls_.push_back(std::move(call)); }

  // The graph as a message. Errors as ExportGraphDef.
  absl::StatusOr<tensorflow::GraphDef> Export() const;

 private:
  absl::StatusOr<Output> Argument(const Output& source, Call& call);

  Graph graph_;
  std::vector<Call> calls_;
  // Looked up only.
  absl::flat_hash_map<const Node*, Node*> copies_;
  absl::flat_hash_map<Output, Output> arguments_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_SHARD_SIDE_H_
