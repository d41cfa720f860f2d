#include "runtime/cluster/membership/collective_group.h"

#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

TEST(CollectiveGroup, MembersOfAJobReduceTogether) {
  constexpr int kMembers = 2;
  const int pid = getpid();
  // An address of this test process's own, so that ports cannot collide.
  const std::string host =
      absl::StrCat("127.", 10 + pid / 62500 % 200, ".", 1 + pid / 250 % 250, ".", 1 + pid % 250);
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&, i] {
      MembershipConfig config;
      config.name = absl::StrCat("worker:", i);
      config.address = absl::StrCat(host, ":", 21000 + i);
      config.security = Security();
      config.options.min_members = config.options.max_members = kMembers;
      for (int j = 0; j < kMembers; ++j) {
        config.options.seeds.push_back(
            {absl::StrCat("worker:", j), absl::StrCat(host, ":", 21000 + j)});
      }
      auto membership = Membership::Create(std::move(config));
      ASSERT_TRUE(membership.ok()) << membership.status();
      ASSERT_TRUE((*membership)->Join().ok());
      const auto group = (*membership)->WaitForGroup(Soon());
      ASSERT_TRUE(group.ok()) << group.status();
      MembershipStore store(membership->get(), group->generation.number());
      const auto collectives =
          collective::Group::Form(CollectiveOptions(*group, "workers"), &store);
      ASSERT_TRUE(collectives.ok()) << collectives.status();
      EXPECT_EQ((*collectives)->rank(), group->rank);
      std::vector<float> values = {1, 2, 3};
      collective::Request request;
      request.input = request.output = values.data();
      request.count = static_cast<int64_t>(values.size());
      const absl::Status reduced = (*collectives)->Run(request);
      EXPECT_TRUE(reduced.ok()) << reduced;
      EXPECT_EQ(values, (std::vector<float>{2, 4, 6}));
      EXPECT_TRUE((*membership)->Barrier(group->generation.number(), "end", Soon()).ok());
      EXPECT_TRUE((*membership)->Leave(Soon()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tandem
