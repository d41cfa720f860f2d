#include "strategies/strategy.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/cluster/job_environment.h"
#include "runtime/device/device.h"
#include "strategies/central_storage/central_storage.h"
#include "strategies/chief.h"
#include "strategies/local/local_runner.h"
#include "strategies/mirrored/mirrored.h"
#include "strategies/one_device/one_device.h"
#include "strategies/parameter_server/serve_task.h"
#include "strategies/replica_devices.h"

namespace tandem {
namespace {

// A strategy whose replicas are devices of this process.
class LocalStrategy final : public Strategy {
 public:
  enum class Kind { kOneDevice, kMirrored, kCentralStorage };

  LocalStrategy(Kind kind, ReplicaBuilderOptions replicas, absl::Duration collective_timeout,
                std::shared_ptr<DeviceSet> devices)
      : kind_(kind),
        replicas_(std::move(replicas)),
        collective_timeout_(collective_timeout),
        devices_(std::move(devices)) {}

  std::string name() const override {
    switch (kind_) {
      case Kind::kOneDevice:
        return "one_device";
      case Kind::kMirrored:
        return "mirrored";
      case Kind::kCentralStorage:
        break;
    }
    return "central_storage";
  }

  absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<StrategyBuilder> builder, MakeBuilder());
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
    // Sums inside a kernel must not depend on how many threads share them.
    if (replicas_.virtual_replicas > 0) session.inner_parallelism = 1;
    return LocalRunner::Create(builder, std::move(session));
  }

 private:
  absl::StatusOr<std::unique_ptr<StrategyBuilder>> MakeBuilder() const {
    switch (kind_) {
      case Kind::kOneDevice:
        return NewOneDeviceBuilder(replicas_.devices[0], replicas_.virtual_replicas);
      case Kind::kMirrored:
        return NewMirroredBuilder(replicas_);
      case Kind::kCentralStorage:
        break;
    }
    return NewCentralStorageBuilder(replicas_, devices_->host().name());
  }

  const Kind kind_;
  const ReplicaBuilderOptions replicas_;
  const absl::Duration collective_timeout_;
  const std::shared_ptr<DeviceSet> devices_;
};

absl::StatusOr<std::unique_ptr<Strategy>> OverDevices(LocalStrategy::Kind kind,
                                                      const Strategy::ReplicaOptions& options) {
  if (options.bucket_bytes <= 0 || options.collective_timeout <= absl::ZeroDuration()) {
    return errors::InvalidArgument("buckets of ", options.bucket_bytes, " bytes and a timeout of ",
                                   absl::FormatDuration(options.collective_timeout),
                                   " were asked for; both must be positive");
  }
  TANDEM_ASSIGN_OR_RETURN(ReplicaDevices devices,
                          ChooseReplicaDevices(options.device_type, options.replicas));
  ReplicaBuilderOptions builder;
  builder.devices = std::move(devices.replicas);
  builder.virtual_replicas = options.virtual_replicas;
  builder.bucket_bytes = options.bucket_bytes;
  return std::make_unique<LocalStrategy>(kind, std::move(builder), options.collective_timeout,
                                         std::move(devices.devices));
}

// The fastest type that the environment declares devices of.
absl::StatusOr<std::string> FastestType() {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<DeviceSet> devices, DeviceSet::FromEnvironment());
  for (const char* type : kDeviceTypesByPreference) {
    if (!DevicesOfType(*devices, type).empty()) return std::string(type);
  }
  return errors::FailedPrecondition("the environment declares no devices");
}

// The strategy of a process for which nobody has named one.
absl::StatusOr<std::string> NameByJob() {
  TANDEM_ASSIGN_OR_RETURN(const absl::optional<JobEnvironment> job, ReadJobEnvironment());
  if (!job.has_value()) return std::string("mirrored");
  const ClusterConfig& config = job->config;
  // It evaluates what the others save, by itself.
  if (config.task.has_value() && config.task->job == "evaluator") return std::string("mirrored");
  const auto has = [&config](const char* name) {
    const auto found = config.jobs.find(name);
    return found != config.jobs.end() && !found->second.empty();
  };
  if (has("ps")) return std::string("parameter_server");
  return std::string(job->max_workers > 1 ? "multi_worker_mirrored" : "mirrored");
}

// The chief's strategy; a server or a worker serves, here and now.
absl::StatusOr<std::unique_ptr<Strategy>> AsTaskOfParameterServers() {
  TANDEM_ASSIGN_OR_RETURN(const absl::optional<JobEnvironment> job, ReadJobEnvironment());
  if (job.has_value() && job->config.task.has_value()) {
    const std::string& task = job->config.task->job;
    const bool has_servers = job->config.jobs.find("ps") != job->config.jobs.end();
    if (has_servers && (task == "ps" || task == "worker")) {
      return parameter_server::ServeTask(job->config);
    }
  }
  return Strategy::ParameterServer({});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::OneDevice(OneDeviceOptions options) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<DeviceSet> devices, DeviceSet::FromEnvironment());
  TANDEM_ASSIGN_OR_RETURN(const DeviceName base, DeviceName::Parse(devices->host().name()));
  TANDEM_ASSIGN_OR_RETURN(const DeviceName name, CompleteDeviceName(options.device, base));
  if (devices->Find(name.ToString()) == nullptr) {
    const std::string known =
        absl::StrJoin(devices->devices(), ", ",
                      [](std::string* out, const auto& device) { out->append(device->name()); });
    return errors::InvalidArgument("there is no device '", options.device, "'; there are: ", known,
                                   " (TANDEM_DEVICES declares more)");
  }
  ReplicaBuilderOptions replicas;
  replicas.devices = {name.ToString()};
  replicas.virtual_replicas = options.virtual_replicas;
  return std::make_unique<LocalStrategy>(LocalStrategy::Kind::kOneDevice, std::move(replicas),
                                         ReplicaOptions().collective_timeout, std::move(devices));
}

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::Mirrored(ReplicaOptions options) {
  return OverDevices(LocalStrategy::Kind::kMirrored, options);
}

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::CentralStorage(ReplicaOptions options) {
  return OverDevices(LocalStrategy::Kind::kCentralStorage, options);
}

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::FromEnvironment() {
  const char* const wished = std::getenv("TANDEM_STRATEGY");
  std::string name;
  if (wished != nullptr) {
    name = wished;
  } else {
    TANDEM_ASSIGN_OR_RETURN(name, NameByJob());
  }
  if (name == "parameter_server") return AsTaskOfParameterServers();
  TANDEM_ASSIGN_OR_RETURN(const std::string type, FastestType());
  if (name == "one_device") return OneDevice({.device = absl::StrCat("/device:", type, ":0")});
  if (name == "multi_worker_mirrored") return MultiWorkerMirrored({.device_type = type});
  ReplicaOptions options;
  options.device_type = type;
  if (name == "mirrored") return Mirrored(options);
  if (name == "central_storage") return CentralStorage(options);
  return errors::InvalidArgument(
      "TANDEM_STRATEGY is '", name,
      "'; it can be one_device, mirrored, central_storage, multi_worker_mirrored or "
      "parameter_server");
}

bool Strategy::is_chief() const { return IsChiefByEnvironment(); }

}  // namespace tandem
