// What the members of a job agree on before they meet.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_OPTIONS_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tandem::membership {

// A rule that is broken on purpose, so that a test of the simulation can see that somebody notices.
enum class Mutation {
  kNone,
  kHalfIsMajority,       // Two halves decide two generations of one number.
  kBarrierForgetsOne,    // A barrier opens although one member has not come.
  kLowestStepWins,       // Completed steps are thrown away.
  kFenceIsIgnored,       // An old chief writes.
  kGroupIsNotLeft,       // A member enters a group before it has left the one before.
  kNobodyIsElected,      // The job stands still when its chief dies.
  kPromisesAreForgotten  // A voter votes twice.
};

struct SeedTask {
  std::string name;
  std::string address;
};

struct MembershipOptions {
  // A group has at least, and at most, so many members.
  int min_members = 1;
  int max_members = 1;

  // A member says that it lives this often, and is lost when it has not done so for `lost_after`.
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration lost_after = absl::Seconds(3);
  // How long a member that has lost its chief, and cannot win a vote, goes on trying. Without an
  // arbiter only.
  absl::Duration minority_after = absl::Seconds(5);
  // How long a group may be too small, and a member without a group.
  absl::Duration start_timeout = absl::Seconds(120);
  // How long who needs the arbiter, and does not reach it, goes on trying.
  absl::Duration arbiter_timeout = absl::Seconds(30);
  // Changes that come one upon the other are made together.
  absl::Duration settle = absl::Milliseconds(500);
  // How long an election waits for voters that do not answer.
  absl::Duration gather = absl::Milliseconds(600);
  // How long members may take to reach a step that they agreed on.
  absl::Duration sync_timeout = absl::Minutes(10);

  // There is an arbiter: it decides which generation follows, in place of a majority.
  bool has_arbiter = false;
  // There is a fence (the folder of checkpoints), which a chief raises before its group starts.
  bool has_fence = false;
  // Whom to ask for the chief when there is no arbiter. The first one makes the first generation,
  // once all of them are there.
  std::vector<SeedTask> seeds;

  Mutation mutation = Mutation::kNone;
};

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_OPTIONS_H_
