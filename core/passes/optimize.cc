#include "core/passes/optimize.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/passes/fold_constants.h"
#include "core/passes/fuse_bias_and_activation.h"
#include "core/passes/fuse_elementwise.h"
#include "core/passes/fuse_updates.h"
#include "core/passes/merge_common.h"
#include "core/passes/prune.h"

namespace tandem {
namespace {

struct Pass {
  const char* name;
  bool OptimizeOptions::*enabled;
  // Null for a pass that is carried out elsewhere.
  absl::Status (*run)(const OptimizeOptions& options, Graph& graph);
};

constexpr Pass kPasses[] = {
    {"fold_constants", &OptimizeOptions::fold_constants,
     [](const OptimizeOptions& options, Graph& graph) {
       return FoldConstants(options.evaluator, graph);
     }},
    {"merge_common", &OptimizeOptions::merge_common,
     [](const OptimizeOptions&, Graph& graph) { return MergeCommon(graph); }},
    {"fuse_bias_and_activation", &OptimizeOptions::fuse_bias_and_activation,
     [](const OptimizeOptions&, Graph& graph) { return FuseBiasAndActivation(graph); }},
    {"fuse_elementwise", &OptimizeOptions::fuse_elementwise,
     [](const OptimizeOptions&, Graph& graph) { return FuseElementwise(graph); }},
    {"fuse_updates", &OptimizeOptions::fuse_updates,
     [](const OptimizeOptions&, Graph& graph) { return FuseUpdates(graph); }},
    {"plan_memory", &OptimizeOptions::plan_memory, nullptr},
};

// What has to stay although nothing depends on it: effects, and what the run asked for.
std::vector<std::string> RootNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node* node : graph.nodes()) {
    if (node->op().is_stateful || node->consumers().empty()) names.push_back(node->name());
  }
  return names;
}

void RemoveLeftovers(const std::vector<std::string>& roots, Graph& graph) {
  std::vector<Node*> nodes;
  for (const std::string& name : roots) {
    // A pass may have put another node in its place.
    if (Node* const node = graph.FindNode(name)) nodes.push_back(node);
  }
  RemoveUnneeded(nodes, graph);
}

}  // namespace

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Pass& pass : kPasses) names.push_back(pass.name);
  return names;
}

absl::Status SwitchPasses(absl::string_view text, OptimizeOptions* options) {
  OptimizeOptions switched = *options;
  for (absl::string_view word : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    word = absl::StripAsciiWhitespace(word);
    const absl::string_view whole = word;
    if (word == "none" || word == "all") {
      for (const Pass& pass : kPasses) switched.*pass.enabled = word == "all";
      continue;
    }
    const bool off = absl::ConsumePrefix(&word, "-");
    if (!off) absl::ConsumePrefix(&word, "+");
    const Pass* const found = std::find_if(std::begin(kPasses), std::end(kPasses),
                                           [&](const Pass& pass) { return word == pass.name; });
    if (found == std::end(kPasses)) {
      return errors::InvalidArgument("'", whole, "' names no optimization pass; there are ",
                                     absl::StrJoin(PassNames(), ", "),
                                     ", each also with '-' before it, and 'none' and 'all'");
    }
    switched.*found->enabled = !off;
  }
  *options = switched;
  return absl::OkStatus();
}

absl::Status SwitchPassesFromEnvironment(OptimizeOptions* options) {
  const char* const text = std::getenv("TANDEM_PASSES");
  if (text == nullptr) return absl::OkStatus();
  return WithContext(SwitchPasses(text, options), "TANDEM_PASSES");
}

absl::Status Optimize(const OptimizeOptions& options, Graph& graph) {
  const std::vector<std::string> roots = RootNames(graph);
  for (const Pass& pass : kPasses) {
    if (pass.run == nullptr || !(options.*pass.enabled)) continue;
    TANDEM_RETURN_IF_ERROR(WithContext(pass.run(options, graph), pass.name));
    RemoveLeftovers(roots, graph);
  }
  return absl::OkStatus();
}

}  // namespace tandem
