// Optimize: the passes that make a graph quicker without changing what it computes.
//
// They run on a graph that is pruned to one signature (or is a function's body) and placed, before
// copies between memories are inserted. Names of nodes mean nothing any more by then, but that of a
// stateful node, which finds its kernel in the session, and those of nodes that errors will name.
//
// What a pass may rely on and has to keep:
//   * Stateful nodes stay, with their names, and run as often and in the same order as before.
//   * A value is dead, or belongs to a frame of TensorFlow 1's control flow, as it did before.
//   * Nodes that a pass adds are placed (Node::set_device).
//   * The result is the same bits, unless the pass says otherwise (fusion may round less often).
//   * Passes look at nodes in the order of their ids, so that every process makes the same graph.
#ifndef TANDEM_CORE_PASSES_OPTIMIZE_H_
#define TANDEM_CORE_PASSES_OPTIMIZE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/kernel/evaluator.h"

namespace tandem {

// Which passes run, in this order.
struct OptimizeOptions {
  bool fold_constants = true;            // fold_constants.h
  bool merge_common = true;              // merge_common.h
  bool fuse_bias_and_activation = true;  // fuse_bias_and_activation.h
  bool fuse_elementwise = true;          // fuse_elementwise.h
  bool fuse_updates = true;              // fuse_updates.h
  // memory_plan.h. Needs sizes, which only runs tell: the executor carries it out, not Optimize().
  bool plan_memory = true;
  // Runs kernels for fold_constants. Null: only what is known without them is folded.
  Evaluator* evaluator = nullptr;
};

// The names of the passes, in their order: "fold_constants", …
std::vector<std::string> PassNames();

// Switches passes as `text` says, a list of words separated by commas: "-fold_constants" switches a
// pass off, "fold_constants" or "+fold_constants" on, "none" and "all" all of them. An empty text
// changes nothing. InvalidArgument: an unknown name; the message lists those there are, and
// `options` is unchanged.
absl::Status SwitchPasses(absl::string_view text, OptimizeOptions* options);

// SwitchPasses with the environment's TANDEM_PASSES, if it is set.
absl::Status SwitchPassesFromEnvironment(OptimizeOptions* options);

// REQUIRES: every node is needed (core/passes/prune.h) and placed. Errors are our own bugs; they
// name the pass.
absl::Status Optimize(const OptimizeOptions& options, Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_OPTIMIZE_H_
