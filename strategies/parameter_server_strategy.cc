// Strategy::ParameterServer: a ParameterBuilder and a ParameterRunner in the process of the
// program, the job's coordinator; its workers and servers are other processes (parameter_server/).
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/cluster/cluster_config.h"
#include "strategies/parameter_server/parameter_builder.h"
#include "strategies/parameter_server/parameter_runner.h"
#include "strategies/parameter_server/serve_task.h"
#include "strategies/strategy.h"

namespace tandem {
namespace {

using parameter_server::NewParameterBuilder;
using parameter_server::ParameterBuilder;
using parameter_server::ParameterBuilderOptions;
using parameter_server::ParameterRunner;
using parameter_server::ParameterRunnerOptions;
using parameter_server::Replication;

constexpr absl::Duration kMarkTimeout = absl::Seconds(2);

ParameterRunnerOptions::Mode ModeOf(Strategy::ParameterServerMode mode) {
  switch (mode) {
    case Strategy::ParameterServerMode::kAsynchronous:
      break;
    case Strategy::ParameterServerMode::kBoundedStaleness:
      return ParameterRunnerOptions::Mode::kBoundedStaleness;
    case Strategy::ParameterServerMode::kSynchronous:
      return ParameterRunnerOptions::Mode::kSynchronous;
  }
  return ParameterRunnerOptions::Mode::kAsynchronous;
}

class ParameterServerStrategy final : public Strategy {
 public:
  ParameterServerStrategy(ParameterBuilderOptions builder, ParameterRunnerOptions runner,
                          std::string job, std::vector<std::string> addresses,
                          bool ends_with_failure)
      : builder_(std::move(builder)),
        runner_(std::move(runner)),
        job_(std::move(job)),
        addresses_(std::move(addresses)),
        ends_with_failure_(ends_with_failure) {}

  ~ParameterServerStrategy() override {
    // Servers and workers that run this very program end now. After a failure they may wait for a
    // coordinator that is started again.
    // Nor may one that another coordinator has kept from the job end it.
    if (has_run_ && !is_refused_ && (ends_with_failure_ || !has_failed_)) {
      parameter_server::MarkEnd(job_, addresses_, kMarkTimeout);
    }
  }

  std::string name() const override { return "parameter_server"; }
  bool is_chief() const override { return true; }

  absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<ParameterBuilder> builder,
                            NewParameterBuilder(builder_));
    builder->set_strategy(this);
    return builder;
  }

  absl::StatusOr<std::unique_ptr<StrategyRunner>> NewRunner(
      const StrategyBuilder& builder) const override {
    if (builder.strategy() != this) {
      return errors::InvalidArgument(
          "the builder of another strategy cannot be run by this one (", name(),
          "): its variables are elsewhere; use one that this strategy's NewBuilder gave");
    }
    ParameterRunnerOptions options = runner_;
    // Each runner has variables of its own; a coordinator that is started again makes the same
    // runners in the same order.
    const int number = num_runners_.fetch_add(1);
    options.servers.job = absl::StrCat(job_, "/", number);
    options.servers.client = ClientOf(options.servers.job);
    if (!has_run_.exchange(true)) {
      parameter_server::UnmarkEnd(job_, addresses_, kMarkTimeout);
    }
    options.on_failed = [this] { has_failed_ = true; };
    options.servers.on_refused = [this] { is_refused_ = true; };
    return ParameterRunner::Create(static_cast<const ParameterBuilder&>(builder),
                                   std::move(options));
  }

 private:
  // Not 0, and the same whenever the job is started.
  static uint64_t ClientOf(const std::string& job) {
    uint64_t hash = 14695981039346656037ull;
    for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    return std::max<uint64_t>(hash, 1);
  }

  const ParameterBuilderOptions builder_;
  const ParameterRunnerOptions runner_;
  const std::string job_;
  const std::vector<std::string> addresses_;
  const bool ends_with_failure_;
  mutable std::atomic<int> num_runners_{0};
  mutable std::atomic<bool> has_run_{false};
  mutable std::atomic<bool> has_failed_{false};
  mutable std::atomic<bool> is_refused_{false};
};

absl::StatusOr<Replication> ParseReplication(const std::string& text) {
  if (text == "none") return Replication::kNone;
  if (text == "asynchronous") return Replication::kAsynchronous;
  if (text == "synchronous") return Replication::kSynchronous;
  return errors::InvalidArgument("replication '", text,
                                 "': it can be none, asynchronous or synchronous");
}

absl::StatusOr<absl::optional<int>> StatusPortOfEnvironment() {
  constexpr char kName[] = "TANDEM_STATUS_PORT";
  const char* const text = std::getenv(kName);
  if (text == nullptr || *text == '\0') return absl::optional<int>();
  int port = 0;
  if (!absl::SimpleAtoi(text, &port)) {
    return errors::InvalidArgument(kName, "='", text, "' is no port");
  }
  return absl::optional<int>(port);
}

