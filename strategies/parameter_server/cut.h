// Cut: takes a step's graph apart into the worker's and the shards' (docs/decisions/
// parameter-servers.md).
//
// What takes a variable's handle (its read, a lookup of rows, an update), and the handle itself,
// belongs to the shard that the handle's device names, "/job:ps/task:<n>"; all else is the
// worker's, but for nodes that ask for a shard's device and of which only its updates take
// anything: those are computed there, from what all workers of a round have pushed. Constants are
// copied to where they are used.
//
// All reads of a shard that depend on no other read are one pull; those that depend on what was
// pulled are a further one, and so on. All updates of a shard are one push. No push begins before
// every pull has ended and every value that any shard is given is there: what fails before that
// changes nothing. What waits for a read waits for its pull, what waits for an update for its push.
//
// Programs without a worker, such as the initializer, whose values no worker shall compute, are cut
// with `shards_compute`: each shard computes all that its updates depend on.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/passes/prune.h"
#include "proto/graph.pb.h"
#include "proto/parameter_server.pb.h"

namespace tandem::parameter_server {

// The worker's feed that takes the route, a string scalar. It is the last of a signature's feeds.
inline constexpr char kRouteFeed[] = "route:0";

// What one shard is asked for by a program of the runner.
struct ShardPart {
  int shard = 0;
  tensorflow::GraphDef graph;  // Of the nodes that its programs need; names as in the whole graph.
  std::vector<Program> programs;
};

struct CutStep {
  // Nodes: the worker's, a placeholder for the route, and the pulls and pushes. A node of the graph
  // keeps its name; a read that is fetched, or an update that is a target, has a stand-in of its
  // name. `signature` has the feeds of the whole graph's, and the route.
  Graph worker;
  RunSignature signature;
  bool has_worker = true;         // False: the shards do all there is to do.
  std::vector<ShardPart> shards;  // By number; those that have something to do.
};

struct CutOptions {
  // Unique in a job: programs are called "<name>/pull" ("<name>/pull_1" and so on for what depends
  // on what was pulled), "<name>/push".
  std::string name;
  bool shards_compute = false;
};

// NotFound, InvalidArgument: a name of the signature. InvalidArgument: no name for the step; a node
// takes handles of two shards, or does something with one that is not known; a handle leaves its
// shard, or is fetched; a read or an update after another update of the step; a value that a shard
// takes of which it is not known what those of several workers become; the graph has a node
// "route"; without a worker: feeds or fetches, or an update that depends on another shard.
// Unimplemented: a loop, a conditional or a function with a handle; a signature of a partial run.
// All name the node.
absl::StatusOr<CutStep> CutGraph(const Graph& graph, const RunSignature& signature,
                                 const CutOptions& options);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_CUT_H_
