// Partial runs over the wire: a step whose feeds come and whose results leave in several calls.
#include <thread>

#include "absl/strings/match.h"
#include "core/base/mutex.h"
#include "core/tensor/tensor_proto.h"
#include "gtest/gtest.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

using absl::StatusCode;
using absl::StrContains;

const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};
constexpr char kOnPs[] = "/job:ps/task:0";

using NamedValues = std::vector<std::pair<std::string, Tensor>>;

Output Placeholder(const Scope& scope, const std::string& name) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", kFloat32}, {"shape", PartialShape({})}});
}

Tensor Number(float value) { return Tensor::Scalar<float>(value); }

// sum = a + b, on `device`; product = sum * c. "taken" waits for a queue that nobody fills but
// "put".
Scope Computation(const std::string& device = "") {
  Scope s = Scope::NewRoot();
  const Scope there = s.WithDevice(device);
  const Output sum =
      there.WithOpName("sum").Call("AddV2", {Placeholder(s, "a"), Placeholder(s, "b")});
  s.WithOpName("product").Call("Mul", {sum, Placeholder(s, "c")});
  const std::vector<DataType> types = {kFloat32};
  const Output queue =
      there.WithOpName("queue").Call("FIFOQueueV2", {}, {{"component_types", types}});
  there.WithOpName("put").AddNode("QueueEnqueueV2", {queue, Placeholder(s, "x")},
                                  {{"Tcomponents", types}});
  const Output taken = there.Call("QueueDequeueV2", {queue}, {{"component_types", types}});
  s.WithOpName("taken").Call("Identity", {taken});
  return s;
}

class PartialRunTest : public ::testing::TestWithParam<bool> {
 protected:
  PartialRunTest() : cluster_({{"worker", 1}, {"ps", 1}}) {}

  void SetUp() override {
    cluster_.StartAll();
    client_ = std::make_unique<TestClient>(cluster_.address(kWorker));
    tensorflow::ConfigProto config;
    // Alone, the session is a local one of the master's.
    if (!GetParam()) config.add_device_filters("/job:worker");
    const grpc::Status created = client_->Create(Computation(GetParam() ? kOnPs : ""), config);
    ASSERT_TRUE(created.ok()) << created.error_message();
  }

  grpc::Status SetUpRun(const std::vector<std::string>& feeds,
                        const std::vector<std::string>& fetches, std::string* handle,
                        int64_t request_id = 0) {
    tensorflow::PartialRunSetupRequest request;
    request.set_session_handle(client_->handle());
    for (const std::string& feed : feeds) request.add_feed(feed);
    for (const std::string& fetch : fetches) request.add_fetch(fetch);
    request.set_request_id(request_id);
    tensorflow::PartialRunSetupResponse response;
    const grpc::Status status =
        client_->stub().PartialRunSetup(TestContext().get(), request, &response);
    *handle = response.partial_run_handle();
    return status;
  }

  std::string NewRun(const std::vector<std::string>& fetches) {
    std::string handle;
    const grpc::Status status = SetUpRun({"a:0", "b:0", "c:0"}, fetches, &handle);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_FALSE(handle.empty());
    return handle;
  }

  tensorflow::RunStepRequest Request(const std::string& handle, const NamedValues& feeds,
                                     const std::vector<std::string>& fetches) {
    tensorflow::RunStepRequest request = client_->Step(fetches);
    request.set_partial_run_handle(handle);
    for (const auto& [name, value] : feeds) {
      auto* const feed = request.add_feed();
      feed->set_name(name);
      EXPECT_TRUE(TensorToProto(value, feed->mutable_tensor(), TensorProtoForm::kContent).ok());
    }
    return request;
  }

  // The first of the values that were asked for.
  absl::StatusOr<float> Run(const std::string& handle, const NamedValues& feeds,
                            const std::vector<std::string>& fetches) {
    tensorflow::RunStepResponse response;
    const absl::Status status = client_->Run(Request(handle, feeds, fetches), &response);
    if (!status.ok()) return status;
    EXPECT_EQ(response.tensor_size(), static_cast<int>(fetches.size()));
    if (fetches.empty()) return 0;
    EXPECT_EQ(response.tensor(0).name(), fetches[0]);
    const absl::StatusOr<Tensor> value = TensorFromProto(response.tensor(0).tensor());
    if (!value.ok()) return value.status();
    return value->ScalarValue<float>();
  }

  TestCluster cluster_;
  std::unique_ptr<TestClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Tasks, PartialRunTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Two") : std::string("One");
});

