#include "runtime/cluster/membership/collective_group.h"

#include <utility>

#include "runtime/cluster/cluster_config.h"

namespace tandem {

collective::GroupOptions CollectiveOptions(const Group& group, const std::string& key) {
  collective::GroupOptions options;
  options.key = key;
  options.generation = static_cast<int64_t>(group.generation.number());
  options.rank = group.rank;
  for (const MemberInfo& info : group.generation.members()) {
    collective::Member member;
    member.name = info.name();
    member.incarnation = info.incarnation();
    const absl::StatusOr<HostPort> address = ParseHostPort(info.address());
    member.host = address.ok() ? address->host : info.host();
    options.members.push_back(std::move(member));
  }
  return options;
}

}  // namespace tandem
