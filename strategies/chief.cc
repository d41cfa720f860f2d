#include "strategies/chief.h"

#include <cstdlib>

namespace tandem {
namespace {

bool LeadsByName(const std::string& job) { return job == "chief" || job == "master"; }

}  // namespace

bool IsChief(const ClusterConfig& config) {
  if (!config.task.has_value()) return true;
  const TaskId& task = *config.task;
  if (LeadsByName(task.job) || task.job == "evaluator") return true;
  for (const auto& [job, tasks] : config.jobs) {
    if (LeadsByName(job) && !tasks.empty()) return false;
  }
  return task.job == "worker" && task.index == 0;
}

bool IsChiefByEnvironment() {
  const char* const document = std::getenv("TF_CONFIG");
  if (document == nullptr) return true;
  const absl::StatusOr<ClusterConfig> config = ParseClusterConfig(document);
  return !config.ok() || IsChief(*config);
}

}  // namespace tandem
