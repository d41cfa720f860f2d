// Limits and abandoned sessions, as clients meet them.
#include "runtime/rpc/server_limits.h"

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

const TaskId kWorker = {"worker", 0};

class ServerLimitsTest : public ::testing::Test {
 protected:
  void Serve(const ServerLimits& limits) {
    cluster_.options().limits = limits;
    cluster_.Start(kWorker);
  }
  TestClient Client() { return TestClient(cluster_.address(kWorker)); }

  // x + x, with x of any shape.
  static Scope Graph() {
    Scope s = Scope::NewRoot();
    const Output x = s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}});
    s.WithOpName("y").Call("Add", {x, x});
    return s;
  }

  TestCluster cluster_{{{"worker", 1}}};
};

void ExpectExhausted(const grpc::Status& status, const std::string& name) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_TRUE(absl::StrContains(status.error_message(), name)) << status.error_message();
}

TEST_F(ServerLimitsTest, Sessions) {
  ServerLimits limits;
  limits.sessions = 2;
  Serve(limits);
  TestClient first = Client(), second = Client(), third = Client();
  ASSERT_TRUE(first.Create(Graph()).ok());
  ASSERT_TRUE(second.Create(Graph()).ok());
  ExpectExhausted(third.Create(Graph()), "max_sessions");
  first.Close();
  EXPECT_TRUE(third.Create(Graph()).ok());
}

TEST_F(ServerLimitsTest, NodesOfAGraph) {
  ServerLimits limits;
  limits.graph_nodes = 1;
  Serve(limits);
  ExpectExhausted(Client().Create(Graph()), "max_graph_nodes");
}

TEST_F(ServerLimitsTest, MemoryForTheTensorsOfARequest) {
  ServerLimits limits;
  limits.request_tensor_bytes = 4000;
  Serve(limits);
  TestClient client = Client();
  ASSERT_TRUE(client.Create(Graph()).ok());
  EXPECT_TRUE(client.Fetch("y:0", {{"x", Tensor::Zeros(kFloat32, Shape({1000}))}}).ok());
  const auto refused = client.Fetch("y:0", {{"x", Tensor::Zeros(kFloat32, Shape({1001}))}});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "max_request_tensor_bytes"))
      << refused.status();
}

TEST_F(ServerLimitsTest, AMessage) {
  ServerLimits limits;
  limits.message_bytes = 10'000;
  Serve(limits);
  TestClient client = Client();
  ASSERT_TRUE(client.Create(Graph()).ok());
  const auto refused = client.Fetch("y:0", {{"x", Tensor::Zeros(kFloat32, Shape({5000}))}});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
}

TEST_F(ServerLimitsTest, AbandonedSessionsAreClosed) {
  cluster_.options().session_idle_limit = absl::Milliseconds(50);
  cluster_.Start(kWorker);
  TestClient client = Client();
  ASSERT_TRUE(client.Create(Graph()).ok());
  // Each call keeps the session for another while.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  absl::Status status;
  for (absl::Duration pause = absl::Milliseconds(100); status.ok() && absl::Now() < deadline;
       pause *= 2) {
    absl::SleepFor(pause);
    status = client.Fetch("y:0", {{"x", Tensor::Scalar<float>(1)}}).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
}

TEST(ServerLimits, AreAtLeastOne) {
  ServerLimits limits;
  EXPECT_TRUE(CheckLimits(limits).ok());
  limits.sessions = 0;
  EXPECT_EQ(CheckLimits(limits).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
