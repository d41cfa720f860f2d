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
  // TANDEM_STRATEGY: one_device, mirrored, central_storage or multi_worker_mirrored. If it is not
  // set: multi_worker_mirrored in a job of more than one worker, else mirrored. Over all local
  // devices (one_device: on the first) of the fastest type that there is: GPU, CPU, SIM, as nodes
  // are placed. InvalidArgument: another name, or a job that cannot be read. Unimplemented: as
  // MultiWorkerMirrored.
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
