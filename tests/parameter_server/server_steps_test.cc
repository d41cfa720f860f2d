// Steps of workers that pull and push: plain servers run them, and the shards are on others, or in
// the same process.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "tests/parameter_server/server_test_util.h"

namespace tandem::parameter_server {
namespace {

const TaskId kServer = {"ps", 0};
const TaskId kWorker = {"worker", 0};

// "train": pulls the counter and pushes what is fed as "n"; "seen": what it pulled.
Scope StepGraph() {
  const Scope scope = Scope::NewRoot();
  const Output route = scope.WithOpName("route").Call("Placeholder", {}, {{"dtype", kString}});
  const Output n = scope.WithOpName("n").Call("Placeholder", {}, {{"dtype", kInt64}});
  const std::vector<Output> pulled = scope.WithOpName("pull").CallMulti(
      "_TandemPull", {route},
      {{"shard", 0},
       {"program", "read/pull"},
       {"Tout", std::vector<DataType>{kInt64, kFloat32, kFloat32}}});
  scope.WithOpName("seen").Call("Identity", {pulled[1]});
  scope.WithOpName("train").AddNode("_TandemPush", {route, pulled[0], n},
                                    {{"shard", 0}, {"program", "count/push"}});
  EXPECT_TRUE(scope.ok()) << scope.status();
  return scope;
}

class ServerStepsTest : public ::testing::TestWithParam<bool> {
 protected:
  ServerStepsTest() : cluster_({{"ps", 1}, {"worker", 1}}) {
    cluster_.StartAll();
    client_ = ClientOf(cluster_.address(kServer));
    const auto defined = client_->Define(CounterShard(), Soon());
    EXPECT_TRUE(defined.ok()) << defined.status();
    if (!defined.ok()) return;
    way_ = {cluster_.address(kServer), defined->incarnation, 0};
    EXPECT_TRUE(StartCall(*NewStore(), way_.To(1, 1), "init/push", {}).status().ok());
    // The worker's own sessions; those of the server, when the shard is in the same process.
    const Scope scope = StepGraph();
    auto session = ConnectSession(cluster_.server(GetParam() ? kServer : kWorker).target(),
                                  *scope.graph(), TestSessionOptions());
    EXPECT_TRUE(session.ok()) << session.status();
    if (session.ok()) session_ = *std::move(session);
  }

  absl::StatusOr<std::vector<Tensor>> Step(const Route& route, int64_t n,
                                           absl::Duration timeout = absl::Seconds(60)) {
    RunOptions options;
    options.timeout = timeout;
    return session_->Run(options,
                         {{"route", Tensor::Scalar<std::string>(route.SerializeAsString())},
                          {"n", Tensor::Scalar<int64_t>(n)}},
                         {"seen", "pull"}, {"train"}, nullptr);
  }

  TestCluster cluster_;
  std::unique_ptr<ShardClient> client_;
  Way way_;
  std::unique_ptr<Session> session_;
};

INSTANTIATE_TEST_SUITE_P(Shards, ServerStepsTest, ::testing::Values(false, true),
                         [](const auto& info) {
                           return std::string(info.param ? "InTheSameProcess" : "Elsewhere");
                         });

TEST_P(ServerStepsTest, StepsPullAndPush) {
  ASSERT_NE(session_, nullptr);
  for (int64_t step = 1; step <= 5; ++step) {
    // Run twice, it counts once.
    for (int i = 0; i < 2; ++i) {
      const auto results = Step(way_.To(9, step), 10);
      ASSERT_TRUE(results.ok()) << results.status();
      EXPECT_EQ((*results)[0].ScalarValue<int64_t>(), 10 * (step - 1 + i));
      EXPECT_EQ((*results)[1].ScalarValue<int64_t>(), step + i);
    }
  }
  EXPECT_EQ(CountAt(*client_), 50);
  const auto reports = client_->Report(kJob, Soon());
  ASSERT_TRUE(reports.ok()) << reports.status();
  EXPECT_EQ((*reports)[0].status.repeated, 5);
  EXPECT_EQ((*reports)[0].status.max_staleness, 0);
}

TEST_P(ServerStepsTest, ManyStepsAtOnceCountExactly) {
  ASSERT_NE(session_, nullptr);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t step = 1; step <= 25; ++step) {
        const auto results = Step(way_.To(100 + t, step), 1);
        ASSERT_TRUE(results.ok()) << results.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(CountAt(*client_), 100);
}

TEST_P(ServerStepsTest, AStepWhosePullWaitsEndsInTime) {
  ASSERT_NE(session_, nullptr);
  Route route = way_.To(9, 1);
  route.mutable_shards(0)->set_version(1000);
  const absl::Status late = Step(route, 1, absl::Milliseconds(300)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  // Not the step's time, but the route's.
  route.set_timeout_ms(300);
  const absl::Status too_late = Step(route, 1).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(too_late)) << too_late;
  EXPECT_TRUE(absl::StrContains(too_late.message(), "pull")) << too_late;
  EXPECT_EQ(CountAt(*client_), 0);
  // Those that waited are gone.
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while ((*client_->Report(kJob, Soon()))[0].status.waiting > 0) {
    ASSERT_LT(absl::Now(), end);
    absl::SleepFor(absl::Milliseconds(5));
  }
}

TEST_P(ServerStepsTest, AStepOfALostShardSaysSo) {
  ASSERT_NE(session_, nullptr);
  ASSERT_TRUE(client_->Forget(kJob, Soon()).ok());
  const absl::Status lost = Step(way_.To(9, 1), 1).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_TRUE(absl::StrContains(lost.message(), "'training'")) << lost;
}

// Or whoever may run a step could have the worker send its token to anybody.
TEST_P(ServerStepsTest, AnAddressOutsideOfTheClusterIsNotCalled) {
  ASSERT_NE(session_, nullptr);
  // Somebody listens there, who knows the shard.
  TestCluster other({{"ps", 1}});
  other.StartAll();
  const std::string elsewhere = other.address(kServer);
  const auto defined = ClientOf(elsewhere)->Define(CounterShard(), Soon());
  ASSERT_TRUE(defined.ok()) << defined.status();
  const Way way = {elsewhere, defined->incarnation, 0};
  const absl::Status refused = Step(way.To(9, 1), 1).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), elsewhere)) << refused;
  EXPECT_TRUE(Step(way_.To(9, 1), 1).ok());
  EXPECT_EQ((*ClientOf(elsewhere)->Report(kJob, Soon()))[0].status.pulls, 0);
}

}  // namespace
}  // namespace tandem::parameter_server
