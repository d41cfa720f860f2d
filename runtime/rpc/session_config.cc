#include "runtime/rpc/session_config.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "proto/cluster.pb.h"
#include "proto/rewriter_config.pb.h"

namespace tandem {

OptimizeOptions OptimizeOptionsOf(const tensorflow::GraphOptions& options) {
  using tensorflow::RewriterConfig;
  OptimizeOptions passes;
  const tensorflow::OptimizerOptions& switches = options.optimizer_options();
  if (switches.opt_level() == tensorflow::OptimizerOptions::L0) {
    passes.fold_constants = switches.do_constant_folding();
    passes.merge_common = switches.do_common_subexpression_elimination();
  }
  const RewriterConfig& rewriter = options.rewrite_options();
  const bool no_rewriting = rewriter.disable_meta_optimizer();
  if (no_rewriting || rewriter.constant_folding() == RewriterConfig::OFF) {
    passes.fold_constants = false;
  }
  if (no_rewriting || rewriter.common_subgraph_elimination() == RewriterConfig::OFF) {
    passes.merge_common = false;
  }
  if (no_rewriting || rewriter.remapping() == RewriterConfig::OFF) {
    passes.fuse_bias_and_activation = false;
    passes.fuse_elementwise = false;
    passes.fuse_updates = false;
  }
  return passes;
}

absl::StatusOr<absl::optional<TaskId>> OwnTaskIn(const tensorflow::ClusterDef& cluster,
                                                 absl::string_view target, absl::string_view own) {
  if (cluster.job().empty()) return absl::optional<TaskId>();
  const size_t scheme = target.find("://");
  const absl::string_view address =
      scheme == absl::string_view::npos ? target : target.substr(scheme + 3);
  absl::optional<TaskId> found;
  int tasks = 0;
  for (const tensorflow::JobDef& job : cluster.job()) {
    for (const auto& [index, where] : job.tasks()) {
      ++tasks;
      if (where == address) found = TaskId{job.name(), index};
    }
  }
  if (!found) {
    return errors::InvalidArgument(
        "the session's cluster (ConfigProto.cluster_def) has no task at ", address,
        ", where the client connected");
  }
  if (found->ToString() == own) {
    return errors::InvalidArgument(
        "the session's cluster (ConfigProto.cluster_def) calls this server ", own,
        ", which is its name anyway: leave cluster_def out");
  }
  if (tasks > 1) {
    return errors::Unimplemented(
        "the session brings a cluster of ", tasks,
        " tasks along (ConfigProto.cluster_def): give the cluster to the servers when they are "
        "started (--cluster), and leave it out of the session");
  }
  return found;
}

}  // namespace tandem
