// Strategy::MultiWorkerMirrored: a ReplicaBuilder and a LocalRunner in each process, whose
// collectives go on in the other processes, and the group of these (multi_worker_mirrored/).
#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "kernels/collective/gradient_codec.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/collective/group.h"
#include "strategies/local/local_runner.h"
#include "strategies/local/replica_builder.h"
#include "strategies/multi_worker_mirrored/worker_group.h"
#include "strategies/replica_devices.h"
#include "strategies/strategy.h"

namespace tandem {
namespace {

class MultiWorkerStrategy final : public Strategy {
 public:
  MultiWorkerStrategy(ReplicaBuilderOptions replicas, bool is_deterministic,
                      absl::Duration collective_timeout, std::shared_ptr<DeviceSet> devices,
                      std::unique_ptr<MultiWorkerGroup> workers)
      : replicas_(std::move(replicas)),
        is_deterministic_(is_deterministic),
        collective_timeout_(collective_timeout),
        devices_(std::move(devices)),
        workers_(std::move(workers)) {}
  ~MultiWorkerStrategy() override { workers_->Leave(); }

  std::string name() const override { return "multi_worker_mirrored"; }
  bool is_chief() const override { return workers_->is_chief(); }
  WorkerGroup* workers() const override { return workers_.get(); }

  absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const override {
    ReplicaBuilderOptions options = replicas_;
    if (is_deterministic_) {
      // Those that this process has now. With few of them some devices have nothing to do.
      options.virtual_replicas = workers_->local_replicas();
      options.devices.resize(
          std::min(options.devices.size(), static_cast<size_t>(options.virtual_replicas)));
    }
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<StrategyBuilder> builder,
                            NewReplicaBuilder(std::move(options)));
    builder->set_strategy(this);
    return builder;
  }

  absl::StatusOr<std::unique_ptr<StrategyRunner>> NewRunner(
      const StrategyBuilder& builder) const override {
    if (builder.strategy() != this) {
      return errors::InvalidArgument(
          "the builder of another strategy cannot be run by this one (", name(),
          "): its replicas are on other devices; use one that this strategy's NewBuilder gave");
    }
    SessionOptions session;
    session.devices = devices_;
    session.collective_timeout = collective_timeout_;
    session.between_processes = workers_->between();
    // Sums inside a kernel must not depend on how many threads share them.
    if (is_deterministic_) session.inner_parallelism = 1;
    return LocalRunner::Create(builder, std::move(session));
  }

 private:
  const ReplicaBuilderOptions replicas_;
  const bool is_deterministic_;
  const absl::Duration collective_timeout_;
  const std::shared_ptr<DeviceSet> devices_;
  const std::unique_ptr<MultiWorkerGroup> workers_;
};

// All workers are known, and on one host.
bool AreOnOneHost(const JobEnvironment& job) {
  std::set<std::string> hosts;
  int known = 0;
  for (const auto& [name, tasks] : job.config.jobs) {
    if (name == "evaluator") continue;
    for (const auto& [index, address] : tasks) {
      const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
      if (parsed.ok()) hosts.insert(parsed->host);
      ++known;
    }
  }
  return known >= job.max_workers && hosts.size() == 1;
}

absl::StatusOr<bool> IsFolderShared(const absl::optional<bool>& said, const JobEnvironment& job) {
  if (said.has_value()) return *said;
  constexpr char kVariable[] = "TANDEM_SHARED_FOLDER";
  const char* const value = std::getenv(kVariable);
  if (value == nullptr) return AreOnOneHost(job);
  const absl::string_view text(value);
  if (text == "0" || text == "1") return text == "1";
  return errors::InvalidArgument(kVariable, "=", text,
                                 ": 1 (all workers see the same folder of checkpoints) or 0 (they "
                                 "may not) is wanted");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::MultiWorkerMirrored(
    MultiWorkerOptions options) {
  if (options.bucket_bytes <= 0 || options.first_bucket_bytes <= 0) {
    return errors::InvalidArgument("buckets of ", options.bucket_bytes, " bytes, the first of ",
                                   options.first_bucket_bytes,
                                   ", were asked for; both must be positive");
  }
  if (!options.compression.empty()) {
    TANDEM_RETURN_IF_ERROR(
        WithContext(GradientCodec::Parse(options.compression).status(), "compression"));
    if (options.virtual_replicas > 0) {
      return errors::InvalidArgument(
          "gradients cannot be compressed (", options.compression,
          ") in deterministic mode: their sum would depend on the number of processes");
    }
  }
  if (!options.job.has_value()) {
    TANDEM_ASSIGN_OR_RETURN(options.job, ReadJobEnvironment());
  }
  if (!options.job.has_value()) {
    return errors::InvalidArgument(
        "this process is part of no job of several workers: start them with `tandem launch "
        "--workers=2 -- PROGRAM`, torchrun, mpirun or srun, or set TF_CONFIG for each; a process "
        "by itself trains with TANDEM_STRATEGY=mirrored");
  }
  TANDEM_ASSIGN_OR_RETURN(ReplicaDevices devices,
                          ChooseReplicaDevices(options.device_type, options.replicas));
  WorkerGroupOptions group;
  TANDEM_ASSIGN_OR_RETURN(group.transport, collective::ParseTransportKind(options.transport));
  TANDEM_ASSIGN_OR_RETURN(group.folder_is_shared,
                          IsFolderShared(options.folder_is_shared, *options.job));
  group.job = *std::move(options.job);
  group.replicas = static_cast<int>(devices.replicas.size());
  group.virtual_replicas = options.virtual_replicas;
  group.algorithm = options.algorithm;
  group.heartbeat = options.heartbeat;
  group.lost_after = options.lost_after;
  group.start_timeout = options.start_timeout;
  group.collective_timeout = options.collective_timeout;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<MultiWorkerGroup> workers,
                          MultiWorkerGroup::Create(std::move(group)));
  ReplicaBuilderOptions replicas;
  replicas.devices = std::move(devices.replicas);
  replicas.bucket_bytes = options.bucket_bytes;
  replicas.first_bucket_bytes = options.first_bucket_bytes;
  replicas.spans_processes = true;
  replicas.compression = options.compression;
  return std::make_unique<MultiWorkerStrategy>(std::move(replicas), options.virtual_replicas > 0,
                                               options.collective_timeout,
                                               std::move(devices.devices), std::move(workers));
}

}  // namespace tandem
