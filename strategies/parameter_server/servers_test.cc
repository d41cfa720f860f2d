// The coordinator's end of the shards, with servers that are lost, come back, or do not.
#include "strategies/parameter_server/servers.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/job_holds.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// A server in this process.
struct FakeServer {
  Mutex mu;
  CondVar changed;
  bool is_up ABSL_GUARDED_BY(mu) = true;
  bool has_shard ABSL_GUARDED_BY(mu) = false;
  uint64_t incarnation ABSL_GUARDED_BY(mu) = 0;
  int64_t version ABSL_GUARDED_BY(mu) = 0;
  Origin next_origin ABSL_GUARDED_BY(mu) = Origin::kNew;
  int64_t saved_version ABSL_GUARDED_BY(mu) = 0;
  std::vector<PushId> newest ABSL_GUARDED_BY(mu);
  absl::Status refusal ABSL_GUARDED_BY(mu);
  ShardDefinition definition ABSL_GUARDED_BY(mu);
  int calls ABSL_GUARDED_BY(mu) = 0;
  bool was_forgotten ABSL_GUARDED_BY(mu) = false;
  JobHolds holds ABSL_GUARDED_BY(mu);

  void Crash() {
    MutexLock lock(mu);
    is_up = false;
    has_shard = false;
  }
  void Return(Origin origin, int64_t saved) {
    MutexLock lock(mu);
    is_up = true;
    next_origin = origin;
    saved_version = saved;
  }
};

class FakeClient final : public ShardClient {
 public:
  FakeClient(std::string address, FakeServer* server)
      : address_(std::move(address)), server_(*server) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<DefinedShard> Define(const ShardDefinition& definition, absl::Time) override {
    MutexLock lock(server_.mu);
    TANDEM_RETURN_IF_ERROR(Reach());
    TANDEM_RETURN_IF_ERROR(server_.refusal);
    DefinedShard defined;
    defined.origin = Origin::kExisted;
    if (!server_.has_shard) {
      server_.has_shard = true;
      ++server_.incarnation;
      server_.version = server_.saved_version;
      defined.origin = server_.next_origin;
    }
    server_.definition = definition;
    defined.incarnation = server_.incarnation;
    defined.version = server_.version;
    defined.newest = server_.newest;
    return defined;
  }
  absl::StatusOr<ShardAnswer> Call(const Route& route, const std::string&, bool updates,
                                   const std::vector<Tensor>&, absl::Time) override {
    MutexLock lock(server_.mu);
    TANDEM_RETURN_IF_ERROR(ReachShard());
    for (const Route::Shard& shard : route.shards()) {
      if (shard.address() == address_ && shard.incarnation() != server_.incarnation) {
        return errors::Unavailable("another incarnation");
      }
    }
    ++server_.calls;
    if (updates) ++server_.version;
    ShardAnswer answer;
    answer.version = server_.version;
    return answer;
  }
  absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Read(
      const std::string&, int, const std::vector<std::string>& variables, absl::Time) override {
    MutexLock lock(server_.mu);
    TANDEM_RETURN_IF_ERROR(ReachShard());
    std::vector<std::pair<std::string, Tensor>> values;
    for (const std::string& name : variables) {
      if (name == "none") return errors::NotFound("there is no variable 'none'");
      values.emplace_back(name, Tensor::Scalar<int64_t>(server_.version));
    }
    return values;
  }
  absl::Status Write(const std::string&, int, const std::vector<std::pair<std::string, Tensor>>&,
                     absl::Time) override {
    MutexLock lock(server_.mu);
    return ReachShard();
  }
  absl::StatusOr<std::vector<ShardReport>> Report(const std::string&, absl::Time) override {
    MutexLock lock(server_.mu);
    TANDEM_RETURN_IF_ERROR(ReachShard());
    ShardReport report;
    report.incarnation = server_.incarnation;
    report.status.version = server_.version;
    report.number = server_.definition.number;
    ShardReport replica = report;
    replica.is_replica = true;
    replica.incarnation = 999;
    return std::vector<ShardReport>{replica, report};
  }
  absl::Status SetNote(const std::string&, int, const std::string&, absl::Time) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Note(const std::string&, int, absl::Time) override {
    return std::string();
  }
  absl::Status Forget(const std::string&, absl::Time) override {
    MutexLock lock(server_.mu);
    server_.was_forgotten = true;
    return Reach();
  }
  absl::StatusOr<absl::optional<JobHolder>> Hold(const std::string& job, const JobHolder& self,
                                                 absl::Duration lease, absl::Time) override {
    MutexLock lock(server_.mu);
    TANDEM_RETURN_IF_ERROR(Reach());
    HoldRequest request;
    request.set_job(job);
    request.set_holder(self.number);
    request.set_who(self.who);
    request.set_lease_ms(absl::ToInt64Milliseconds(lease));
    request.set_number(++requests_);
    TANDEM_ASSIGN_OR_RETURN(const HoldResponse response, server_.holds.Hold(request, absl::Now()));
    if (!response.has_other()) return absl::optional<JobHolder>();
    JobHolder other;
    other.number = response.other().holder();
    other.who = response.other().who();
    other.renewals = response.other().renewals();
    return absl::optional<JobHolder>(std::move(other));
  }

