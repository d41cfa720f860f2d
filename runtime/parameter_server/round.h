// WaitingRounds: the parts of rounds that have come to a shard and wait for the others.
//
// A round is complete with its first `enough` parts. They are combined in the order of their part
// numbers, not in that in which they came: where all parts are waited for the bits of the update do
// not depend on timing. With fewer than all, which ones count does depend on it, and so do the
// bits; not so for a given set of parts.
//
// Parts of several rounds may wait at once, since one that is quick is ahead of the others.
//
// Threads: one at a time.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_ROUND_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_ROUND_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "proto/parameter_server.pb.h"

namespace tandem::parameter_server {

struct RoundPart {
  Round round;
  PushId id;
  int64_t call = 0;  // The owner's number of it.
  std::string program;
  std::vector<Tensor> arguments;
};

// InvalidArgument: numbers that make no sense.
absl::Status CheckRound(const Round& round);

class WaitingRounds {
 public:
  struct Added {
    // InvalidArgument: an argument does not fit those of the parts that wait. Aborted: a newer
    // push has taken its place already. Nothing has changed then.
    absl::Status status;
    bool is_late = false;           // There are enough without it; it was not kept.
    std::vector<int64_t> replaced;  // Calls whose parts are here no longer: it is newer.
  };

  // A part of the same number that was pushed under a lower sequence, or by another client, gives
  // way: its step was given up, and tried again. So do all that wait if the round differs in more
  // than its part. REQUIRES: CheckRound is OK, and no part of the same name waits.
  Added Add(RoundPart part, const std::vector<Combination>& combinations);

  // Takes a part out. False: it is not here.
  bool Remove(int64_t round, int64_t call);
  // Takes out the parts of a client whose steps have ended; gives their calls.
  std::vector<int64_t> RemoveBelow(uint64_t client, int64_t finished_below);
  // Takes out all parts of rounds before `number`; gives their calls.
  std::vector<int64_t> RemoveBefore(int64_t number);
  // The parts of a round that is complete, in order. Empty: it is not.
  std::vector<RoundPart> TakeComplete(int64_t number);
  void Clear() { rounds_.clear(); }

 private:
  // By part. All have the same round, but for the part and its weight, and program.
  std::map<int64_t, std::map<int32_t, RoundPart>> rounds_;
};

// The arguments of the round's update. REQUIRES: `parts` are those of TakeComplete, and the
// combinations those of their program. Errors: those of Combine.
absl::StatusOr<std::vector<Tensor>> CombineParts(const std::vector<Combination>& combinations,
                                                 std::vector<RoundPart> parts);

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_ROUND_H_
