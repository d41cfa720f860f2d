// Parameter servers as their callers see them: shards that are defined, pushed to and pulled from
// over gRPC, and what callers are told when servers end, or calls are lost.
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "tests/parameter_server/server_test_util.h"

namespace tandem::parameter_server {
namespace {

const TaskId kServer = {"ps", 0};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : cluster_({{"ps", 1}}) { cluster_.Start(kServer); }

  // Defines the counter, with all at 0 if it is new.
  Way Define(ShardClient& client, Origin expected, int number = 0) {
    const auto defined = client.Define(CounterShard(number), Soon());
    EXPECT_TRUE(defined.ok()) << defined.status();
    if (!defined.ok()) return {};
    EXPECT_EQ(static_cast<int>(defined->origin), static_cast<int>(expected));
    EXPECT_NE(defined->incarnation, 0u);
    Way way = {address(), defined->incarnation, number};
    if (expected == Origin::kNew) {
      EXPECT_EQ(defined->version, 0);
      const auto store = NewStore();
      const absl::Status status = StartCall(*store, way.To(1, 1), "init/push", {}).status();
      EXPECT_TRUE(status.ok()) << status;
    }
    return way;
  }
  std::string address() const { return cluster_.address(kServer); }

  TestCluster cluster_;
};

TEST_F(ServerTest, WhatIsPushedIsPulled) {
  const auto client = ClientOf(address());
  const Way way = Define(*client, Origin::kNew);
  const auto store = NewStore();
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_TRUE(Add(*store, way.To(2, 2 * step), step).ok());
    ASSERT_TRUE(AddPair(*store, way.To(2, 2 * step + 1)).ok());
  }
  const auto pulled = StartCall(*store, way.To(3, 1), "read/pull", {}).Wait();
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->version, 11);
  ASSERT_EQ(pulled->results.size(), 3u);
  EXPECT_EQ(pulled->results[0].ScalarValue<int64_t>(), 15);
  EXPECT_EQ(Floats(pulled->results[1]), (std::vector<float>{5, 10, 15, 20}));
  const auto scaled =
      StartCall(*store, way.To(3, 1), "scaled/pull", {Tensor::Scalar<float>(2)}).Wait();
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  EXPECT_EQ(Floats(scaled->results[0]), (std::vector<float>{10, 20, 30, 40}));

  // A second definition adds nothing, and says where the shard is.
  const auto again = client->Define(CounterShard(), Soon());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(static_cast<int>(again->origin), static_cast<int>(Origin::kExisted));
  EXPECT_EQ(again->incarnation, way.incarnation);
  EXPECT_EQ(again->version, 11);
  std::map<uint64_t, int64_t> newest;
  for (const PushId& id : again->newest) newest[id.client()] = id.sequence();
  EXPECT_EQ(newest, (std::map<uint64_t, int64_t>{{1, 1}, {2, 11}}));
}

TEST_F(ServerTest, APushCountsOnceHoweverOftenItComes) {
  const auto client = ClientOf(address());
  const Way way = Define(*client, Origin::kNew);
  const auto store = NewStore();
  const auto other = NewStore();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Add(*store, way.To(5, 1)).ok());
    ASSERT_TRUE(Add(*other, way.To(5, 1)).ok());
  }
  EXPECT_EQ(CountAt(*client), 1);
  const auto reports = client->Report(kJob, Soon());
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_EQ(reports->size(), 1u);
  EXPECT_EQ((*reports)[0].status.version, 2);
  EXPECT_EQ((*reports)[0].status.repeated, 5);
  EXPECT_EQ((*reports)[0].incarnation, way.incarnation);
  EXPECT_EQ((*reports)[0].snapshot_version, -1);
  EXPECT_FALSE((*reports)[0].is_replica);
}

TEST_F(ServerTest, VariablesAreReadAndWritten) {
  const auto client = ClientOf(address());
  const Way way = Define(*client, Origin::kNew);
  ASSERT_TRUE(client
                  ->Write(kJob, 0,
                          {{"count", Tensor::Scalar<int64_t>(70)},
                           {"twin", Tensor::Vector<float>({4, 3, 2, 1})}},
                          Soon())
                  .ok());
  const auto all = client->Read(kJob, 0, {}, Soon());
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].first, "count");
  EXPECT_EQ((*all)[0].second.ScalarValue<int64_t>(), 70);
  EXPECT_EQ((*all)[1].first, "sum");
  EXPECT_EQ(Floats((*all)[2].second), (std::vector<float>{4, 3, 2, 1}));
  EXPECT_TRUE(absl::IsNotFound(client->Read(kJob, 0, {"cuont"}, Soon()).status()));
  EXPECT_TRUE(absl::IsNotFound(client->Read(kJob, 3, {}, Soon()).status()));
  EXPECT_FALSE(client->Write(kJob, 0, {{"count", Tensor::Scalar<float>(1)}}, Soon()).ok());
  EXPECT_EQ(CountAt(*client), 70);
  (void)way;
}