absl::Status CheckOptions(const Strategy::ParameterServerOptions& options, int workers,
                          int servers) {
  if (options.staleness < 0) {
    return errors::InvalidArgument("a staleness of ", options.staleness,
                                   " steps was asked for; 0 is the least");
  }
  if (options.backup_workers < 0 || options.backup_workers >= workers) {
    return errors::InvalidArgument(options.backup_workers, " backup workers of ", workers,
                                   " were asked for; one worker has to count");
  }
  if (options.backup_workers > 0 && options.mode != Strategy::ParameterServerMode::kSynchronous) {
    return errors::InvalidArgument(options.backup_workers,
                                   " backup workers were asked for; only a synchronous training "
                                   "has them (ParameterServerMode::kSynchronous)");
  }
  if (options.steps_in_flight < 1) {
    return errors::InvalidArgument(options.steps_in_flight,
                                   " steps in flight were asked for; 1 is the least");
  }
  if (options.heartbeat <= absl::ZeroDuration() || options.lost_after <= absl::ZeroDuration() ||
      options.start_timeout <= absl::ZeroDuration() ||
      options.step_timeout <= absl::ZeroDuration()) {
    return errors::InvalidArgument(
        "heartbeat, lost_after, start_timeout and step_timeout must be longer than nothing");
  }
  if (options.status_port.has_value() &&
      (*options.status_port < 0 || *options.status_port > 65535)) {
    return errors::InvalidArgument("the status page cannot be at port ", *options.status_port);
  }
  if (!options.snapshot_dir.empty() && options.snapshot_every <= absl::ZeroDuration()) {
    return errors::InvalidArgument("snapshots every ", absl::FormatDuration(options.snapshot_every),
                                   " were asked for; the time must be longer than nothing");
  }
  if (options.replication != "none" && servers < 2) {
    return errors::InvalidArgument("replication '", options.replication,
                                   "' needs two parameter servers; the job has one");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::ParameterServer(
    ParameterServerOptions options) {
  if (!options.job.has_value()) {
    TANDEM_ASSIGN_OR_RETURN(options.job, ReadJobEnvironment());
  }
  if (!options.job.has_value()) {
    return errors::InvalidArgument(
        "this process is part of no job with parameter servers: set TF_CONFIG to a cluster with "
        "\"ps\" and \"worker\", or give ParameterServerOptions::job");
  }
  const ClusterConfig& config = options.job->config;
  const auto servers = config.jobs.find("ps");
  const auto workers = config.jobs.find("worker");
  if (servers == config.jobs.end() || servers->second.empty() || workers == config.jobs.end() ||
      workers->second.empty()) {
    return errors::InvalidArgument("the job has no ",
                                   servers == config.jobs.end() || servers->second.empty()
                                       ? "parameter servers (\"ps\")"
                                       : "workers (\"worker\")");
  }
  if (config.task.has_value() && (config.task->job == "ps" || config.task->job == "worker")) {
    return errors::InvalidArgument(
        "this process is ", config.task->ToString(),
        ": with parameter servers it serves (tandem_server, or Strategy::FromEnvironment), and the "
        "chief runs the program");
  }
  if (!options.status_port.has_value()) {
    TANDEM_ASSIGN_OR_RETURN(options.status_port, StatusPortOfEnvironment());
  }
  TANDEM_ASSIGN_OR_RETURN(const Replication replication, ParseReplication(options.replication));
  TANDEM_RETURN_IF_ERROR(CheckOptions(options, static_cast<int>(workers->second.size()),
                                      static_cast<int>(servers->second.size())));

  ParameterBuilderOptions builder;
  builder.shards = static_cast<int>(servers->second.size());
  builder.min_part_bytes = options.min_part_bytes;
  builder.max_part_bytes = options.max_part_bytes;
  builder.parts = options.parts;
  builder.balance_by_bytes = options.balance_by_bytes;
  // What is wrong with these is said now.
  TANDEM_RETURN_IF_ERROR(NewParameterBuilder(builder).status());

  ParameterRunnerOptions runner;
  runner.mode = ModeOf(options.mode);
  runner.staleness = options.staleness;
  runner.backup_workers = options.backup_workers;
  runner.step_timeout = options.step_timeout;
  runner.status_port = options.status_port;
  runner.fleet.workers = workers->second;
  runner.fleet.steps_in_flight = options.steps_in_flight;
  runner.fleet.heartbeat = options.heartbeat;
  runner.fleet.lost_after = options.lost_after;
  runner.fleet.start_timeout = options.start_timeout;
  for (const auto& [index, address] : servers->second) {
    runner.servers.tasks.emplace_back(absl::StrCat("/job:ps/task:", index), address);
  }
  runner.servers.replication = replication;
  runner.servers.snapshots.folder = options.snapshot_dir;
  runner.servers.snapshots.every = options.snapshot_every;
  runner.servers.heartbeat = options.heartbeat;
  runner.servers.lost_after = options.lost_after;
  runner.servers.start_timeout = options.start_timeout;

  std::vector<std::string> addresses;
  for (const auto& [name, tasks] : {*servers, *workers}) {
    for (const auto& [index, address] : tasks) addresses.push_back(address);
  }
  return std::make_unique<ParameterServerStrategy>(std::move(builder), std::move(runner),
                                                   parameter_server::JobOf(config),
                                                   std::move(addresses), options.ends_with_failure);
}

}  // namespace tandem
