// Arbiter: a register that all members of a job can reach and that accepts each number of a
// generation once. So two chiefs cannot both make the next generation, wherever they are and
// whatever they believe.
//
// The chief renews its claim every heartbeat (Renew changes the beat). Others claim the next
// generation only after they have seen no change for as long as a member may be silent, by their
// own clock: nobody compares clocks, and a chief that lives is not robbed. But nothing depends on
// it: whoever is too early wins, too, and is the only one.
//
// Two exist: a folder (folder_arbiter.h) and the launcher (rendezvous.h).
//
// Threads: any. Calls may block; errors mean that nobody knows whether it was done.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_ARBITER_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_ARBITER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/membership.pb.h"

namespace tandem::membership {

class Arbiter {
 public:
  virtual ~Arbiter() = default;

  // The newest generation; its number is 0 when there is none.
  virtual absl::StatusOr<ArbiterState> Read() = 0;
  // Changes the beat if `number` is the newest.
  virtual absl::StatusOr<ArbiterState> Renew(uint64_t number, uint64_t beat) = 0;
  // Wins if the number is greater than that of the newest, which is not newer than `base`. In any
  // case the answer has the newest.
  virtual absl::StatusOr<ClaimResponse> Claim(const Generation& generation, uint64_t base) = 0;
};

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_ARBITER_H_