TEST_F(ServerTest, NotesAreKeptUntilTheJobIsForgotten) {
  const auto client = ClientOf(address());
  const Way way = Define(*client, Origin::kNew);
  Define(*client, Origin::kNew, 7);
  EXPECT_EQ(*client->Note(kJob, 0, Soon()), "");
  const std::string note("step 17\0of 40", 13);
  ASSERT_TRUE(client->SetNote(kJob, 0, note, Soon()).ok());
  EXPECT_EQ(*client->Note(kJob, 0, Soon()), note);
  EXPECT_EQ(*client->Note(kJob, 7, Soon()), "");
  EXPECT_TRUE(absl::IsResourceExhausted(
      client->SetNote(kJob, 0, std::string(size_t{17} << 20, 'x'), Soon())));
  ASSERT_TRUE(client->Forget("another", Soon()).ok());
  EXPECT_EQ(client->Report(kJob, Soon())->size(), 2u);

  ASSERT_TRUE(client->Forget(kJob, Soon()).ok());
  EXPECT_TRUE(absl::IsNotFound(client->Report(kJob, Soon()).status()));
  EXPECT_TRUE(absl::IsNotFound(client->Note(kJob, 0, Soon()).status()));
  const auto store = NewStore();
  const absl::Status gone = Add(*store, way.To(2, 1));
  EXPECT_TRUE(absl::IsUnavailable(gone)) << gone;
  EXPECT_TRUE(absl::StrContains(gone.message(), absl::StrCat(way.incarnation))) << gone;
  const Way new_way = Define(*client, Origin::kNew);
  EXPECT_NE(new_way.incarnation, way.incarnation);
}

TEST_F(ServerTest, AShardThatBeganAnewIsNotTakenForTheOther) {
  auto client = ClientOf(address());
  const Way way = Define(*client, Origin::kNew);
  const auto store = NewStore();
  ASSERT_TRUE(Add(*store, way.To(2, 1)).ok());
  cluster_.Stop(kServer);
  cluster_.Start(kServer);
  const absl::Status gone = Add(*store, way.To(2, 2));
  EXPECT_TRUE(absl::IsUnavailable(gone)) << gone;
  EXPECT_TRUE(absl::StrContains(gone.message(), address())) << gone;
  // Nothing of it is left: no snapshots were asked for.
  const Way new_way = Define(*client, Origin::kNew);
  const absl::Status other = Add(*store, way.To(2, 2));
  EXPECT_TRUE(absl::IsUnavailable(other)) << other;
  EXPECT_TRUE(absl::StrContains(other.message(), absl::StrCat(way.incarnation))) << other;
  EXPECT_TRUE(absl::StrContains(other.message(), absl::StrCat(new_way.incarnation))) << other;
  EXPECT_TRUE(Add(*store, new_way.To(2, 2)).ok());
  EXPECT_EQ(CountAt(*client), 1);
}

TEST_F(ServerTest, WhoWaitsForAServerIsToldWhenItHasNoShard) {
  auto client = ClientOf(address());
  Way way = Define(*client, Origin::kNew);
  cluster_.Stop(kServer);
  const auto store = NewStore();
  // Whoever does not know the incarnation takes the shard that is there.
  way.incarnation = 0;
  const PendingCall waits = StartCall(*store, way.To(2, 1), "read/pull", {});
  EXPECT_FALSE(waits.is_done());
  const absl::Status late = Add(*store, way.To(2, 1, absl::Milliseconds(1500)));
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_TRUE(absl::StrContains(late.message(), address())) << late;
  cluster_.Start(kServer);
  // There is a server now, and no shard.
  const absl::Status lost = waits.status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_TRUE(absl::StrContains(lost.message(), "/job:ps/replica:0/task:0")) << lost;
}

