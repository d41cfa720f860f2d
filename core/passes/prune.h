// Prune: cuts a graph down to what one run needs.
#ifndef TANDEM_CORE_PASSES_PRUNE_H_
#define TANDEM_CORE_PASSES_PRUNE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace tandem {

// What a run is asked to do, by names: "node:output" for feeds and fetches, "node" for targets. The
// order counts.
struct RunSignature {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  // The feeds come, and the fetched values leave, while the step runs, through its rendezvous
  // (core/passes/partial_ends.h). Callables of such a signature take no feeds and give no results.
  bool is_partial = false;
};

// Replaces every feed by a node _Arg, puts a node _Retval on every fetch (both with the attribute
// `index`), and removes all nodes that neither a fetch nor a target depends on. The new nodes are
// requested on `host_device`. Of a partial signature the new nodes are ends of edges to whoever
// feeds and fetches.
//
// NotFound: a name that is not in the graph (near ones are suggested). InvalidArgument: an output
// that does not exist, or that is fed twice; nothing is asked for. NotFound: what is needed has ops
// that were not known when the graph was imported, all of which the message names.
absl::Status PruneToSignature(const RunSignature& signature, const std::string& host_device,
                              Graph& graph);

// Removes what none of `roots` depends on.
void RemoveUnneeded(const std::vector<Node*>& roots, Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_PRUNE_H_
