#include "strategies/chief.h"

#include <cstdlib>
#include <utility>

namespace tandem {
namespace {

bool LeadsByName(const std::string& job) { return job == "chief" || job == "master"; }

// Nothing: there is none, or it cannot be read.
absl::optional<ClusterConfig> ConfigOfEnvironment() {
  const char* const document = std::getenv("TF_CONFIG");
  if (document == nullptr) return absl::nullopt;
  absl::StatusOr<ClusterConfig> config = ParseClusterConfig(document);
  if (!config.ok()) return absl::nullopt;
  return *std::move(config);
}

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
  const absl::optional<ClusterConfig> config = ConfigOfEnvironment();
  return !config.has_value() || IsChief(*config);
}

bool IsEvaluatorByEnvironment() {
  const absl::optional<ClusterConfig> config = ConfigOfEnvironment();
  return config.has_value() && config->task.has_value() && config->task->job == "evaluator";
}

}  // namespace tandem