TEST_F(ServerTest, APullThatWaitsForAVersionIsEnded) {
  const auto client = ClientOf(address());
  const Way way = Define(*client, Origin::kNew);
  const auto store = NewStore();
  Route route = way.To(2, 1);
  route.mutable_shards(0)->set_version(3);
  const PendingCall waits = StartCall(*store, route, "read/pull", {});
  CancellationManager cancellation;
  const PendingCall cancelled = StartCall(*store, route, "read/pull", {}, &cancellation);
  Route brief = route;
  brief.set_timeout_ms(300);
  const absl::Status late = StartCall(*store, brief, "read/pull", {}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_TRUE(absl::StrContains(late.message(), address())) << late;
  cancellation.Cancel(errors::Aborted("enough"));
  EXPECT_EQ(cancelled.status(), absl::AbortedError("enough"));
  EXPECT_FALSE(waits.is_done());
  ASSERT_TRUE(Add(*store, way.To(2, 1)).ok());
  ASSERT_TRUE(Add(*store, way.To(2, 2)).ok());
  const auto answer = waits.Wait();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->version, 3);
  EXPECT_EQ(answer->results[0].ScalarValue<int64_t>(), 2);
}

TEST_F(ServerTest, WrongCallsChangeNothing) {
  const auto client = ClientOf(address());
  const Way way = Define(*client, Origin::kNew);
  const auto store = NewStore();
  const auto error = [&](const Route& route, const std::string& program,
                         std::vector<Tensor> arguments) {
    return StartCall(*store, route, program, std::move(arguments)).status();
  };
  const Tensor one = Tensor::Scalar<int64_t>(1);
  EXPECT_TRUE(absl::IsNotFound(error(way.To(2, 1), "cuont/push", {one})));
  EXPECT_TRUE(absl::IsInvalidArgument(error(way.To(2, 1), "count/push", {})));
  EXPECT_TRUE(absl::IsInvalidArgument(error(way.To(2, 1), "count/push", {one, one})));
  EXPECT_TRUE(
      absl::IsInvalidArgument(error(way.To(2, 1), "count/push", {Tensor::Scalar<float>(1)})));
  EXPECT_TRUE(absl::IsInvalidArgument(error(way.To(0, 1), "count/push", {one})));
  EXPECT_TRUE(absl::IsInvalidArgument(error(way.To(2, 0), "count/push", {one})));
  Route route = way.To(2, 1);
  route.set_timeout_ms(0);
  EXPECT_TRUE(absl::IsInvalidArgument(error(route, "count/push", {one})));
  route = way.To(2, 1);
  route.mutable_shards(0)->set_address("nowhere");
  EXPECT_TRUE(absl::IsInvalidArgument(error(route, "count/push", {one})));
  for (const auto& [part, parts, enough, weight] : std::vector<std::tuple<int, int, int, double>>{
           {0, 0, 1, 1}, {2, 2, 1, 1}, {-1, 2, 1, 1}, {0, 2, 3, 1}, {0, 2, 0, 1}, {0, 2, 1, -1}}) {
    route = way.To(2, 1);
    *route.mutable_round() = RoundOf(1, part, parts, enough, weight);
    route.mutable_round()->set_enough(enough);
    EXPECT_TRUE(absl::IsInvalidArgument(error(route, "count/push", {one}))) << part << parts;
  }
  ShardCall garbage;
  garbage.route = "\xff\xff\xff no route";
  PendingCall pending;
  store->Call(std::move(garbage), {}, nullptr, pending.done());
  EXPECT_TRUE(absl::IsInvalidArgument(pending.status())) << pending.status();

  EXPECT_EQ(CountAt(*client), 0);
  EXPECT_EQ((*client->Report(kJob, Soon()))[0].status.version, 1);
}

TEST_F(ServerTest, WrongDefinitionsAreRefused) {
  const auto client = ClientOf(address());
  const auto error = [&](const ShardDefinition& definition) {
    return client->Define(definition, Soon()).status();
  };
  ShardDefinition wrong = CounterShard();
  wrong.job = "";
  EXPECT_TRUE(absl::IsInvalidArgument(error(wrong)));
  wrong = CounterShard(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(error(wrong)));
  wrong = CounterShard();
  wrong.replication.mode = Replication::kSynchronous;
  EXPECT_TRUE(absl::IsInvalidArgument(error(wrong))) << "a replica without an address";
  wrong.replication.address = "nowhere";
  EXPECT_TRUE(absl::IsInvalidArgument(error(wrong)));
  wrong = CounterShard();
  wrong.programs[0].add_targets("nothing");
  EXPECT_FALSE(error(wrong).ok());
  EXPECT_TRUE(absl::IsNotFound(client->Report(kJob, Soon()).status())) << "it is half there";
  // What is there stays when an addition contradicts it.
  Define(*client, Origin::kNew);
  EXPECT_TRUE(absl::IsInvalidArgument(error(wrong)));
  EXPECT_EQ(CountAt(*client), 0);
}

