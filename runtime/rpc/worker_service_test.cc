// What another implementation's master and tasks say to a worker, word for word.
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/tensor/tensor_proto.h"
#include "gtest/gtest.h"
#include "runtime/executor/frame_id.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

using absl::StrContains;

const TaskId kWorker1 = {"worker", 1};

Tensor Number(float value) { return Tensor::Scalar<float>(value); }

class WorkerServiceTest : public ::testing::Test {
 protected:
  WorkerServiceTest() : cluster_({{"worker", 2}}) {
    cluster_.Start(kWorker1);
    stub_ = tensorflow::WorkerService::NewStub(
        grpc::CreateChannel(cluster_.address(kWorker1), grpc::InsecureChannelCredentials()));
    tensorflow::GetStatusResponse status;
    EXPECT_TRUE(stub_->GetStatus(TestContext().get(), {}, &status).ok());
    EXPECT_EQ(status.device_attributes_size(), 1);
    device_ = status.device_attributes(0);
  }

  void CreateSession(int64_t master_incarnation = 1) {
    tensorflow::CreateWorkerSessionRequest request;
    request.set_session_handle("s");
    request.set_master_task("/job:worker/replica:0/task:0");
    request.set_master_incarnation(master_incarnation);
    tensorflow::CreateWorkerSessionResponse response;
    const grpc::Status status = stub_->CreateWorkerSession(TestContext().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  std::string Key(const std::string& edge, uint64_t incarnation, uint64_t frame = 0) const {
    return absl::StrCat(device_.name(), ";", absl::Hex(incarnation, absl::kZeroPad16),
                        ";/job:worker/replica:0/task:0/device:CPU:0;", edge, ";", frame, ":0");
  }

  // A graph that sends -`fed`.
  tensorflow::RegisterGraphRequest NegatedFeed() const {
    tensorflow::RegisterGraphRequest request;
    request.set_session_handle("s");
    request.set_create_worker_session_called(true);
    auto* const recv = AddNode("_recv_x_0", "_Recv", &request);
    (*recv->mutable_attr())["tensor_type"].set_type(tensorflow::DT_FLOAT);
    SetEdge("fed", device_.name(), true, recv);
    auto* const neg = AddNode("neg", "Neg", &request);
    neg->add_input("_recv_x_0");
    (*neg->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    auto* const send = AddNode("neg_S1", "_Send", &request);
    send->add_input("neg");
    (*send->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    SetEdge("edge_1_neg", "/job:worker/replica:0/task:0/device:CPU:0", false, send);
    return request;
  }

  // Runs a graph that was registered, fed with 4.
  tensorflow::RunGraphRequest Run(const std::string& graph, int64_t step) const {
    tensorflow::RunGraphRequest run;
    run.set_session_handle("s");
    run.set_create_worker_session_called(true);
    run.set_graph_handle(graph);
    run.set_step_id(step);
    run.set_request_id(6);
    auto* const sent = run.add_send();
    sent->set_name(absl::StrCat(device_.name(), ";",
                                absl::Hex(device_.incarnation(), absl::kZeroPad16), ";",
                                device_.name(), ";fed;0:0"));
    EXPECT_TRUE(TensorToProto(Number(4), sent->mutable_tensor(), TensorProtoForm::kContent).ok());
    return run;
  }

  tensorflow::NodeDef* AddNode(const char* name, const char* op,
                               tensorflow::RegisterGraphRequest* request) const {
    auto* const node = request->mutable_graph_def()->add_node();
    node->set_name(name);
    node->set_op(op);
    node->set_device(device_.name());
    return node;
  }

  void SetEdge(const char* name, const std::string& to, bool by_client,
               tensorflow::NodeDef* node) const {
    auto& attrs = *node->mutable_attr();
    attrs["tensor_name"].set_s(name);
    attrs["send_device"].set_s(device_.name());
    attrs["send_device_incarnation"].set_i(static_cast<int64_t>(device_.incarnation()));
    attrs["recv_device"].set_s(to);
    attrs["client_terminated"].set_b(by_client);
  }

  TestCluster cluster_;
  std::unique_ptr<tensorflow::WorkerService::Stub> stub_;
  tensorflow::DeviceAttributes device_;
};

TEST_F(WorkerServiceTest, AValueMayBeAskedForBeforeItsStepBegins) {
  CreateSession();
  tensorflow::RegisterGraphResponse registered;
  grpc::Status status = stub_->RegisterGraph(TestContext().get(), NegatedFeed(), &registered);
  ASSERT_TRUE(status.ok()) << status.error_message();

  tensorflow::RecvTensorRequest ask;
  ask.set_step_id(77);
  ask.set_rendezvous_key(Key("edge_1_neg", device_.incarnation()));
  ask.set_request_id(5);
  tensorflow::RecvTensorResponse received;
  std::thread asks([&] {
    const grpc::Status asked = stub_->RecvTensor(TestContext().get(), ask, &received);
    EXPECT_TRUE(asked.ok()) << asked.error_message();
  });

  const tensorflow::RunGraphRequest run = Run(registered.graph_handle(), 77);
  tensorflow::RunGraphResponse ran;
  status = stub_->RunGraph(TestContext().get(), run, &ran);
  EXPECT_TRUE(status.ok()) << status.error_message();
  asks.join();
  EXPECT_EQ(TensorFromProto(received.tensor())->ScalarValue<float>(), -4);

  // Neither is done a second time.
  EXPECT_EQ(stub_->RunGraph(TestContext().get(), run, &ran).error_code(),
            grpc::StatusCode::ABORTED);
  EXPECT_EQ(stub_->RecvTensor(TestContext().get(), ask, &received).error_code(),
            grpc::StatusCode::ABORTED);
  // After the cleanup the step is over for good.
  tensorflow::CleanupGraphRequest cleanup;
  cleanup.set_step_id(77);
  tensorflow::CleanupGraphResponse cleaned;
  EXPECT_TRUE(stub_->CleanupGraph(TestContext().get(), cleanup, &cleaned).ok());
  ask.set_request_id(7);
  EXPECT_EQ(stub_->RecvTensor(TestContext().get(), ask, &received).error_code(),
            grpc::StatusCode::ABORTED);
}

TEST_F(WorkerServiceTest, WhoMeansAnEarlierLifeOfTheTaskIsTold) {
  tensorflow::RecvTensorRequest ask;
  ask.set_step_id(1);
  ask.set_rendezvous_key(Key("edge_1_neg", device_.incarnation() + 1));
  tensorflow::RecvTensorResponse received;
  absl::Status status = FromGrpc(stub_->RecvTensor(TestContext().get(), ask, &received));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(IsWorkerRestarted(status)) << status;
  tensorflow::RegisterGraphResponse registered;
  status = FromGrpc(stub_->RegisterGraph(TestContext().get(), NegatedFeed(), &registered));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(IsWorkerRestarted(status)) << status;
  EXPECT_TRUE(StrContains(status.message(), "Session handle is not found: s")) << status;
}

TEST_F(WorkerServiceTest, WhatALoopSendsHasTheKeyOfItsFrame) {
  CreateSession();
  tensorflow::RegisterGraphRequest request = NegatedFeed();
  auto* const enter = AddNode("enter", "Enter", &request);
  enter->add_input("neg");
  (*enter->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  (*enter->mutable_attr())["frame_name"].set_s("loop");
  request.mutable_graph_def()->mutable_node(2)->set_input(0, "enter");
  tensorflow::RegisterGraphResponse registered;
  grpc::Status status = stub_->RegisterGraph(TestContext().get(), request, &registered);
  ASSERT_TRUE(status.ok()) << status.error_message();

  const tensorflow::RunGraphRequest run = Run(registered.graph_handle(), 78);
  tensorflow::RunGraphResponse ran;
  status = stub_->RunGraph(TestContext().get(), run, &ran);
  EXPECT_TRUE(status.ok()) << status.error_message();

  tensorflow::RecvTensorRequest ask;
  ask.set_step_id(78);
  ask.set_rendezvous_key(Key("edge_1_neg", device_.incarnation(), ChildFrameId(0, 0, "loop")));
  ask.set_request_id(8);
  tensorflow::RecvTensorResponse received;
  status = stub_->RecvTensor(TestContext().get(), ask, &received);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(TensorFromProto(received.tensor())->ScalarValue<float>(), -4);
}

TEST_F(WorkerServiceTest, AMasterThatComesBackLosesItsOlderSessions) {
  CreateSession(/*master_incarnation=*/1);
  // The same handle would be refused if the session were still there.
  CreateSession(/*master_incarnation=*/2);
}

TEST_F(WorkerServiceTest, NonsenseIsRefused) {
  tensorflow::RecvTensorRequest ask;
  ask.set_rendezvous_key("no key");
  tensorflow::RecvTensorResponse received;
  EXPECT_EQ(stub_->RecvTensor(TestContext().get(), ask, &received).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  tensorflow::CreateWorkerSessionResponse created;
  EXPECT_EQ(stub_->CreateWorkerSession(TestContext().get(), {}, &created).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  tensorflow::RecvBufResponse buffer;
  EXPECT_EQ(stub_->RecvBuf(TestContext().get(), {}, &buffer).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace tandem