 private:
  absl::Status Reach() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(server_.mu) {
    return server_.is_up ? absl::OkStatus() : errors::Unavailable("connection refused");
  }
  absl::Status ReachShard() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(server_.mu) {
    TANDEM_RETURN_IF_ERROR(Reach());
    return server_.has_shard ? absl::OkStatus() : errors::NotFound("no such shard");
  }

  const std::string address_;
  FakeServer& server_;
  int64_t requests_ = 0;
};

ShardAddition Addition(int shard, const std::string& name) {
  ShardAddition addition;
  addition.shard = shard;
  addition.graph.add_node()->set_name(name);
  addition.programs.emplace_back();
  addition.programs.back().set_name(name + "/push");
  addition.variables.emplace_back();
  addition.variables.back().set_name("variable");
  return addition;
}

class ServersTest : public ::testing::Test {
 protected:
  void Make(int count, absl::Duration start_timeout = kPatience) {
    for (int i = 0; i < count; ++i) {
      fakes_.push_back(std::make_unique<FakeServer>());
      by_address_[absl::StrCat("host:", i + 1)] = fakes_.back().get();
    }
    servers_ = NewServers(start_timeout);
  }
  std::unique_ptr<Servers> NewServers(absl::Duration start_timeout = kPatience) {
    ServersOptions options;
    options.job = "job";
    options.client = 5;
    options.heartbeat = absl::Milliseconds(5);
    options.lost_after = absl::Seconds(5);
    options.start_timeout = start_timeout;
    for (size_t i = 0; i < fakes_.size(); ++i) {
      options.tasks.emplace_back(absl::StrCat("/job:ps/task:", i), absl::StrCat("host:", i + 1));
    }
    options.on_refused = [this] {
      MutexLock lock(mu_);
      ++refusals_;
    };
    options.connect = [this](const std::string& address) {
      return std::make_unique<FakeClient>(address, by_address_.at(address));
    };
    options.on_restored = [this](int shard, int64_t version) {
      MutexLock lock(mu_);
      restored_.emplace_back(shard, version);
    };
    options.on_change = [this] {
      MutexLock lock(mu_);
      ++changes_;
      changed_.NotifyAll();
    };
    return std::make_unique<Servers>(std::move(options));
  }

  // Until `is_so`; it is looked at again when the servers say that something has changed.
  template <typename Condition>
  bool WaitUntil(Condition is_so) {
    const absl::Time deadline = absl::Now() + kPatience;
    for (;;) {
      if (is_so()) return true;
      if (absl::Now() > deadline) return false;
      MutexLock lock(mu_);
      changed_.WaitUntil(mu_, absl::Now() + absl::Milliseconds(5));
    }
  }
  bool HasRoute() const {
    Route route;
    return servers_->AddTo(&route);
  }

  std::vector<std::unique_ptr<FakeServer>> fakes_;
  std::map<std::string, FakeServer*> by_address_;
  Mutex mu_;
  CondVar changed_;
  int changes_ ABSL_GUARDED_BY(mu_) = 0;
  int refusals_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::pair<int, int64_t>> restored_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Servers> servers_;
};

