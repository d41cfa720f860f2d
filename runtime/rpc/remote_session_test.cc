// The C++ client against a server of one task and a cluster of two, by the interface of a session.
#include "runtime/rpc/remote_session.h"

#include <thread>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};

Output Placeholder(const Scope& scope, const std::string& name) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", kFloat32}, {"shape", PartialShape({})}});
}

class RemoteSessionTest : public ::testing::Test {
 protected:
  RemoteSessionTest() : cluster_({{"worker", 1}, {"ps", 1}}) { cluster_.StartAll(); }

  std::string target() const { return absl::StrCat("grpc://", cluster_.address(kWorker)); }
  std::unique_ptr<Session> Connect(const Scope& scope) {
    EXPECT_TRUE(scope.ok()) << scope.status();
    auto session = Session::Create(target(), *scope.graph());
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  TestCluster cluster_;
};

Tensor Number(float value) { return Tensor::Scalar<float>(value); }

TEST_F(RemoteSessionTest, RunsLikeALocalOne) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  s.WithDevice("/job:ps").WithOpName("y").Call("Mul", {x, 2.0f});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  // Fetches may repeat, and leave out the number of the output.
  auto results = session->Run({{"x", Number(4)}}, {"y", "x:0", "y"});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].ScalarValue<float>(), 8);
  EXPECT_EQ((*results)[1].ScalarValue<float>(), 4);
  EXPECT_EQ((*results)[2].ScalarValue<float>(), 8);
  ASSERT_TRUE(session
                  ->Extend([](Graph& graph) {
                    Scope more = Scope::ForGraph(&graph);
                    more.WithOpName("z").Call("Neg", {Output(graph.FindNode("y"), 0)});
                    return more.status();
                  })
                  .ok());
  const auto callable = session->MakeCallable({{"x:0"}, {"z:0"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  results = (*callable)->Run({Number(3)});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].ScalarValue<float>(), -6);
  RunMetadata metadata;
  RunOptions traced;
  traced.trace = true;
  ASSERT_TRUE(session->Run(traced, {{"x", Number(1)}}, {"z"}, {}, &metadata).ok());
  EXPECT_FALSE(metadata.events.empty());
}

TEST_F(RemoteSessionTest, ErrorsHaveTheServersCodesAndWords) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->Run({}, {"nobody"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(session->MakeCallable({{}, {"nobody:0"}, {}}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Session::Create("grpc://nothing", *s.graph()).status().code(),
            absl::StatusCode::kInvalidArgument);
  RemoteSessionOptions options;
  options.start_timeout = absl::Milliseconds(100);
  const auto nobody = ConnectSession("127.0.0.1:1", *s.graph(), options);
  EXPECT_EQ(nobody.status().code(), absl::StatusCode::kDeadlineExceeded) << nobody.status();
  EXPECT_TRUE(absl::StrContains(nobody.status().message(), "127.0.0.1:1")) << nobody.status();
}

TEST_F(RemoteSessionTest, AStepThatWaitsEndsByItsLimitByItsCallerAndWithItsSession) {
  Scope s = Scope::NewRoot();
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.WithDevice("/job:ps").WithOpName("queue").Call(
      "FIFOQueueV2", {}, {{"component_types", types}});
  s.WithDevice("/job:ps").WithOpName("taken").Call("QueueDequeueV2", {queue},
                                                   {{"component_types", types}});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  RunOptions limited;
  limited.timeout = absl::Milliseconds(50);
  const auto late = session->Run(limited, {}, {"taken"}, {}, nullptr);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded) << late.status();

  CancellationManager cancellation;
  RunOptions cancelled;
  cancelled.cancellation = &cancellation;
  std::thread caller([&] { cancellation.Cancel(absl::AbortedError("enough")); });
  EXPECT_EQ(session->Run(cancelled, {}, {"taken"}, {}, nullptr).status().message(), "enough");
  caller.join();

  std::thread closer([&] { session->Close(absl::UnavailableError("over")); });
  EXPECT_EQ(session->Run({}, {"taken"}).status().message(), "over");
  closer.join();
  EXPECT_EQ(session->Run({}, {"taken"}).status().message(), "over");
}

TEST_F(RemoteSessionTest, AServerTellsItsDevicesAndForgetsOnRequest) {
  const auto server = RemoteServer::Create(target());
  ASSERT_TRUE(server.ok()) << server.status();
  const auto own = server->OwnDevices(absl::Seconds(60));
  ASSERT_TRUE(own.ok()) << own.status();
  ASSERT_EQ(own->size(), 1u);
  EXPECT_EQ((*own)[0].name, "/job:worker/replica:0/task:0/device:CPU:0");
  const auto all = server->ListDevices(absl::Seconds(60));
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[1].name, "/job:ps/replica:0/task:0/device:CPU:0");

  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {1.0f});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->Run({}, {"y"}).ok());
  ASSERT_TRUE(server->Reset({}, {}, absl::Seconds(60)).ok());
  EXPECT_EQ(session->Run({}, {"y"}).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace tandem
