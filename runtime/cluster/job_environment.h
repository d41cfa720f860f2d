// JobEnvironment: what whoever started this process says about the job that it is part of.
//
// Read, in this order, the first that is there:
//   TF_CONFIG                              the cluster, as everywhere (cluster_config.h); with
//                                          TANDEM_RENDEZVOUS and TANDEM_WORKERS, from `tandem
//                                          launch`
//   RANK, WORLD_SIZE, MASTER_ADDR, …       torchrun, and whoever sets the same
//   OMPI_COMM_WORLD_RANK, …_SIZE           Open MPI's mpirun
//   SLURM_PROCID, SLURM_NTASKS             Slurm's srun
//
// Slurm tells on which hosts all tasks are, so that their addresses are known: the host, and port
// TANDEM_PORT (8888) plus the task's number on its host. Torchrun and mpirun tell one address, that
// of rank 0 (MASTER_ADDR, MASTER_PORT); if all are on one host the addresses follow from it. Else
// members find one another at a rendezvous, which the process of rank 0 serves at that address.
#ifndef TANDEM_RUNTIME_CLUSTER_JOB_ENVIRONMENT_H_
#define TANDEM_RUNTIME_CLUSTER_JOB_ENVIRONMENT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "runtime/cluster/cluster_config.h"

namespace tandem {

struct JobEnvironment {
  // "TF_CONFIG", "torchrun", "Open MPI", "Slurm".
  std::string source;
  // The tasks whose addresses are known, this one among them (its port may be 0), and which it is.
  ClusterConfig config;
  // How many workers there may be; equal unless the launcher said MIN:MAX.
  int min_workers = 1;
  int max_workers = 1;
  // Where the arbiter is; empty: none. This process serves it if `serves_rendezvous`.
  std::string rendezvous;
  bool serves_rendezvous = false;
};

// The value of a variable; null: it is not set.
using GetVariable = std::function<const char*(const char* name)>;

// None: this process is not part of a job. InvalidArgument names the variable, what it holds and
// what is wanted.
absl::StatusOr<absl::optional<JobEnvironment>> ReadJobEnvironment(const GetVariable& get);
// That of this process.
absl::StatusOr<absl::optional<JobEnvironment>> ReadJobEnvironment();

// The hosts of Slurm's short form: "gpu[08-10,12],login" gives gpu08, gpu09, gpu10, gpu12, login.
// InvalidArgument: it is none, or stands for more than 100,000 hosts.
absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view text);
// "2(x3),1" gives 2, 2, 2, 1.
absl::StatusOr<std::vector<int>> ExpandTaskCounts(absl::string_view text);
// "2:4", or "3" for "3:3".
absl::StatusOr<std::pair<int, int>> ParseWorkerRange(absl::string_view text);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CLUSTER_JOB_ENVIRONMENT_H_
