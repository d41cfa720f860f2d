// HostedShard: a shard, or a replica of one, with what its server keeps for it.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_HOSTED_SHARD_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_HOSTED_SHARD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/io/file.h"
#include "core/tensor/tensor.h"
#include "proto/parameter_service.pb.h"
#include "runtime/parameter_server/pieces.h"
#include "runtime/parameter_server/replicator.h"
#include "runtime/parameter_server/shard.h"
#include "runtime/parameter_server/snapshot.h"

namespace tandem::parameter_server {

// Threads: any.
class HostedShard {
 public:
  HostedShard(ShardKey key, uint64_t incarnation)
      : key_(std::move(key)), incarnation_(incarnation) {}
  // Waits for what runs.
  ~HostedShard();

  const ShardKey& key() const { return key_; }
  uint64_t incarnation() const { return incarnation_; }
  Shard& shard() { return *shard_; }

  // Before others know of it. The replicator (null: none) is the one that the shard tells of its
  // pushes.
  void SetShard(std::shared_ptr<Shard> shard, std::unique_ptr<Replicator> replicator) {
    replicator_ = std::move(replicator);
    shard_ = std::move(shard);
  }
  void SetSnapshotter(std::unique_ptr<Snapshotter> snapshotter, std::string folder,
                      FileSystem* files);
  // The replica that was here before, whose state is the newest until this one has one.
  void SetPrevious(std::shared_ptr<HostedShard> previous);
  Replicator* replicator() { return replicator_.get(); }

  // As Shard::Extend.
  absl::Status Extend(const DefineRequest& definition);
  // Some of the variables, from a position on; see ReadRequest.
  absl::StatusOr<std::vector<NamedTensor>> Read(const ReadRequest& request, ReadResponse* response);
  absl::Status Write(NamedValues values, absl::Time deadline);
  void SetNote(std::string note);
  std::string note() const;
  // Held by whoever writes or sets the note, so that one that comes twice waits for the first.
  Mutex& write_mu() ABSL_LOCK_RETURNED(write_mu_) { return write_mu_; }
  void Report(ShardReportProto* report) const;

  // Of replicas.
  absl::StatusOr<ReplicateResponse> Replicate(const ReplicateRequest& request,
                                              std::vector<Tensor> arguments);
  absl::StatusOr<PutStateResponse> PutState(const PutStateRequest& request, NamedValues values);
  // Aborted: the state has changed since the first piece.
  absl::StatusOr<std::vector<NamedTensor>> GetState(const GetStateRequest& request,
                                                    GetStateResponse* response);

  // Writes what has changed since the last snapshot, if snapshots are wanted. Waits.
  absl::Status WriteSnapshot();
  // Writes none any more, and removes those that there are. Waits.
  absl::Status RemoveSnapshots();
  // Ends what waits with `reason`, and refuses everything.
  void Close(const absl::Status& reason);

 private:
  struct Incoming {
    uint64_t transfer = 0;
    int64_t next_piece = 0;
    JoinedPieces joined;
  };

  const ShardKey key_;
  const uint64_t incarnation_;
  // Destroyed last: the shard tells it of its pushes.
  std::unique_ptr<Replicator> replicator_;
  std::shared_ptr<Shard> shard_;

  mutable Mutex snapshot_mu_;
  std::unique_ptr<Snapshotter> snapshotter_ ABSL_GUARDED_BY(snapshot_mu_);  // May be null.
  std::string snapshot_folder_ ABSL_GUARDED_BY(snapshot_mu_);
  FileSystem* files_ ABSL_GUARDED_BY(snapshot_mu_) = nullptr;

  Mutex write_mu_;
  mutable Mutex mu_;
  std::string note_ ABSL_GUARDED_BY(mu_);

  // Of a replica: one message at a time.
  Mutex replica_mu_;
  std::optional<Incoming> incoming_ ABSL_GUARDED_BY(replica_mu_);
  uint64_t done_transfer_ ABSL_GUARDED_BY(replica_mu_) = 0;
  bool has_state_ ABSL_GUARDED_BY(replica_mu_) = false;  // It got one, or pushes.
  void HasState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(replica_mu_) {
    has_state_ = true;
    previous_.reset();
  }
  std::optional<ShardState> outgoing_ ABSL_GUARDED_BY(replica_mu_);     // Of GetState.
  std::shared_ptr<HostedShard> previous_ ABSL_GUARDED_BY(replica_mu_);  // Null: none is needed.
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_HOSTED_SHARD_H_
