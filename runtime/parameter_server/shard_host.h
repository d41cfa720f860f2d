// ShardHost: the shards, and replicas of shards, that a server process holds, but for the wire
// (shard_service.h).
//
// A shard is asked for by its key (job, number, shard or replica) and its incarnation, a random
// number that it gets when it is made: whoever knows an earlier one is told that it is gone.
//
// Threads: any. Define, Read, Write, Replicate, PutState and GetState take long and wait: they run
// on threads of the host's (RunCommand, RunReplication), not on gRPC's.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_HOST_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_HOST_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/io/file.h"
#include "core/kernel/cancellation.h"
#include "proto/parameter_service.pb.h"
#include "runtime/device/device.h"
#include "runtime/parameter_server/call_faults.h"
#include "runtime/parameter_server/hosted_shard.h"
#include "runtime/parameter_server/job_holds.h"
#include "runtime/parameter_server/order_log.h"
#include "runtime/parameter_server/service_client.h"
#include "runtime/parameter_server/variable_budget.h"
#include "runtime/rpc/control_threads.h"
#include "runtime/rpc/security.h"
#include "runtime/rpc/server_limits.h"

namespace tandem::parameter_server {

struct ShardHostOptions {
  std::string task;  // For messages: "/job:ps/replica:0/task:0".
  std::shared_ptr<DeviceSet> devices;
  Security security;                   // Of calls to servers that hold replicas.
  std::shared_ptr<CallFaults> faults;  // Of these calls; null: none.
  ServerLimits limits;
  // Which servers may be sent this one's token, to hold replicas. Empty: all.
  AddressCheck check_address;
  int64_t most_shards = 1000;  // Replicas count, too.
  size_t most_note_bytes = size_t{16} << 20;
  // How long a shard waits for its replica before it goes on without it.
  absl::Duration replica_lost_after = absl::Seconds(10);

  // Where snapshots may be.
  FileSystem* files() const {
    return devices->files() != nullptr ? devices->files().get() : PosixFileSystem();
  }
};

class ShardHost {
 public:
  // What a call of a program ended with.
  struct Outcome {
    ShardAnswer answer;
    std::string lost;  // Not empty: the shard is not there, or another one. Nothing was done.
  };
  using CallDone = absl::AnyInvocable<void(absl::StatusOr<Outcome>)>;

  explicit ShardHost(ShardHostOptions options);
  // REQUIRES: no call is going on.
  ~ShardHost();

  const ShardHostOptions& options() const { return options_; }
  // Whether a call with this incarnation would find its shard here.
  bool Holds(const ShardKey& key, uint64_t incarnation) const;

  // As Shard::Pull and Shard::Push, by `updates`. Unavailable: the server is ending.
  // InvalidArgument: CheckCall.
  void Call(const CallRequest& request, std::vector<Tensor> arguments,
            CancellationManager* cancellation, CallDone done);

  // InvalidArgument: it is no definition, or differs from what is there. ResourceExhausted: names
  // the limit. Unavailable: another one is being defined, or the server is ending.
  absl::StatusOr<DefineResponse> Define(const DefineRequest& request);
  // NotFound: no such shard, for all of these.
  absl::StatusOr<std::vector<NamedTensor>> Read(const ReadRequest& request, ReadResponse* response);
  absl::Status Write(const WriteRequest& request, NamedValues values);
  absl::Status Report(const ReportRequest& request, ReportResponse* response);
  absl::Status SetNote(const SetNoteRequest& request);
  absl::Status GetNote(const GetNoteRequest& request, GetNoteResponse* response);
  absl::Status Forget(const ForgetRequest& request);
  // See JobHolds.
  absl::StatusOr<HoldResponse> Hold(const HoldRequest& request);
  // A replica that is not there needs a state.
  absl::StatusOr<ReplicateResponse> Replicate(const ReplicateRequest& request,
                                              std::vector<Tensor> arguments);
  absl::StatusOr<PutStateResponse> PutState(const PutStateRequest& request, NamedValues values);
  absl::StatusOr<std::vector<NamedTensor>> GetState(const GetStateRequest& request,
                                                    GetStateResponse* response);

  void RunCommand(absl::AnyInvocable<void()> work) { commands_->Run(std::move(work)); }
  void RunReplication(absl::AnyInvocable<void()> work) { replication_->Run(std::move(work)); }

  // Refuses new calls with `reason`. What runs goes on.
  void Drain(const absl::Status& reason);
  // Returns when no call goes on, or at the deadline.
  void WaitUntilIdle(absl::Time deadline);
  // Lets go of all shards, after a last snapshot of those that have some; what waits in them ends
  // with `reason`. Waits for what runs.
  void CloseAll(const absl::Status& reason);
  int num_shards() const;

 private:
  using TableKey = std::tuple<std::string, int, bool>;

  static TableKey TableKeyOf(const ShardKey& key) {
    return {key.job(), key.number(), key.is_replica()};
  }
  // Null: there is none.
  std::shared_ptr<HostedShard> Find(const ShardKey& key) const;
  absl::StatusOr<std::shared_ptr<HostedShard>> FindOrError(const ShardKey& key) const;
  absl::Status CheckDefinition(const DefineRequest& request) const;
  absl::StatusOr<DefineResponse> DefineAlone(const DefineRequest& request);
  absl::StatusOr<std::shared_ptr<HostedShard>> Make(const DefineRequest& request,
                                                    DefineResponse* response);
  // Gives a shard that begins here the newest state that there is. False: there is none.
  absl::StatusOr<bool> RestoreNewest(const DefineRequest& request, HostedShard* hosted,
                                     ServiceClient* replica, DefineResponse* response,
                                     int64_t* snapshot_version);
  void WriteSnapshots();
  // Deletes the shard on the reaper.
  void LetGo(HostedShard* hosted);
  void CallEnded();
  bool IsDone(const std::string& thing, const Order& order) const;
  void SetDone(const std::string& thing, const Order& order);

  const ShardHostOptions options_;
  const std::shared_ptr<VariableBudget> variable_budget_ =
      std::make_shared<VariableBudget>(options_.limits.variable_bytes);
  // What a shard's last user lets go of may wait for the shard's calls, which gRPC's threads, or
  // these calls themselves, must not.
  ControlThreads reaper_{1};
  std::atomic<bool> defines_{false};

  mutable Mutex mu_;
  CondVar call_ended_;  // Or a shard is gone.
  int64_t calls_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status drained_ ABSL_GUARDED_BY(mu_);
  std::map<TableKey, std::shared_ptr<HostedShard>> shards_ ABSL_GUARDED_BY(mu_);
  OrderLog orders_ ABSL_GUARDED_BY(mu_);
  JobHolds holds_ ABSL_GUARDED_BY(mu_);

  int64_t living_ ABSL_GUARDED_BY(mu_) = 0;  // Shards that are not deleted yet.
  // They end before what they use goes.
  std::unique_ptr<ControlThreads> commands_ = std::make_unique<ControlThreads>(4);
  // Apart, since commands may wait for pushes that wait for a replica.
  std::unique_ptr<ControlThreads> replication_ = std::make_unique<ControlThreads>(4);
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_HOST_H_
