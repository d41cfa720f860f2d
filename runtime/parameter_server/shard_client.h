// ShardClient: the coordinator's end of a server's shards: it defines them, watches them, reads and
// writes their variables. Steps do not go through here, but from the workers straight to the shards
// (ParameterStore).
//
//   TANDEM_ASSIGN_OR_RETURN(auto client, ShardClient::Create("host:2222", {}));
//   TANDEM_ASSIGN_OR_RETURN(DefinedShard shard, client->Define(definition, deadline));
//
// Every call has a deadline, is sent again while its server cannot be reached, and names the server
// in its errors: Unavailable or DeadlineExceeded.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_CLIENT_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/tensor/tensor.h"
#include "proto/graph.pb.h"
#include "proto/parameter_server.pb.h"
#include "runtime/parameter_server/call_faults.h"
#include "runtime/parameter_server/shard.h"
#include "runtime/rpc/security.h"

namespace tandem::parameter_server {

enum class Replication {
  kNone,
  kAsynchronous,  // The replica may be behind by ReplicationOptions::most_behind updates.
  kSynchronous,   // A push is answered when the replica has it, too.
};

struct ReplicationOptions {
  Replication mode = Replication::kNone;
  std::string address;  // Of the server that holds the replica.
  int64_t most_behind = 100;
};

struct SnapshotOptions {
  std::string folder;  // Empty: none are written.
  absl::Duration every = absl::Seconds(30);
};

struct ShardDefinition {
  std::string job;
  int number = 0;
  tensorflow::GraphDef graph;  // All of it, or what is added to a shard that exists.
  std::vector<Program> programs;
  std::vector<Variable> variables;
  ReplicationOptions replication;
  SnapshotOptions snapshots;
};

// Where the state of a shard that a server did not have comes from.
enum class Origin { kExisted, kNew, kReplica, kSnapshot };

struct DefinedShard {
  uint64_t incarnation = 0;
  Origin origin = Origin::kNew;  // kNew: its variables have no values yet.
  int64_t version = 0;
  std::vector<PushId> newest;  // Of each client, the newest sequence that was applied.
};

struct ShardReport {
  int number = 0;
  bool is_replica = false;
  uint64_t incarnation = 0;
  ShardStatus status;
  int64_t replica_behind = 0;     // Updates that the replica does not have yet.
  int64_t snapshot_version = -1;  // Of the newest one; -1: there is none.
  bool replica_is_lost = false;
};

// A coordinator of a job.
struct JobHolder {
  uint64_t number = 0;
  std::string who;       // "process 17 on host, of user"
  int64_t renewals = 0;  // Of its lease.
  absl::Duration heard_before = absl::ZeroDuration();
};

class ShardClient {
 public:
  struct Options {
    absl::optional<Security> security;   // None: as the environment says.
    std::shared_ptr<CallFaults> faults;  // For tests. Null: as the environment says.
  };
  // InvalidArgument: no address.
  static absl::StatusOr<std::unique_ptr<ShardClient>> Create(const std::string& address,
                                                             Options options);
  virtual ~ShardClient() = default;

  virtual const std::string& address() const = 0;

  // Makes the server hold the shard; adds to it if it has it. A shard that it did not have takes
  // the state of its replica, or else of its newest good snapshot, whichever is newer, if there is
  // one. InvalidArgument: it has the shard, and what it has differs.
  virtual absl::StatusOr<DefinedShard> Define(const ShardDefinition& definition,
                                              absl::Time deadline) = 0;
  // Runs a program of the shard of the route that is on this server. A push needs a name.
  virtual absl::StatusOr<ShardAnswer> Call(const Route& route, const std::string& program,
                                           bool updates, const std::vector<Tensor>& arguments,
                                           absl::Time deadline) = 0;
  // The values of some of a shard's variables; empty: of all, in the order of their definition.
  virtual absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Read(
      const std::string& job, int shard, const std::vector<std::string>& variables,
      absl::Time deadline) = 0;
  virtual absl::Status Write(const std::string& job, int shard,
                             const std::vector<std::pair<std::string, Tensor>>& variables,
                             absl::Time deadline) = 0;
  // Of all shards of the job on this server. NotFound: it has none.
  virtual absl::StatusOr<std::vector<ShardReport>> Report(const std::string& job,
                                                          absl::Time deadline) = 0;
  // Bytes that the server keeps for the job's coordinator, with its shard: where the training
  // stands, for a coordinator that is started again.
  virtual absl::Status SetNote(const std::string& job, int shard, const std::string& note,
                               absl::Time deadline) = 0;
  virtual absl::StatusOr<std::string> Note(const std::string& job, int shard,
                                           absl::Time deadline) = 0;
  // The server lets go of the job's shards, and removes their snapshots.
  virtual absl::Status Forget(const std::string& job, absl::Time deadline) = 0;
  // No other one may be the job's coordinator for `lease`, as far as this server knows; zero: it is
  // given back. Gives whoever holds it instead; nothing has changed then.
  virtual absl::StatusOr<absl::optional<JobHolder>> Hold(const std::string& job,
                                                         const JobHolder& self,
                                                         absl::Duration lease,
                                                         absl::Time deadline) = 0;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_CLIENT_H_
