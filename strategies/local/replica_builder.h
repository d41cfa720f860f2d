// ReplicaBuilder: the builder of the strategies whose replicas run on the devices of a process.
// They differ in where variables live: a copy on each device (OneDevice, Mirrored), or one copy on
// a device of its own (CentralStorage); and in whether other processes run the same program with
// replicas of their own (MultiWorkerMirrored).
//
// Gradients are summed over the replicas inside the step, in buckets that leave while the backward
// pass still runs. One replica of one process is the common case and costs nothing extra: no
// reduction is put in.
#ifndef TANDEM_STRATEGIES_LOCAL_REPLICA_BUILDER_H_
#define TANDEM_STRATEGIES_LOCAL_REPLICA_BUILDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/builder.h"

namespace tandem {

// The collective group whose members are the replicas, virtual ones counted
// (SessionOptions::collective_groups).
inline constexpr char kReplicaGroup[] = "replicas";

struct ReplicaBuilderOptions {
  // Where the replicas run: full or partial device names, one a replica ("/device:CPU:0"). At least
  // one.
  std::vector<std::string> devices;

  // Where the variables live, each in one copy. Empty: a copy on each of `devices`.
  std::string central_device;

  // Deterministic mode: the global batch is cut into this many virtual replicas, whatever the
  // number of devices, and all sums over them follow one fixed tree; so 1, 2, 4 and 8 devices give
  // the same bits. 0: off. Must be at least the number of devices. Kernels have to compute with one
  // thread (SessionOptions::inner_parallelism = 1). With other processes: those of this one, which
  // change when processes come or go; a graph has to be built anew then.
  int virtual_replicas = 0;

  // Gradients are reduced in pieces of about this many bytes, the first of which leaves while the
  // backward pass still runs.
  int64_t bucket_bytes = int64_t{1} << 20;
  // The size of the first one of each step, which leaves earliest. 0: as the others.
  int64_t first_bucket_bytes = 0;

  // Other processes take part, with replicas of their own. Every reduction is a collective then,
  // also with one replica here, and nothing in the graph says how many processes there are, or
  // which one this is: that is asked when a step runs (SessionOptions::between_processes).
  bool spans_processes = false;

  // How large dense gradients of float32 travel between processes: a name of
  // kernels/collective/gradient_codec.h. What a step's gradients lose by it is added to those of
  // the next one; it is this process's own, and no part of checkpoints. Empty: as they are.
  std::string compression;
  // Smaller ones travel as they are: they cost a message, whatever their size.
  int64_t least_compressed_bytes = 4096;
};

// InvalidArgument: no device, fewer virtual replicas than devices, or a compression that does not
// exist, or where there is one process, or in deterministic mode, since sums would depend on who is
// in which process.
absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewReplicaBuilder(ReplicaBuilderOptions options);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_LOCAL_REPLICA_BUILDER_H_
