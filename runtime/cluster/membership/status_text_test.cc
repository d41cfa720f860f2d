#include "runtime/cluster/membership/status_text.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tandem::membership {
namespace {

JobStatus ThreeMembers() {
  JobStatus status;
  status.set_from_chief(true);
  status.set_started(true);
  status.set_committed_step(40);
  status.set_steps_per_second(12.5);
  status.set_min_members(2);
  status.set_max_members(4);
  status.mutable_generation()->set_number(7);
  for (int i = 0; i < 3; ++i) {
    MemberStatus* const member = status.add_members();
    member->mutable_member()->set_name("worker:" + std::to_string(i));
    member->mutable_member()->set_address("10.0.0." + std::to_string(i) + ":2222");
    member->mutable_member()->set_host("h");
    member->set_completed_step(40 + i % 2);
    member->set_has_entered(true);
    *status.mutable_generation()->add_members() = member->member();
  }
  status.mutable_members(0)->add_waits_at("save#1");
  status.mutable_members(1)->add_waits_at("save#1");
  return status;
}

TEST(StatusText, TheTableSaysWhoWaitsForWhom) {
  const std::string text = StatusTable(ThreeMembers());
  for (const char* words :
       {"generation 7: 3 of 2 to 4 workers, working, step 40, 12.5 steps a second",
        "worker:1     10.0.0.1:2222", "waits at save#1",
        "barrier save#1: worker:0, worker:1 wait for worker:2"}) {
    EXPECT_TRUE(absl::StrContains(text, words)) << words << " in\n" << text;
  }
}

TEST(StatusText, WhoIsNotTheChiefSaysWhereItIs) {
  JobStatus status = ThreeMembers();
  status.set_from_chief(false);
  EXPECT_TRUE(absl::StrContains(StatusTable(status), "ask its chief, worker:0 at 10.0.0.0:2222"));
  JobStatus none;
  none.mutable_self()->set_name("worker:1");
  none.set_waits_for("worker:1 waits for the arbiter");
  EXPECT_TRUE(absl::StrContains(StatusTable(none), "in no generation yet: worker:1 waits"));
}

TEST(StatusText, MetricsHaveATypeEachAndQuotedLabels) {
  JobStatus status = ThreeMembers();
  status.mutable_members(2)->mutable_member()->set_host("a\"b\\c\nd");
  const std::string text = StatusMetrics(status);
  for (const char* words :
       {"# TYPE tandem_job_generation gauge\ntandem_job_generation 7\n",
        "tandem_member_completed_step{member=\"worker:1\",host=\"h\"} 41\n",
        "tandem_member_waiting{member=\"worker:2\",host=\"a\\\"b\\\\c\\nd\"} 0\n"}) {
    EXPECT_TRUE(absl::StrContains(text, words)) << words << " in\n" << text;
  }
}

}  // namespace
}  // namespace tandem::membership