TEST_P(PartialRunTest, FeedsComeAndResultsLeaveBitByBit) {
  for (int i = 0; i < 3; ++i) {
    const std::string run = NewRun({"sum:0", "product:0"});
    EXPECT_EQ(*Run(run, {{"a:0", Number(1)}}, {}), 0);
    EXPECT_EQ(*Run(run, {{"b:0", Number(2)}}, {"sum:0"}), 3);
    EXPECT_EQ(*Run(run, {{"c:0", Number(10)}}, {"product:0"}), 30);
    // It is over.
    EXPECT_EQ(Run(run, {}, {"sum:0"}).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST_P(PartialRunTest, WhatCannotBeIsRefusedAndTheRunGoesOn) {
  const std::string run = NewRun({"sum:0", "product:0"});
  EXPECT_EQ(Run(run, {}, {"sum:0"}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Run(run, {}, {"taken:0"}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Run(run, {{"x:0", Number(1)}}, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Run(run, {{"a:0", Number(1)}}, {}).ok());
  EXPECT_EQ(Run(run, {{"a:0", Number(1)}}, {}).status().code(), StatusCode::kInvalidArgument);
  tensorflow::RunStepRequest with_target = Request(run, {}, {});
  with_target.add_target("put");
  tensorflow::RunStepResponse response;
  EXPECT_EQ(client_->Run(with_target, &response).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*Run(run, {{"b:0", Number(2)}}, {"sum:0"}), 3);
}

TEST_P(PartialRunTest, UnknownRunsAndRepeatedSetupsAreRefused) {
  const auto unknown = Run("17", {{"a:0", Number(1)}}, {});
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(StrContains(unknown.status().message(), "PartialRunSetup")) << unknown.status();
  std::string handle;
  EXPECT_EQ(SetUpRun({"a:0"}, {"summ:0"}, &handle).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(SetUpRun({"a:0", "b:0"}, {"sum:0"}, &handle, 4711).ok());
  std::string again;
  EXPECT_EQ(SetUpRun({"a:0", "b:0"}, {"sum:0"}, &again, 4711).error_code(),
            grpc::StatusCode::ABORTED);
  EXPECT_EQ(*Run(handle, {{"a:0", Number(1)}, {"b:0", Number(2)}}, {"sum:0"}), 3);
}

TEST_P(PartialRunTest, ADeadlineEndsIt) {
  const std::string run = NewRun({"taken:0"});
  tensorflow::RunStepRequest request = Request(run, {{"a:0", Number(1)}}, {"taken:0"});
  request.mutable_options()->set_timeout_in_ms(50);
  tensorflow::RunStepResponse response;
  EXPECT_EQ(client_->Run(request, &response).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Run(run, {{"b:0", Number(1)}}, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(PartialRunTest, CancellingACallEndsIt) {
  const std::string run = NewRun({"taken:0"});
  const auto context = TestContext();
  std::thread call([&] {
    tensorflow::RunStepResponse response;
    EXPECT_EQ(
        client_->Run(Request(run, {{"a:0", Number(1)}}, {"taken:0"}), &response, context.get())
            .code(),
        StatusCode::kCancelled);
  });
  context->TryCancel();
  call.join();
  // It was cancelled before it reached the server, or has ended; then it is not known any more.
  const auto late = Run(run, {{"a:0", Number(1)}, {"b:0", Number(1)}, {"c:0", Number(1)}}, {});
  if (!late.ok()) {
    EXPECT_TRUE(late.status().code() == StatusCode::kInvalidArgument ||
                late.status().code() == StatusCode::kCancelled)
        << late.status();
  }
}

TEST_P(PartialRunTest, ClosingTheSessionEndsCallsAndWhatWaitsBetweenThem) {
  const std::string between = NewRun({"sum:0"});
  EXPECT_TRUE(Run(between, {{"a:0", Number(1)}}, {}).ok());
  const std::string not_begun = NewRun({"sum:0"});
  const std::string waiting = NewRun({"taken:0", "sum:0"});
  // The step of `waiting` goes on when this has answered.
  EXPECT_EQ(*Run(waiting, {{"a:0", Number(1)}, {"b:0", Number(1)}}, {"sum:0"}), 2);
  std::thread call([&] {
    const absl::StatusCode code = Run(waiting, {}, {"taken:0"}).status().code();
    EXPECT_TRUE(code == StatusCode::kCancelled || code == StatusCode::kAborted) << code;
  });
  client_->Close();
  call.join();
  EXPECT_EQ(Run(between, {}, {}).status().code(), StatusCode::kAborted);
}

TEST_P(PartialRunTest, OtherStepsOfTheSessionGoOnMeanwhile) {
  const std::string run = NewRun({"taken:0"});
  std::thread call([&] { EXPECT_EQ(*Run(run, {{"a:0", Number(1)}}, {"taken:0"}), 7); });
  EXPECT_TRUE(client_->RunTarget("put", {{"x:0", Number(7)}}).ok());
  call.join();
  EXPECT_TRUE(Run(run, {{"b:0", Number(1)}, {"c:0", Number(1)}}, {}).ok());
}

TEST_P(PartialRunTest, ATaskThatIsLostEndsIt) {
  if (!GetParam()) return;
  const std::string run = NewRun({"sum:0", "taken:0"});
  EXPECT_EQ(*Run(run, {{"a:0", Number(1)}, {"b:0", Number(1)}}, {"sum:0"}), 2);
  std::thread call([&] {
    const absl::StatusCode code = Run(run, {}, {"taken:0"}).status().code();
    EXPECT_TRUE(code == StatusCode::kUnavailable || code == StatusCode::kAborted) << code;
  });
  cluster_.Stop(kPs);
  call.join();
}

}  // namespace
}  // namespace tandem
