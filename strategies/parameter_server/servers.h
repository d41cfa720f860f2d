// Servers: the shards of a training, from its coordinator's end: it defines them on their servers,
// watches them, and defines one anew whose server was lost and is there again, with the state of
// its replica or its newest snapshot. Until then there is no route for steps, which wait.
//
// The job is held first (job_keeper.h). A second coordinator of it changes nothing, and its
// status() is FailedPrecondition.
//
// A server that does not come back within `start_timeout`, or without its state, ends the training:
// status() says why, from then on.
//
// Threads: any. Lifetime: Stop, or the destructor, ends the threads and what waits.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_SERVERS_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_SERVERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "core/kernel/parameter_store.h"
#include "core/tensor/tensor.h"
#include "proto/graph.pb.h"
#include "proto/parameter_server.pb.h"
#include "runtime/parameter_server/shard_client.h"
#include "strategies/parameter_server/job_keeper.h"
#include "strategies/runner.h"

namespace tandem::parameter_server {

struct ServersOptions {
  std::string job;                                         // Of the shards.
  std::vector<std::pair<std::string, std::string>> tasks;  // Of each shard, its task and address.
  Replication replication = Replication::kNone;            // To the next server.
  SnapshotOptions snapshots;  // In folders of each shard's own, in this one.
  uint64_t client = 0;        // Who pushes: DefinedShard::newest is looked up by it.
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration lost_after = absl::Seconds(3);
  absl::Duration start_timeout = absl::Seconds(120);
  // ShardClient::Create, unless a test has another one.
  std::function<absl::StatusOr<std::unique_ptr<ShardClient>>(const std::string& address)> connect;

  // Called on threads of this, outside locks.
  // A shard has been defined anew, and has this version; routes lead to it when this returns.
  std::function<void(int shard, int64_t version)> on_restored;
  // There may be a route again, or never again.
  std::function<void()> on_change;
  // Another process is the job's coordinator; what the servers have is left to it.
  std::function<void()> on_refused;
};

// What is added to a shard.
struct ShardAddition {
  int shard = 0;
  tensorflow::GraphDef graph;
  std::vector<Program> programs;
  std::vector<Variable> variables;
};

// What is known of a server without asking it now.
struct ServerStatistics {
  std::string task;
  std::string address;
  bool is_there = false;
  ShardReport report;        // Of its last heartbeat; counts are since it was started.
  int64_t losses = 0;        // How often it was lost.
  int64_t lost_updates = 0;  // That it did not have when it was there again.
};

class Servers {
 public:
  explicit Servers(ServersOptions options);
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  int num_shards() const { return static_cast<int>(shards_.size()); }

  // Waits until the shards have it, or `wants_stop` (may be empty) says that nobody wants it: then
  // it is Cancelled. Nodes and functions that are there already are left out.
  // InvalidArgument, and the like: a server refuses it; it has not been added then.
  // DeadlineExceeded names the server that is not there. What status() says.
  absl::Status Add(std::vector<ShardAddition> additions,
                   const std::function<bool()>& wants_stop = {});
  // OK as long as the training can go on.
  absl::Status status() const;

  // Of the shards that were defined: whether they existed, with variables that have values.
  bool existed() const;
  // The largest sequence of the client that any of them knew; 0: none.
  int64_t newest_sequence() const;
  // As the shard said last.
  int64_t version(int shard) const;
  // The coordinator has learned that the shard has applied so many updates.
  void NoteVersion(int shard, int64_t version);

  // Adds the shards to the route. False: one of them is not there now, or may not be.
  bool AddTo(Route* route) const;
  // Somebody could not reach a shard: all are asked at once, and there is no route until they have
  // answered.
  void Suspect();

  // Runs a program at a shard. While its server is lost it waits; otherwise errors as
  // ShardClient's.
  absl::StatusOr<ShardAnswer> Call(int shard, const PushId& id, const std::string& program,
                                   bool updates, const std::vector<Tensor>& arguments);
  absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Read(
      int shard, const std::vector<std::string>& variables);
  absl::Status Write(int shard, const std::vector<std::pair<std::string, Tensor>>& variables);
  // See ShardClient.
  absl::Status SetNote(int shard, const std::string& note);
  absl::StatusOr<std::string> Note(int shard);
  // What each shard says of itself now, by its number. Of one that is not defined yet: nothing.
  absl::StatusOr<std::vector<ShardReport>> AskReports();
  // Of each shard, by its number. Waits for nobody.
  std::vector<ServerStatistics> Statistics() const;
  // The versions that they have now.
  absl::StatusOr<std::vector<int64_t>> AskVersions();

  std::vector<MemberEvent> TakeEvents();
  // No definition, and no watching, any more. Then, unless `keep`, the servers let go of the
  // shards.
  void Stop(bool keep);

 private:
  struct Shard {
    std::string task;
    std::string address;
    std::unique_ptr<ShardClient> client;
    std::thread thread;

    // Guarded by mu_, all below.
    ShardDefinition definition;  // All that it has, or had.
    absl::optional<ShardAddition> addition;
    bool is_defined = false;  // Once.
    bool is_there = false;
    bool is_suspect = false;
    bool existed = false;
    uint64_t incarnation = 0;
    int64_t version = 0;
    int64_t newest = 0;
    ShardReport report;
    int64_t losses = 0;
    int64_t lost_updates = 0;
    absl::Time lost_since;
    absl::Status addition_status;  // Of the last addition, once it is gone.
    absl::Status last_error;
  };

  std::unique_ptr<JobKeeper> NewKeeper();
  // Waits for a change; gives what ends the wait of Add.
  absl::Status WaitInAdd(const std::function<bool()>& wants_stop)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends what waits for shards that are not there yet.
  void EndAdditions(const absl::Status& status);
  void Watch(int number);
  // Sends the addition, or all of the definition to a server that does not have it.
  void Define(int number);
  void Define(int number, bool anew, ShardDefinition definition, absl::Time deadline);
  void Ask(int number);
  void Lose(int number, const std::string& reason);
  void End(const absl::Status& status);
  absl::Status Restored(int number, const DefinedShard& defined);
  // Calls `call` while the server is there, again when it was lost in it.
  absl::Status WhileThere(int shard, absl::FunctionRef<absl::Status(ShardClient& client)> call);
  Shard& at(int number) { return *shards_[static_cast<size_t>(number)]; }
  const Shard& at(int number) const { return *shards_[static_cast<size_t>(number)]; }

  const ServersOptions options_;
  std::vector<std::unique_ptr<Shard>> shards_;  // Filled by the constructor.
  std::unique_ptr<JobKeeper> keeper_;           // Null: there is nothing to be done.

  mutable Mutex mu_;
  CondVar changed_;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  bool is_held_ ABSL_GUARDED_BY(mu_) = false;     // The job, by this process.
  bool is_refused_ ABSL_GUARDED_BY(mu_) = false;  // It is another one's.
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<MemberEvent> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_SERVERS_H_