// Each call may be lost, its answer may be lost, and it may come twice.
TEST_F(ServerTest, CountsAreExactThoughAQuarterOfAllCallsIsLostOrDoubled) {
  const auto faults = Faults("lose=0.25,double=0.25,seed=7");
  const auto client = ClientOf(address(), faults);
  const auto defined = client->Define(CounterShard(), Soon());
  ASSERT_TRUE(defined.ok()) << defined.status();
  const Way way = {address(), defined->incarnation, 0};
  // Also when the first try of a definition did its work, and its answer was lost.
  ASSERT_EQ(defined->version, 0);
  constexpr int kClients = 4;
  constexpr int64_t kPushes = 50;
  {
    const auto store = NewStore(faults);
    ASSERT_TRUE(StartCall(*store, way.To(100, 1), "init/push", {}).status().ok());
  }
  std::vector<std::thread> threads;
  for (uint64_t c = 1; c <= kClients; ++c) {
    threads.emplace_back([&, c] {
      const auto store = NewStore(faults);
      for (int64_t i = 1; i <= kPushes; ++i) {
        const absl::Status status =
            i % 2 == 0 ? AddPair(*store, way.To(c, i)) : Add(*store, way.To(c, i));
        ASSERT_TRUE(status.ok()) << status;
        if (i % 10 != 0) continue;
        const auto pulled = StartCall(*store, way.To(c, i), "read/pull", {}).Wait();
        ASSERT_TRUE(pulled.ok()) << pulled.status();
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const std::string note = absl::StrCat("note ", i);
    ASSERT_TRUE(client->SetNote(kJob, 0, note, Soon()).ok());
    const auto read = client->Note(kJob, 0, Soon());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, note);
    ASSERT_TRUE(client->Report(kJob, Soon()).ok());
    ASSERT_TRUE(client->Define(CounterShard(), Soon()).ok());
  }
  for (std::thread& thread : threads) thread.join();
  const auto values = client->Read(kJob, 0, {"count", "sum", "twin"}, Soon());
  ASSERT_TRUE(values.ok()) << values.status();
  constexpr int64_t kHalf = kClients * kPushes / 2;
  EXPECT_EQ((*values)[0].second.ScalarValue<int64_t>(), kHalf);
  EXPECT_EQ(Floats((*values)[1].second),
            (std::vector<float>{kHalf, 2 * kHalf, 3 * kHalf, 4 * kHalf}));
  EXPECT_EQ(Floats((*values)[2].second), Floats((*values)[1].second));
  const auto reports = client->Report(kJob, Soon());
  ASSERT_TRUE(reports.ok()) << reports.status();
  EXPECT_EQ((*reports)[0].status.version, 1 + kClients * kPushes);
  EXPECT_GT((*reports)[0].status.repeated, 0);
  EXPECT_GT(faults->count(), 50);
  // A value that is written is not written again by a message that comes late.
  for (int64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(
        client->Write(kJob, 0, {{"count", Tensor::Scalar<int64_t>(1000 * i)}}, Soon()).ok());
    const auto store = NewStore(faults);
    ASSERT_TRUE(Add(*store, way.To(50, i + 1), 7).ok());
    EXPECT_EQ(CountAt(*client), 1000 * i + 7);
  }
  ASSERT_TRUE(client->Forget(kJob, Soon()).ok());
  EXPECT_TRUE(absl::IsNotFound(client->Report(kJob, Soon()).status()));
}

TEST_F(ServerTest, AServerThatEndsLetsRunningCallsEnd) {
  const auto client = ClientOf(address());
  const Way way = Define(*client, Origin::kNew);
  const auto store = NewStore();
  Hold hold;
  const PendingCall runs =
      StartCall(*store, way.To(2, 1), "count/push", {Tensor::Scalar<int64_t>(1)});
  hold.WaitForRuns(1);
  std::thread stops([&] { cluster_.server(kServer).Stop(absl::Seconds(60)); });
  hold.Release();
  EXPECT_TRUE(runs.status().ok()) << runs.status();
  stops.join();
  cluster_.Stop(kServer);
}

}  // namespace
}  // namespace tandem::parameter_server
