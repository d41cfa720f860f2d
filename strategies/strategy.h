// Strategy: which devices train, and how they work together. The same program runs under each; only
// the line that makes the strategy differs.
//
//   auto strategy = Strategy::FromEnvironment();
//   auto strategy = Strategy::Mirrored({.replicas = 2});
//   auto strategy = Strategy::MultiWorkerMirrored({});      // One of several processes.
//
// A strategy makes a builder (strategies/builder.h: what the graph looks like) and a runner
// (strategies/runner.h: how its steps are run). docs/adding/strategy.md says how to add one.
#ifndef TANDEM_STRATEGIES_STRATEGY_H_
#define TANDEM_STRATEGIES_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/cluster/job_environment.h"
#include "strategies/builder.h"
#include "strategies/runner.h"
#include "strategies/workers.h"

namespace tandem {

class Strategy {
 public:
  struct OneDeviceOptions {
    std::string device = "/device:CPU:0";  // A full or partial name.
    // 0: off; see ReplicaOptions.
    int virtual_replicas = 0;
  };
  struct ReplicaOptions {
    // One a device of `device_type`. 0: as many as there are.
    int replicas = 0;
    std::string device_type = "CPU";
    // Deterministic mode: the global batch is cut into so many parts, whatever the number of
    // devices, which then does not show in the results. 0: off.
    int virtual_replicas = 0;
    // Gradients are reduced in pieces of about this many bytes, the first of which leaves while the
    // backward pass still runs.
    int64_t bucket_bytes = int64_t{1} << 20;
    // A step whose replicas wait longer for one of them ends with DeadlineExceeded, naming it.
    absl::Duration collective_timeout = absl::Seconds(60);
  };

  struct MultiWorkerOptions {
    // As ReplicaOptions, of this process; other processes may have another number of replicas.
    int replicas = 0;
    std::string device_type = "CPU";
    // Deterministic mode: the parts of the global batch, divided among the replicas of all
    // processes. At least as many as there may be processes. 0: off.
    int virtual_replicas = 0;
    // Gradients travel in pieces of about this many bytes. The first one, of the layers whose
    // gradients are ready first, is smaller, so that it leaves early.
    int64_t bucket_bytes = int64_t{25} << 20;
    int64_t first_bucket_bytes = int64_t{1} << 20;
    // How large gradients travel: "float16", "bfloat16", "2bit", or "topk:0.01" for the hundredth
    // that is largest. What is left out is added to the next step's. For slow networks; not in
    // deterministic mode. Empty: as they are.
    std::string compression;

    // Who the processes are, and which of them this is. None: what TF_CONFIG says, or torchrun,
    // mpirun, Slurm or `tandem launch` (runtime/cluster/job_environment.h).
    absl::optional<JobEnvironment> job;
    // How values travel between processes: "auto" (shared memory on a host, TCP between hosts),
    // "shm", "tcp"; "inprocess" where all are threads of one process, as in tests.
    std::string transport = "auto";
    // Pins the algorithm of collectives: "ring", …. Empty: by the size of the values.
    std::string algorithm;
    // Whether all workers see the same folder of checkpoints. It then decides who goes on when the
    // chief is lost, if there is no launcher that does. Not said: as TANDEM_SHARED_FOLDER says (0
    // or 1), or else if all workers are on one host.
    absl::optional<bool> folder_is_shared;

    // A process says that it lives this often, and is lost when it has not for `lost_after`.
    absl::Duration heartbeat = absl::Seconds(1);
    absl::Duration lost_after = absl::Seconds(3);
    // How long the others are waited for, at the beginning and when one was lost.
    absl::Duration start_timeout = absl::Seconds(120);
    // A step whose processes wait longer for one that lives ends with DeadlineExceeded, naming it.
    absl::Duration collective_timeout = absl::Seconds(60);
  };

  enum class ParameterServerMode {
    kAsynchronous,      // Each step updates when it is done.
    kBoundedStaleness,  // The same, but a step begins only when all have ended that began more than
                        // `staleness` steps before it.
    kSynchronous,       // Each step is cut into a part a worker, whose gradients update together.
  };

  struct ParameterServerOptions {
    ParameterServerMode mode = ParameterServerMode::kAsynchronous;
    int staleness = 4;
    // Synchronous: the update happens without so many of the parts, those that come last.
    int backup_workers = 0;

    // Who the processes are. None: what TF_CONFIG says.
    absl::optional<JobEnvironment> job;

