// From the members of a job to a group of collective operations: where its members meet, and what
// it is formed with.
//
//   MembershipStore store(&membership, group.generation.number());
//   auto options = CollectiveOptions(group, "workers");
//   TANDEM_ASSIGN_OR_RETURN(auto collectives, collective::Group::Form(options, &store));
//
// When the membership loses the group (Membership::OnChange), whoever holds the collectives ends
// what runs (collective::Group::Abort) and forms others for the next generation.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_COLLECTIVE_GROUP_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_COLLECTIVE_GROUP_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "runtime/cluster/membership/membership.h"
#include "runtime/collective/group.h"
#include "runtime/collective/key_value_store.h"

namespace tandem {

// The chief's store, for one generation. Calls end when the group is lost. The membership outlives
// it. Threads: any.
class MembershipStore final : public collective::KeyValueStore {
 public:
  MembershipStore(Membership* membership, uint64_t generation,
                  absl::Duration put_timeout = absl::Seconds(30))
      : membership_(*membership), generation_(generation), put_timeout_(put_timeout) {}

  absl::Status Put(const std::string& key, const std::string& value) override {
    return membership_.Put(generation_, key, value, absl::Now() + put_timeout_);
  }
  absl::StatusOr<std::string> Get(const std::string& key, absl::Time deadline) override {
    return membership_.WaitKey(generation_, key, deadline);
  }

 private:
  Membership& membership_;
  const uint64_t generation_;
  const absl::Duration put_timeout_;
};

// Members, rank and generation of `group`; bulk data goes to the hosts of the members' addresses.
// The nonce is drawn by member 0, and reaches the others through the store.
collective::GroupOptions CollectiveOptions(const Group& group, const std::string& key);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_COLLECTIVE_GROUP_H_