TEST_F(ServersTest, DefinesWhatIsAddedAndLeadsThere) {
  Make(3);
  ASSERT_TRUE(servers_->Add({Addition(0, "a"), Addition(2, "b")}).ok());
  Route route;
  ASSERT_TRUE(servers_->AddTo(&route));
  EXPECT_EQ(route.job(), "job");
  // Nobody has anything on server 1.
  ASSERT_EQ(route.shards_size(), 2);
  EXPECT_EQ(route.shards(1).number(), 2);
  EXPECT_EQ(route.shards(1).address(), "host:3");
  EXPECT_EQ(route.shards(1).incarnation(), 1u);
  // What is added later joins it, and what is there is not there twice.
  ASSERT_TRUE(servers_->Add({Addition(0, "a"), Addition(0, "c")}).ok());
  MutexLock lock(fakes_[0]->mu);
  EXPECT_EQ(fakes_[0]->definition.graph.node_size(), 2);
  EXPECT_EQ(fakes_[0]->definition.programs.size(), 2u);
  EXPECT_EQ(fakes_[0]->definition.variables.size(), 1u);
}

TEST_F(ServersTest, WhatIsRefusedIsNotKept) {
  Make(1);
  ASSERT_TRUE(servers_->Add({Addition(0, "a")}).ok());
  {
    MutexLock lock(fakes_[0]->mu);
    fakes_[0]->refusal = errors::InvalidArgument("no such op");
  }
  const absl::Status status = servers_->Add({Addition(0, "bad")});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "/job:ps/task:0")) << status;
  {
    MutexLock lock(fakes_[0]->mu);
    fakes_[0]->refusal = absl::OkStatus();
  }
  EXPECT_TRUE(servers_->status().ok());
  ASSERT_TRUE(servers_->Add({Addition(0, "good")}).ok());
  MutexLock lock(fakes_[0]->mu);
  ASSERT_EQ(fakes_[0]->definition.graph.node_size(), 2);
  EXPECT_EQ(fakes_[0]->definition.graph.node(1).name(), "good");
}

TEST_F(ServersTest, AnotherShardThanThereAreIsRefused) {
  Make(1);
  EXPECT_EQ(servers_->Add({Addition(1, "a")}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServersTest, OneThatComesBackTakesItsStateAndTellsTheLoss) {
  Make(2);
  ASSERT_TRUE(servers_->Add({Addition(0, "a"), Addition(1, "b")}).ok());
  servers_->NoteVersion(1, 10);
  fakes_[1]->Crash();
  ASSERT_TRUE(WaitUntil([&] { return !HasRoute(); }));
  std::vector<MemberEvent> events = servers_->TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, MemberEvent::Kind::kLeft);
  EXPECT_EQ(events[0].member, "/job:ps/task:1");

  fakes_[1]->Return(Origin::kSnapshot, 7);
  ASSERT_TRUE(WaitUntil([&] { return HasRoute(); }));
  events = servers_->TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, MemberEvent::Kind::kJoined);
  EXPECT_TRUE(
      absl::StrContains(events[0].reason, "7 updates from its snapshot; 3 updates are lost"))
      << events[0].reason;
  Route route;
  ASSERT_TRUE(servers_->AddTo(&route));
  EXPECT_EQ(route.shards(1).incarnation(), 2u);
  EXPECT_EQ(servers_->version(1), 7);
  {
    MutexLock lock(fakes_[1]->mu);
    EXPECT_EQ(fakes_[1]->definition.programs.size(), 1u);
  }
  MutexLock lock(mu_);
  EXPECT_EQ(restored_, (std::vector<std::pair<int, int64_t>>{{1, 7}}));
}

TEST_F(ServersTest, OneThatComesBackWithoutItsStateEndsTheTraining) {
  Make(1);
  ASSERT_TRUE(servers_->Add({Addition(0, "a")}).ok());
  servers_->NoteVersion(0, 4);
  fakes_[0]->Crash();
  fakes_[0]->Return(Origin::kNew, 0);
  ASSERT_TRUE(WaitUntil([&] { return !servers_->status().ok(); }));
  const absl::Status status = servers_->status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* words : {"/job:ps/task:0", "4 updates", "replication", "snapshot_dir"}) {
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }
  EXPECT_FALSE(HasRoute());
  EXPECT_EQ(servers_->Add({Addition(0, "b")}), status);
  EXPECT_EQ(servers_->Read(0, {"variable"}).status(), status);
}

