// AppliedNames: which pushes a shard has applied, by their names, and which are on their way, with
// those that wait for them. What it is asked decides whether a push that comes is applied, waits,
// or was applied before.
//
// Of a client it keeps ranges of sequences, so that steps that end in order cost nothing however
// many there are. What lies below the client's `finished_below` counts as applied and is forgotten.
//
// Threads: one at a time.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_APPLIED_NAMES_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_APPLIED_NAMES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/parameter_server.pb.h"

namespace tandem::parameter_server {

class AppliedNames {
 public:
  struct Limits {
    // Ranges of a client above its `finished_below`, with what is on its way.
    int64_t max_ranges = int64_t{1} << 16;
    // One more, and the client is forgotten that was idle for longest.
    int64_t max_clients = int64_t{1} << 14;
  };
  enum class Known { kNew, kInProgress, kApplied };

  explicit AppliedNames(Limits limits) : limits_(limits) {}
  AppliedNames() : AppliedNames(Limits()) {}

  Known Look(const PushId& id) const;
  // Raises what the client's pushes are forgotten below. True when it was lower.
  bool FinishBelow(const PushId& id);

  // The push is on its way; `tag` is what its owner wants to know of it. REQUIRES: it is new.
  // ResourceExhausted: the client has too many names.
  absl::Status Begin(const PushId& id, int64_t tag);
  // REQUIRES, for both: it is in progress.
  int64_t Tag(const PushId& id) const;
  void Wait(const PushId& id, int64_t waiter);
  // Does nothing when the waiter, or what it waits for, is not there.
  void StopWaiting(const PushId& id, int64_t waiter);
  // From here on it counts as applied; also of one that is not in progress.
  void MarkApplied(const PushId& id);
  // It is no longer on its way, if it was; gives those that wait for it, in their order.
  std::vector<int64_t> End(const PushId& id);

  // What was applied, by client. Not what is on its way.
  std::vector<AppliedSequences> Save() const;
  // Takes the place of what was applied. InvalidArgument: ranges that make no sense; nothing has
  // changed then.
  absl::Status Load(const std::vector<AppliedSequences>& applied);
  // Of each client that a push was applied of, the newest.
  std::vector<PushId> Newest() const;

 private:
  struct InProgress {
    int64_t tag = 0;
    std::vector<int64_t> waiters;
  };
  struct Client {
    int64_t finished_below = 0;
    int64_t newest = 0;
    int64_t last_use = 0;
    std::map<int64_t, int64_t> ranges;  // First to last.
    std::map<int64_t, InProgress> in_progress;
  };

  Client& Use(uint64_t client);
  static void Add(Client& client, int64_t sequence);
  static void ForgetBelow(Client& client, int64_t below);

  const Limits limits_;
  std::map<uint64_t, Client> clients_;
  int64_t uses_ = 0;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_APPLIED_NAMES_H_
