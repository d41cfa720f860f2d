// Replicator: sends what a shard applies to the server that holds its replica, in the shard's
// order.
//
//   auto replicator = std::make_unique<Replicator>(options);
//   shard_options.on_applied = [r = replicator.get()](AppliedPush push, auto answered) {
//     r->Applied(std::move(push), std::move(answered));
//   };
//   … make the shard …
//   replicator->Start(shard.get());
//
// While the replica's server cannot be reached the shard goes on without it, after `lost_after`;
// what it missed is not kept. When it is back it gets the shard's whole state, and what is applied
// meanwhile after it.
//
// Threads: any; one of its own calls the other server. Lifetime: the shard outlives Stop, and may
// call Applied until it is destroyed.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_REPLICATOR_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_REPLICATOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/kernel/cancellation.h"
#include "proto/parameter_service.pb.h"
#include "runtime/parameter_server/service_client.h"
#include "runtime/parameter_server/shard.h"

namespace tandem::parameter_server {

class Replicator {
 public:
  using Answered = absl::AnyInvocable<void(absl::Status)>;

  struct Options {
    std::shared_ptr<ServiceClient> client;  // Of the replica's server.
    // Of the replica: key, graph, programs and variables.
    DefineRequest definition;
    bool is_synchronous = false;
    // Not synchronous: pushes are answered while no more than so many are under way.
    int64_t most_behind = 100;
    absl::Duration lost_after = absl::Seconds(10);
    std::string name;  // For the log: "shard 0 of 'job'".
  };
  explicit Replicator(Options options);
  ~Replicator();

  // `has_state`: the shard has had pushes, or a state, before. REQUIRES: called once.
  void Start(Shard* shard, bool has_state);
  // Its pushes are answered as if there were no replica from now on. Waits for the thread.
  void Stop();

  // In the shard's order. `answered` is called at once or later, on another thread.
  void Applied(AppliedPush push, Answered answered);
  // The definition was added to.
  void Extend(DefineRequest addition);
  // The shard's state was changed otherwise than by a push. Of a synchronous one, waits until the
  // replica has it, is lost, or the deadline.
  void StateChanged(absl::Time deadline);
  void SetNote(std::string note);

  struct Status {
    int64_t behind = 0;  // Updates that the replica does not have.
    bool is_lost = false;
  };
  Status status() const;

 private:
  struct Entry {
    AppliedPush push;
    Answered answered;  // Empty: it was answered.
  };
  enum class Phase {
    kConnect,  // The replica begins anew.
    kCopy,     // It is there, and gets the state.
    kStream,   // It has all but what is queued.
  };

  void Run();
  // Some round trips, or a wait. Errors are those of the replica's server; Aborted: it begins anew.
  absl::Status Connect();
  absl::Status CopyState();
  absl::Status Stream();
  ServiceCallOptions Within(absl::Duration time);
  // Sends what was added to the definition.
  absl::Status SendDefinitions();

  void Lost(const absl::Status& status);
  // The replica has all up to `version`.
  void Acknowledge(int64_t version);
  // The oldest entries, as a message.
  absl::StatusOr<grpc::ByteBuffer> NextBatch();
  Order NextOrder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const uint64_t writer_;
  CancellationManager cancellation_;  // Of the calls, when it stops.
  Shard* shard_ = nullptr;
  std::thread thread_;

  // Of the thread alone.
  bool must_copy_ = false;  // When it connects.
  uint64_t incarnation_ = 0;
  absl::Time last_message_ = absl::InfinitePast();

  mutable Mutex mu_;
  CondVar changed_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kConnect;
  bool stops_ ABSL_GUARDED_BY(mu_) = false;
  bool is_lost_ ABSL_GUARDED_BY(mu_) = false;
  int64_t state_changes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t copied_changes_ ABSL_GUARDED_BY(mu_) = 0;  // That the replica has.
  std::vector<DefineRequest> definitions_ ABSL_GUARDED_BY(mu_);
  std::set<std::pair<size_t, size_t>> fingerprints_ ABSL_GUARDED_BY(mu_);  // Of definitions_.
  size_t next_definition_ ABSL_GUARDED_BY(mu_) = 0;
  bool has_new_note_ ABSL_GUARDED_BY(mu_) = false;
  std::string note_ ABSL_GUARDED_BY(mu_);
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mu_);
  int64_t replica_version_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t order_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_REPLICATOR_H_
