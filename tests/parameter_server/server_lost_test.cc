// Parameter servers that are lost and come back: what their shards know then, from snapshots and
// from replicas.
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/wire.h"
#include "tests/parameter_server/server_test_util.h"

namespace tandem::parameter_server {
namespace {

const TaskId kFirst = {"ps", 0};
const TaskId kSecond = {"ps", 1};

// One that no other run of these tests has used.
std::string NewFolder() {
  return absl::StrCat(::testing::TempDir(), "/snapshots-", RandomNumber());
}

// How many updates are lost with the shard's server.
struct Kind {
  const char* name;
  Replication mode;
  int64_t most_behind;
};

class LostServerTest : public ::testing::TestWithParam<Kind> {
 protected:
  // On a busy machine a server may be silent for long without being lost.
  explicit LostServerTest(absl::Duration replica_lost_after = absl::Minutes(2))
      : cluster_({{"ps", 2}}) {
    cluster_.options().replica_lost_after = replica_lost_after;
    cluster_.StartAll();
  }

  ShardDefinition Replicated() const {
    ShardDefinition definition = CounterShard();
    definition.replication = {GetParam().mode, cluster_.address(kSecond), GetParam().most_behind};
    return definition;
  }
  // Defines the shard on the first server.
  DefinedShard Define(const ShardDefinition& definition) {
    const auto defined = client_->Define(definition, Soon());
    EXPECT_TRUE(defined.ok()) << defined.status();
    if (!defined.ok()) return {};
    way_ = {cluster_.address(kFirst), defined->incarnation, 0};
    return *defined;
  }
  void Initialize() {
    ASSERT_TRUE(StartCall(*store_, way_.To(1, 1), "init/push", {}).status().ok());
  }
  // Pushes with the sequences from `first` to `last`.
  void Push(int64_t first, int64_t last) {
    for (int64_t i = first; i <= last; ++i) {
      const absl::Status status = Add(*store_, way_.To(2, i));
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  // Until the report of the shard at the first server says so.
  void Await(const std::function<bool(const ShardReport&)>& is_so) {
    const absl::Time end = absl::Now() + absl::Seconds(60);
    for (;;) {
      const auto reports = client_->Report(kJob, Soon());
      ASSERT_TRUE(reports.ok()) << reports.status();
      for (const ShardReport& report : *reports) {
        if (!report.is_replica && is_so(report)) return;
      }
      ASSERT_LT(absl::Now(), end);
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  void AwaitReplica() {
    Await([](const ShardReport& report) {
      return !report.replica_is_lost && report.replica_behind == 0;
    });
  }
  void Restart(const TaskId& task) {
    cluster_.Stop(task);
    cluster_.Start(task);
  }

  TestCluster cluster_;
  const std::unique_ptr<ShardClient> client_ = ClientOf(cluster_.address(kFirst));
  const std::shared_ptr<RemoteStore> store_ = NewStore();
  Way way_;
};

// The same with little patience.
class LostReplicaTest : public LostServerTest {
 protected:
  LostReplicaTest() : LostServerTest(absl::Seconds(2)) {}
};

const auto kKinds = ::testing::Values(Kind{"Synchronous", Replication::kSynchronous, 0},
                                      Kind{"Asynchronous", Replication::kAsynchronous, 100},
                                      Kind{"NeverBehind", Replication::kAsynchronous, 0});

std::string NameOfKind(const ::testing::TestParamInfo<Kind>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Kinds, LostServerTest, kKinds, NameOfKind);
INSTANTIATE_TEST_SUITE_P(Kinds, LostReplicaTest, kKinds, NameOfKind);

TEST_P(LostServerTest, TheReplicaKnowsAll) {
  EXPECT_EQ(static_cast<int>(Define(Replicated()).origin), static_cast<int>(Origin::kNew));
  Initialize();
  Push(1, 20);
  ASSERT_TRUE(client_->SetNote(kJob, 0, "step 20", Soon()).ok());
  if (GetParam().mode == Replication::kAsynchronous) AwaitReplica();
  const auto on_second = ClientOf(cluster_.address(kSecond));
  const auto replica = on_second->Report(kJob, Soon());
  ASSERT_TRUE(replica.ok()) << replica.status();
  ASSERT_EQ(replica->size(), 1u);
  EXPECT_TRUE((*replica)[0].is_replica);
  EXPECT_EQ((*replica)[0].status.version, 21);

  Restart(kFirst);
  const DefinedShard defined = Define(Replicated());
  EXPECT_EQ(static_cast<int>(defined.origin), static_cast<int>(Origin::kReplica));
  EXPECT_EQ(defined.version, 21);
  EXPECT_EQ(CountAt(*client_), 20);
  // Names are known, too: nothing counts twice.
  Push(15, 25);
  EXPECT_EQ(CountAt(*client_), 25);
  // And the replica has them again, so that the server may be lost once more.
  AwaitReplica();
  Restart(kFirst);
  EXPECT_EQ(Define(Replicated()).version, 26);
  EXPECT_EQ(CountAt(*client_), 25);
}

// Of what was answered no more is lost than may be under way; with what is left, the counter and
// the version agree.
TEST_P(LostServerTest, NoMoreIsLostThanMayBe) {
  Define(Replicated());
  Initialize();
  AwaitReplica();
  int64_t count = 0;
  int64_t sequence = 0;
  for (int life = 0; life < 3; ++life) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = 0; i < 10; ++i) {
          ASSERT_TRUE(Add(*store_, way_.To(2, sequence + 10 * t + i + 1)).ok());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    sequence += 30;
    Restart(kFirst);
    const DefinedShard defined = Define(Replicated());
    EXPECT_EQ(static_cast<int>(defined.origin), static_cast<int>(Origin::kReplica));
    EXPECT_GE(defined.version - 1, count + 30 - GetParam().most_behind);
    EXPECT_LE(defined.version - 1, count + 30);
    count = CountAt(*client_);
    EXPECT_EQ(count, defined.version - 1);
  }
}

TEST_P(LostReplicaTest, AShardGoesOnWithoutItsReplicaAndBuildsItUpAgain) {
  Define(Replicated());
  Initialize();
  Push(1, 5);
  cluster_.Stop(kSecond);
  Push(6, 10);
  Await([](const ShardReport& report) { return report.replica_is_lost; });
  Push(11, 20);
  cluster_.Start(kSecond);
  AwaitReplica();
  Push(21, 22);
  AwaitReplica();
  Restart(kFirst);
  EXPECT_EQ(Define(Replicated()).version, 23);
  EXPECT_EQ(CountAt(*client_), 22);
}

// Programs that are added to a shard are its replica's, too, before anything is pushed through
// them; also when the replica begins anew.
TEST_P(LostServerTest, WhatIsAddedIsReplicated) {
  Define(Replicated());
  Initialize();
  Push(1, 3);
  ShardDefinition addition = Replicated();
  for (const Program& program : addition.programs) {
    if (program.name() != "count/push") continue;
    Program again = program;
    again.set_name("again/push");
    addition.programs = {again};
    break;
  }
  const auto push_again = [&](int64_t sequence) {
    return StartCall(*store_, way_.To(3, sequence), "again/push", {Tensor::Scalar<int64_t>(100)})
        .status();
  };
  EXPECT_TRUE(absl::IsNotFound(push_again(1)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(static_cast<int>(Define(addition).origin), static_cast<int>(Origin::kExisted));
  }
  ASSERT_TRUE(push_again(1).ok());
  Restart(kSecond);
  ASSERT_TRUE(push_again(2).ok());
  AwaitReplica();
  ASSERT_TRUE(push_again(3).ok());
  AwaitReplica();
  Restart(kFirst);
  EXPECT_EQ(Define(Replicated()).version, 7);
  EXPECT_EQ(CountAt(*client_), 303);
}

// A replica's server that was started again, before anybody noticed, knows nothing.
TEST_P(LostServerTest, AReplicaThatBeganAnewGetsTheState) {
  Define(Replicated());
  Initialize();
  Push(1, 5);
  Restart(kSecond);
  Push(6, 8);
  AwaitReplica();
  Restart(kFirst);
  EXPECT_EQ(Define(Replicated()).version, 9);
  EXPECT_EQ(CountAt(*client_), 8);
}

TEST_P(LostServerTest, WhatIsWrittenIsReplicated) {
  Define(Replicated());
  Initialize();
  Push(1, 3);
  ASSERT_TRUE(client_->Write(kJob, 0, {{"count", Tensor::Scalar<int64_t>(500)}}, Soon()).ok());
  Push(4, 5);
  AwaitReplica();
  if (GetParam().mode == Replication::kAsynchronous) {
    // The copy of a value that was written is not waited for; a push after it is.
    const auto on_second = ClientOf(cluster_.address(kSecond));
    absl::Time end = absl::Now() + absl::Seconds(60);
    while ((*on_second->Report(kJob, Soon()))[0].status.version < 6) {
      ASSERT_LT(absl::Now(), end);
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  Restart(kFirst);
  Define(Replicated());
  EXPECT_EQ(CountAt(*client_), 502);
}

TEST_P(LostServerTest, TheNewerOfSnapshotAndReplicaIsTaken) {
  ShardDefinition definition = Replicated();
  definition.snapshots.folder = NewFolder();
  definition.snapshots.every = absl::Hours(1);
  Define(definition);
  Initialize();
  Push(1, 4);
  AwaitReplica();
  // Both servers are lost; the first writes a snapshot as it ends.
  cluster_.Stop(kSecond);
  cluster_.Stop(kFirst);
  cluster_.StartAll();
  DefinedShard defined = Define(definition);
  EXPECT_EQ(static_cast<int>(defined.origin), static_cast<int>(Origin::kSnapshot));
  EXPECT_EQ(defined.version, 5);
  Push(1, 6);
  EXPECT_EQ(CountAt(*client_), 6);
  AwaitReplica();
}

TEST(LostServer, SnapshotsAreTakenUpAgain) {
  TestCluster cluster({{"ps", 1}});
  cluster.Start(kFirst);
  const auto client = ClientOf(cluster.address(kFirst));
  const auto store = NewStore();
  ShardDefinition definition = CounterShard();
  definition.snapshots.folder = NewFolder();
  definition.snapshots.every = absl::Milliseconds(20);
  auto defined = client->Define(definition, Soon());
  ASSERT_TRUE(defined.ok()) << defined.status();
  Way way = {cluster.address(kFirst), defined->incarnation, 0};
  ASSERT_TRUE(StartCall(*store, way.To(1, 1), "init/push", {}).status().ok());
  for (int64_t i = 1; i <= 10; ++i) ASSERT_TRUE(Add(*store, way.To(2, i)).ok());
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while ((*client->Report(kJob, Soon()))[0].snapshot_version < 11) {
    ASSERT_LT(absl::Now(), end);
    absl::SleepFor(absl::Milliseconds(5));
  }
  cluster.Stop(kFirst);
  cluster.Start(kFirst);
  defined = client->Define(definition, Soon());
  ASSERT_TRUE(defined.ok()) << defined.status();
  EXPECT_EQ(static_cast<int>(defined->origin), static_cast<int>(Origin::kSnapshot));
  EXPECT_EQ(defined->version, 11);
  way.incarnation = defined->incarnation;
  for (int64_t i = 8; i <= 12; ++i) ASSERT_TRUE(Add(*store, way.To(2, i)).ok());
  EXPECT_EQ(CountAt(*client), 12);
  // The next job of the name begins from nothing.
  ASSERT_TRUE(client->Forget(kJob, Soon()).ok());
  defined = client->Define(definition, Soon());
  ASSERT_TRUE(defined.ok()) << defined.status();
  EXPECT_EQ(static_cast<int>(defined->origin), static_cast<int>(Origin::kNew));
}

// Lost and doubled messages between the servers, too.
TEST(LostServer, AReplicaIsExactThoughAQuarterOfAllCallsIsLostOrDoubled) {
  ASSERT_EQ(setenv("TANDEM_PARAMETER_FAULTS", "lose=0.25,double=0.25,seed=11", 1), 0);
  TestCluster cluster({{"ps", 2}});
  cluster.options().replica_lost_after = absl::Minutes(2);
  cluster.StartAll();
  const auto client = ClientOf(cluster.address(kFirst));
  const auto store = NewStore(Faults("lose=0.25,double=0.25,seed=5"));
  ShardDefinition definition = CounterShard();
  definition.replication = {Replication::kSynchronous, cluster.address(kSecond), 0};
  int64_t sequence = 0;
  for (int life = 0; life < 4; ++life) {
    const auto defined = client->Define(definition, Soon());
    ASSERT_TRUE(defined.ok()) << defined.status();
    const Way way = {cluster.address(kFirst), defined->incarnation, 0};
    if (life == 0) {
      ASSERT_TRUE(StartCall(*store, way.To(1, 1), "init/push", {}).status().ok());
    } else {
      EXPECT_EQ(defined->version, 1 + sequence);
    }
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(Add(*store, way.To(2, ++sequence)).ok());
    }
    EXPECT_EQ(CountAt(*client), sequence);
    if (life == 1) {
      cluster.Stop(kSecond);
      cluster.Start(kSecond);
      ASSERT_TRUE(Add(*store, way.To(2, ++sequence)).ok());
    }
    cluster.Stop(kFirst);
    cluster.Start(kFirst);
  }
  unsetenv("TANDEM_PARAMETER_FAULTS");
}

}  // namespace
}  // namespace tandem::parameter_server