    // A variable with at least this many bytes a part is cut into parts along its first dimension,
    // at most one a server, or `parts` if that is not 0. -1: none is cut.
    int64_t min_part_bytes = int64_t{256} << 10;
    // A part has no more than so many bytes, however many there are then. 0: no limit.
    int64_t max_part_bytes = 0;
    int parts = 0;
    // By bytes: the next variable goes to the server that has the fewest. Else one after the other.
    bool balance_by_bytes = true;

    // Steps that are sent to each worker before the first one has ended.
    int steps_in_flight = 2;
    // Each shard has a copy on the next server: "none", "asynchronous", "synchronous".
    std::string replication = "none";
    // Where servers write snapshots of their shards. Empty: they write none.
    std::string snapshot_dir;
    absl::Duration snapshot_every = absl::Seconds(30);

    absl::Duration heartbeat = absl::Seconds(1);
    absl::Duration lost_after = absl::Seconds(3);
    // How long servers and the first worker are waited for, at the beginning and when all are lost.
    absl::Duration start_timeout = absl::Seconds(120);
    absl::Duration step_timeout = absl::Seconds(60);
    // A page over HTTP on this host's loopback interface, with how the servers are, and "/metrics"
    // for Prometheus: its port, 0 for one that is free (the log has it). None: TANDEM_STATUS_PORT,
    // or no page. Of several trainings of a strategy only one at a time can have a port.
    absl::optional<int> status_port;
    // Servers and workers that were started with this very program (FromEnvironment) end when the
    // strategy does. After a step that failed for good they wait for a coordinator that is started
    // again, unless this is set.
    bool ends_with_failure = false;
  };

  virtual ~Strategy() = default;

  // InvalidArgument: there is no such device.
  static absl::StatusOr<std::unique_ptr<Strategy>> OneDevice(OneDeviceOptions options);
  // Variables on every device. InvalidArgument: a negative number, a timeout or bucket that is not
  // positive, or more replicas than there are devices (TANDEM_DEVICES declares virtual ones; when
  // it is not set, this call declares those it needs).
  static absl::StatusOr<std::unique_ptr<Strategy>> Mirrored(ReplicaOptions options);
  // Variables on the host. Errors as Mirrored.
  static absl::StatusOr<std::unique_ptr<Strategy>> CentralStorage(ReplicaOptions options);
  // Variables on every device of every process of a job, which are several runs of one program.
  // Waits for nobody yet: processes meet before the first step (workers()). Destroying it leaves
  // the job.
  //
  // InvalidArgument: no job, or one that makes no sense; errors as Mirrored. Unimplemented: the job
  // has parameter servers, or this process is its evaluator.
  static absl::StatusOr<std::unique_ptr<Strategy>> MultiWorkerMirrored(MultiWorkerOptions options);
  // Variables on the job's parameter servers ("ps"), steps on its workers; this process, the chief,
  // schedules them. Servers and workers are `tandem_server`s. Waits for nobody yet: the first step
  // does, for all servers and one worker.
  //
  // InvalidArgument: no job, or one without servers or workers; numbers that make no sense.
  static absl::StatusOr<std::unique_ptr<Strategy>> ParameterServer(ParameterServerOptions options);
  // TANDEM_STRATEGY: one_device, mirrored, central_storage, multi_worker_mirrored or
  // parameter_server. If it is not set: parameter_server in a job that has "ps",
  // multi_worker_mirrored in a job of more than one worker, else mirrored, as for its evaluator.
  // Over all local devices (one_device: on the first) of the fastest type that there is: GPU, CPU,
  // SIM, as nodes are placed. InvalidArgument: another name, or a job that cannot be read.
  // Unimplemented: as MultiWorkerMirrored.
  //
  // With parameter_server only the chief gets a strategy. In a process of "ps" or "worker" the call
  // serves until the job has ended, and then gives Cancelled, which Exit (tandem.h) makes a silent
  // 0.
  static absl::StatusOr<std::unique_ptr<Strategy>> FromEnvironment();

  virtual std::string name() const = 0;
  // Whether this process writes what one process of the job writes for all: checkpoints and logs.
  // By TF_CONFIG, unless a strategy knows better.
  virtual bool is_chief() const;
  // The processes that train together, one of which this is. Null: there are no others.
  virtual WorkerGroup* workers() const { return nullptr; }
  virtual absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const = 0;
  // For the graph that `builder`, one of this strategy's, has built. Both outlive the runner.
  // InvalidArgument: another strategy made the builder.
  virtual absl::StatusOr<std::unique_ptr<StrategyRunner>> NewRunner(
      const StrategyBuilder& builder) const = 0;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_STRATEGY_H_