TEST_F(ServersTest, OneThatHadNoValuesYetMayBeNew) {
  Make(1);
  ASSERT_TRUE(servers_->Add({Addition(0, "a")}).ok());
  fakes_[0]->Crash();
  ASSERT_TRUE(WaitUntil([&] { return !HasRoute(); }));
  fakes_[0]->Return(Origin::kNew, 0);
  ASSERT_TRUE(WaitUntil([&] { return HasRoute(); }));
  EXPECT_TRUE(servers_->status().ok());
}

TEST_F(ServersTest, OneThatIsNotThereIsWaitedForAndThenNamed) {
  Make(1, absl::Milliseconds(100));
  fakes_[0]->Crash();
  const absl::Status status = servers_->Add({Addition(0, "a")});
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  for (const char* words : {"/job:ps/task:0", "host:1", "connection refused"}) {
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }
  // It may still come.
  fakes_[0]->Return(Origin::kNew, 0);
  EXPECT_TRUE(servers_->Add({Addition(0, "a")}).ok());
}

TEST_F(ServersTest, OneThatDoesNotComeBackEndsTheTraining) {
  Make(1, absl::Milliseconds(100));
  ASSERT_TRUE(servers_->Add({Addition(0, "a")}).ok());
  fakes_[0]->Crash();
  ASSERT_TRUE(WaitUntil([&] { return !servers_->status().ok(); }));
  EXPECT_EQ(servers_->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(absl::StrContains(servers_->status().message(), "/job:ps/task:0"));
}

TEST_F(ServersTest, CallsWaitForOneThatIsLost) {
  Make(1);
  ASSERT_TRUE(servers_->Add({Addition(0, "a")}).ok());
  PushId id;
  id.set_client(5);
  id.set_sequence(1);
  ASSERT_EQ(servers_->Call(0, id, "a/push", true, {})->version, 1);
  fakes_[0]->Crash();
  std::thread returns([&] {
    EXPECT_TRUE(WaitUntil([&] { return !HasRoute(); }));
    fakes_[0]->Return(Origin::kReplica, 1);
  });
  const auto answer = servers_->Call(0, id, "a/push", true, {});
  returns.join();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->version, 2);
  // An error of its own is no loss.
  const auto values = servers_->Read(0, {"none"});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(values.status().message(), "no variable"));
}

TEST_F(ServersTest, KnowsWhatAnEarlierCoordinatorLeft) {
  Make(2);
  {
    MutexLock lock(fakes_[1]->mu);
    fakes_[1]->has_shard = true;
    fakes_[1]->incarnation = 77;
    fakes_[1]->version = 12;
    for (const int client : {4, 5}) {
      fakes_[1]->newest.emplace_back();
      fakes_[1]->newest.back().set_client(static_cast<uint64_t>(client));
      fakes_[1]->newest.back().set_sequence(client * 100);
    }
  }
  ASSERT_TRUE(servers_->Add({Addition(0, "a")}).ok());
  EXPECT_FALSE(servers_->existed());
  ASSERT_TRUE(servers_->Add({Addition(1, "a")}).ok());
  EXPECT_TRUE(servers_->existed());
  EXPECT_EQ(servers_->newest_sequence(), 500);
  EXPECT_EQ(servers_->version(1), 12);
  EXPECT_EQ(*servers_->AskVersions(), (std::vector<int64_t>{0, 12}));
}

TEST_F(ServersTest, LetsGoOfShardsAtTheEndUnlessTheyAreKept) {
  for (const bool keep : {false, true}) {
    fakes_.clear();
    Make(1);
    ASSERT_TRUE(servers_->Add({Addition(0, "a")}).ok());
    servers_->Stop(keep);
    EXPECT_EQ(servers_->Add({Addition(0, "b")}).code(), absl::StatusCode::kCancelled);
    servers_.reset();
    MutexLock lock(fakes_[0]->mu);
    EXPECT_EQ(fakes_[0]->was_forgotten, !keep);
  }
}

TEST_F(ServersTest, ASecondCoordinatorIsToldWhoTheFirstOneIs) {
  Make(2);
  ASSERT_TRUE(servers_->Add({Addition(1, "a")}).ok());
  auto second = NewServers();
  const absl::Status refused = second->Add({Addition(1, "b")});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(refused.message(), absl::StrCat("process ", getpid(), " on ")))
      << refused;
  EXPECT_EQ(second->status(), refused);
  // It leaves all to the first one, also at its end.
  second->Stop(/*keep=*/false);
  second.reset();
  {
    MutexLock lock(fakes_[1]->mu);
    EXPECT_EQ(fakes_[1]->definition.graph.node_size(), 1);
    EXPECT_FALSE(fakes_[1]->was_forgotten);
  }
  {
    MutexLock lock(mu_);
    EXPECT_EQ(refusals_, 1);
  }
  ASSERT_TRUE(servers_->Add({Addition(1, "c")}).ok());
  // One that ends gives the job back at once, and does not wait for its lease.
  servers_->Stop(/*keep=*/true);
  second = NewServers(absl::Seconds(4));
  EXPECT_TRUE(second->Add({Addition(1, "d")}).ok());
}

TEST(JobHolds, ALeaseThatIsOverIsForWhoeverAsks) {
  JobHolds holds;
  const absl::Time start = absl::UnixEpoch();
  const auto hold = [&](uint64_t holder, int64_t number, int at_ms, int lease_ms = 100) {
    HoldRequest request;
    request.set_job("job");
    request.set_holder(holder);
    request.set_number(number);
    request.set_lease_ms(lease_ms);
    const auto response = holds.Hold(request, start + absl::Milliseconds(at_ms));
    EXPECT_TRUE(response.ok()) << response.status();
    return response->has_other() ? static_cast<int64_t>(response->other().renewals()) : -1;
  };
  EXPECT_EQ(hold(1, 1, 0), -1);
  EXPECT_EQ(hold(2, 1, 99), 0);
  EXPECT_EQ(hold(1, 2, 99), -1);
  EXPECT_EQ(hold(2, 2, 198), 1);
  // The request that comes twice, and late, renews nothing.
  EXPECT_EQ(hold(1, 2, 198), -1);
  EXPECT_EQ(hold(2, 3, 199), -1);
  EXPECT_EQ(hold(1, 3, 250), 0);
  EXPECT_EQ(hold(2, 4, 260, 0), -1);
  // Given back; the request before that comes late.
  EXPECT_EQ(hold(2, 3, 261), -1);
  EXPECT_EQ(hold(1, 4, 262), -1);
}

TEST(JobHolds, WhatMakesNoSenseIsRefused) {
  JobHolds holds;
  HoldRequest request;
  request.set_job("job");
  request.set_holder(1);
  request.set_number(1);
  request.set_lease_ms(100);
  const auto with = [&](auto change) {
    HoldRequest changed = request;
    change(changed);
    return holds.Hold(changed, absl::UnixEpoch()).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(with([](HoldRequest& r) { r.clear_job(); }), kInvalid);
  EXPECT_EQ(with([](HoldRequest& r) { r.set_holder(0); }), kInvalid);
  EXPECT_EQ(with([](HoldRequest& r) { r.set_number(0); }), kInvalid);
  EXPECT_EQ(with([](HoldRequest& r) { r.set_lease_ms(-1); }), kInvalid);
  EXPECT_EQ(with([](HoldRequest& r) { r.set_lease_ms(int64_t{1} << 60); }), kInvalid);
  EXPECT_EQ(with([](HoldRequest& r) { r.set_who(std::string(2000, 'x')); }), kInvalid);
  // More jobs than a server remembers, unless some have ended.
  for (size_t i = 0; i < JobHolds::kMostJobs; ++i) {
    EXPECT_EQ(with([&](HoldRequest& r) { r.set_job(absl::StrCat("job ", i)); }),
              absl::StatusCode::kOk);
  }
  EXPECT_EQ(with([](HoldRequest&) {}), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(holds.Hold(request, absl::UnixEpoch() + absl::Seconds(1)).ok());
}

}  // namespace
}  // namespace tandem::parameter_server
