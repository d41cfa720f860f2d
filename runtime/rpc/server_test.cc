// A server and a client that speaks its protocol, over a real port.
#include "runtime/rpc/server.h"

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/graph/export.h"
#include "core/graph/scope.h"
#include "core/tensor/tensor_proto.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/master_service.grpc.pb.h"

namespace tandem {
namespace {

using tensorflow::MasterService;

absl::StatusOr<std::unique_ptr<Server>> NewServer() {
  const auto config = ParseClusterConfig(R"({"worker": ["localhost:0"]})");
  EXPECT_TRUE(config.ok()) << config.status();
  ServerOptions options;
  options.config = *config;
  options.task = {"worker", 0};
  options.devices = "CPU:2";
  return Server::Create(options);
}

std::unique_ptr<grpc::ClientContext> Context() {
  auto context = std::make_unique<grpc::ClientContext>();
  // No test takes so long; one that hangs says so.
  context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  return context;
}

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = NewServer();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->Start().ok());
    const std::string target = server_->target();
    ASSERT_TRUE(absl::StartsWith(target, "grpc://localhost:")) << target;
    stub_ = MasterService::NewStub(
        grpc::CreateChannel(target.substr(7), grpc::InsecureChannelCredentials()));
  }

  tensorflow::GraphDef Export(const Scope& scope) {
    EXPECT_TRUE(scope.ok()) << scope.status();
    const absl::StatusOr<tensorflow::GraphDef> def = ExportGraphDef(*scope.graph());
    EXPECT_TRUE(def.ok()) << def.status();
    return *def;
  }

  std::string CreateSession(const Scope& scope) {
    tensorflow::CreateSessionRequest request;
    *request.mutable_graph_def() = Export(scope);
    tensorflow::CreateSessionResponse response;
    const grpc::Status status = stub_->CreateSession(Context().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_FALSE(response.session_handle().empty());
    return response.session_handle();
  }

  tensorflow::RunStepRequest Step(const std::string& session) {
    tensorflow::RunStepRequest request;
    request.set_session_handle(session);
    request.set_store_errors_in_response_body(true);
    return request;
  }

  tensorflow::RunStepResponse Run(const tensorflow::RunStepRequest& request) {
    tensorflow::RunStepResponse response;
    const grpc::Status status = stub_->RunStep(Context().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<MasterService::Stub> stub_;
};

Output Placeholder(const Scope& scope, const std::string& name) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", kFloat32}, {"shape", PartialShape({})}});
}

void Feed(tensorflow::RunStepRequest& request, const std::string& name, float value) {
  auto* const feed = request.add_feed();
  feed->set_name(name);
  ASSERT_TRUE(
      TensorToProto(Tensor::Scalar<float>(value), feed->mutable_tensor(), TensorProtoForm::kContent)
          .ok());
}

float Fetched(const tensorflow::RunStepResponse& response, int i = 0) {
  EXPECT_EQ(response.status_code(), 0) << response.status_error_message();
  if (response.tensor_size() <= i) return -12345.f;
  const auto value = TensorFromProto(response.tensor(i).tensor());
  EXPECT_TRUE(value.ok()) << value.status();
  return value->ScalarValue<float>();
}

TEST_F(ServerTest, RunsAGraphAndAnswersInTheWordsOfTheRequest) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Mul", {Placeholder(s, "x"), 2.0f});
  auto request = Step(CreateSession(s));
  Feed(request, "x:0", 21);
  request.add_fetch("y:0");
  const auto response = Run(request);
  EXPECT_EQ(Fetched(response), 42);
  EXPECT_EQ(response.tensor(0).name(), "y:0");
}

TEST_F(ServerTest, ExtendsAGraphWhoseVersionTheClientKnows) {
  Scope s = Scope::NewRoot();
  Placeholder(s, "x");
  const std::string session = CreateSession(s);
  tensorflow::ExtendSessionRequest extend;
  extend.set_session_handle(session);
  auto* const node = extend.mutable_graph_def()->add_node();
  node->set_name("y");
  node->set_op("Neg");
  node->add_input("x");
  (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  tensorflow::ExtendSessionResponse extended;
  grpc::Status status = stub_->ExtendSession(Context().get(), extend, &extended);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(extended.new_graph_version(), 1);
  auto request = Step(session);
  Feed(request, "x:0", 5);
  request.add_fetch("y:0");
  EXPECT_EQ(Fetched(Run(request)), -5);
  // The version has gone on.
  status = stub_->ExtendSession(Context().get(), extend, &extended);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(ServerTest, AnErrorOfAStepIsInTheBody) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  const std::string session = CreateSession(s);
  auto request = Step(session);
  request.add_fetch("z:0");
  const auto response = Run(request);
  EXPECT_EQ(response.status_code(), tensorflow::error::NOT_FOUND);
  EXPECT_TRUE(absl::StrContains(response.status_error_message(), "z"));
  // Who does not want it there gets it as the call's status.
  request.set_store_errors_in_response_body(false);
  tensorflow::RunStepResponse other;
  EXPECT_EQ(stub_->RunStep(Context().get(), request, &other).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, AGraphThatCannotBeIsRefusedWithTheNodesName) {
  tensorflow::CreateSessionRequest request;
  auto* const node = request.mutable_graph_def()->add_node();
  node->set_name("strange");
  node->set_op("Placeholder");
  tensorflow::CreateSessionResponse response;
  const grpc::Status status = stub_->CreateSession(Context().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(absl::StrContains(status.error_message(), "strange")) << status.error_message();
}

TEST_F(ServerTest, SessionsShareVariablesUntilAReset) {
  Scope s = Scope::NewRoot();
  const Output v = s.WithOpName("v").Call(
      "VarHandleOp", {},
      {{"dtype", kFloat32}, {"shape", PartialShape({})}, {"shared_name", std::string("v")}});
  s.WithOpName("set").AddNode("AssignVariableOp", {v, Placeholder(s, "x")});
  s.WithOpName("value").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  auto set = Step(CreateSession(s));
  Feed(set, "x:0", 7);
  set.add_target("set");
  EXPECT_EQ(Run(set).status_code(), 0);
  auto read = Step(CreateSession(s));
  read.add_fetch("value:0");
  EXPECT_EQ(Fetched(Run(read)), 7);
  tensorflow::ResetRequest reset;
  tensorflow::ResetResponse reset_response;
  ASSERT_TRUE(stub_->Reset(Context().get(), reset, &reset_response).ok());
  // The sessions are gone, and so is the variable.
  EXPECT_EQ(Run(read).status_code(), tensorflow::error::ABORTED);
  auto again = Step(CreateSession(s));
  again.add_fetch("value:0");
  EXPECT_NE(Run(again).status_code(), 0);
}

// "taken" waits for a queue that stays empty; "begun" waits until it has come that far.
Scope Waiting() {
  Scope s = Scope::NewRoot();
  const std::vector<DataType> types = {kFloat32};
  const auto queue = [&](const std::string& name) {
    return s.WithOpName(name).Call("FIFOQueueV2", {}, {{"component_types", types}});
  };
  const Output begins = queue("begins");
  Node* const tell =
      s.WithOpName("tell").AddNode("QueueEnqueueV2", {begins, 1.0f}, {{"Tcomponents", types}});
  s.WithOpName("begun").Call("QueueDequeueV2", {begins}, {{"component_types", types}});
  s.WithOpName("taken").WithControlDependencies({tell}).Call("QueueDequeueV2", {queue("empty")},
                                                             {{"component_types", types}});
  return s;
}

TEST_F(ServerTest, ATimeoutEndsAStepThatWaits) {
  auto request = Step(CreateSession(Waiting()));
  request.add_fetch("taken:0");
  request.mutable_options()->set_timeout_in_ms(50);
  const auto response = Run(request);
  EXPECT_EQ(response.status_code(), tensorflow::error::DEADLINE_EXCEEDED);
  EXPECT_TRUE(absl::StrContains(response.status_error_message(), "50 ms"))
      << response.status_error_message();
}

TEST_F(ServerTest, ATimeoutOfACallableEndsItsSteps) {
  tensorflow::MakeCallableRequest make;
  make.set_session_handle(CreateSession(Waiting()));
  make.mutable_options()->add_fetch("taken:0");
  make.mutable_options()->mutable_run_options()->set_timeout_in_ms(50);
  tensorflow::MakeCallableResponse made;
  ASSERT_TRUE(stub_->MakeCallable(Context().get(), make, &made).ok());
  tensorflow::RunCallableRequest run;
  run.set_session_handle(make.session_handle());
  run.set_handle(made.handle());
  tensorflow::RunCallableResponse ran;
  const grpc::Status status = stub_->RunCallable(Context().get(), run, &ran);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(absl::StrContains(status.error_message(), "50 ms")) << status.error_message();
}

TEST_F(ServerTest, CancellingTheCallEndsTheStep) {
  const std::string session = CreateSession(Waiting());
  auto request = Step(session);
  request.add_fetch("taken:0");
  auto context = Context();
  grpc::Status status;
  std::thread client([&] {
    tensorflow::RunStepResponse response;
    status = stub_->RunStep(context.get(), request, &response);
  });
  context->TryCancel();
  client.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  // The session waits for its steps when it is closed: this one has ended.
  tensorflow::CloseSessionRequest close;
  close.set_session_handle(session);
  tensorflow::CloseSessionResponse closed;
  EXPECT_TRUE(stub_->CloseSession(Context().get(), close, &closed).ok());
  EXPECT_EQ(stub_->CloseSession(Context().get(), close, &closed).error_code(),
            grpc::StatusCode::ABORTED);
}

TEST_F(ServerTest, ClosingASessionEndsItsSteps) {
  const std::string session = CreateSession(Waiting());
  auto request = Step(session);
  request.add_fetch("taken:0");
  tensorflow::RunStepResponse response;
  std::thread client([&] { response = Run(request); });
  tensorflow::CloseSessionRequest close;
  close.set_session_handle(session);
  tensorflow::CloseSessionResponse closed;
  EXPECT_TRUE(stub_->CloseSession(Context().get(), close, &closed).ok());
  client.join();
  // Whether the step came before the close or after it.
  EXPECT_TRUE(response.status_code() == tensorflow::error::CANCELLED ||
              response.status_code() == tensorflow::error::ABORTED ||
              response.status_code() == tensorflow::error::FAILED_PRECONDITION)
      << response.status_code();
}

TEST_F(ServerTest, ListsItsDevices) {
  tensorflow::ListDevicesRequest request;
  tensorflow::ListDevicesResponse response;
  ASSERT_TRUE(stub_->ListDevices(Context().get(), request, &response).ok());
  ASSERT_EQ(response.local_device_size(), 2);
  EXPECT_EQ(response.local_device(1).name(), "/job:worker/replica:0/task:0/device:CPU:1");
  EXPECT_NE(response.local_device(1).incarnation(), 0u);
  request.set_session_handle("unknown");
  EXPECT_EQ(stub_->ListDevices(Context().get(), request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, RunsCallablesByHandleAndForgetsThemOnRequest) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Mul", {Placeholder(s, "x"), 2.0f});
  const std::string session = CreateSession(s);
  tensorflow::MakeCallableRequest make;
  make.set_session_handle(session);
  make.mutable_options()->add_feed("x:0");
  make.mutable_options()->add_fetch("y:0");
  make.set_request_id(17);
  tensorflow::MakeCallableResponse made;
  ASSERT_TRUE(stub_->MakeCallable(Context().get(), make, &made).ok());
  // The same request a second time.
  EXPECT_EQ(stub_->MakeCallable(Context().get(), make, &made).error_code(),
            grpc::StatusCode::ABORTED);
  tensorflow::RunCallableRequest run;
  run.set_session_handle(session);
  run.set_handle(made.handle());
  ASSERT_TRUE(
      TensorToProto(Tensor::Scalar<float>(4), run.add_feed(), TensorProtoForm::kContent).ok());
  tensorflow::RunCallableResponse ran;
  const grpc::Status status = stub_->RunCallable(Context().get(), run, &ran);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(ran.fetch_size(), 1);
  EXPECT_EQ(TensorFromProto(ran.fetch(0))->ScalarValue<float>(), 8);
  tensorflow::ReleaseCallableRequest release;
  release.set_session_handle(session);
  release.set_handle(made.handle());
  tensorflow::ReleaseCallableResponse released;
  ASSERT_TRUE(stub_->ReleaseCallable(Context().get(), release, &released).ok());
  EXPECT_EQ(stub_->RunCallable(Context().get(), run, &ran).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, AFullTraceComesWithTheAnswer) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Mul", {Placeholder(s, "x"), 2.0f});
  auto request = Step(CreateSession(s));
  Feed(request, "x:0", 21);
  request.add_fetch("y:0");
  request.mutable_options()->set_trace_level(tensorflow::RunOptions::FULL_TRACE);
  const auto response = Run(request);
  ASSERT_EQ(response.metadata().step_stats().dev_stats_size(), 1);
  EXPECT_EQ(response.metadata().step_stats().dev_stats(0).node_stats(0).node_name(), "y");
}

TEST_F(ServerTest, StopRefusesNewSessionsAndEndsStepsThatOutlastTheGrace) {
  const std::string session = CreateSession(Waiting());
  auto request = Step(session);
  request.add_fetch("taken:0");
  grpc::Status status;
  tensorflow::RunStepResponse response;
  std::thread client([&] { status = stub_->RunStep(Context().get(), request, &response); });
  auto begun = Step(session);
  begun.add_fetch("begun:0");
  EXPECT_EQ(Fetched(Run(begun)), 1);
  EXPECT_TRUE(server_->Stop(absl::Milliseconds(50)));
  client.join();
  // The step was told why, on a connection that was still there.
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.status_code(), tensorflow::error::UNAVAILABLE);
  EXPECT_TRUE(absl::StrContains(response.status_error_message(), "ending"))
      << response.status_error_message();
  EXPECT_FALSE(server_->Stop(absl::ZeroDuration()));
}

TEST(Server, APortThatIsTakenIsAnError) {
  auto first = NewServer();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE((*first)->Start().ok());
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi((*first)->target().substr(17), &port)) << (*first)->target();
  ServerOptions options;
  options.config = *ParseClusterConfig(R"({"worker": ["localhost:1"]})");
  options.task = {"worker", 0};
  options.port = port;
  auto second = Server::Create(options);
  ASSERT_TRUE(second.ok()) << second.status();
  const absl::Status taken = (*second)->Start();
  EXPECT_EQ(taken.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(taken.message(), "the port is taken")) << taken;
}

// Asks gRPC's server reflection, whose messages are no part of this program: the request, field 7,
// wants the names of all services.
TEST(Server, TellsWhichServicesItHas) {
  auto server = NewServer();
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_TRUE((*server)->Start().ok());
  grpc::GenericStub stub(
      grpc::CreateChannel((*server)->target().substr(7), grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  const auto next = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto context = Context();
  auto call = stub.PrepareCall(
      context.get(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(next());
  const grpc::Slice request(absl::string_view("\x3a\x01*", 3).data(), 3);
  call->Write(grpc::ByteBuffer(&request, 1), nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  ASSERT_TRUE(next());
  grpc::Slice bytes;
  ASSERT_TRUE(response.DumpToSingleSlice(&bytes).ok());
  const absl::string_view services(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  for (const char* service :
       {"tensorflow.MasterService", "tensorflow.WorkerService", "grpc.health.v1.Health"}) {
    EXPECT_TRUE(absl::StrContains(services, service)) << service;
  }
  call->WritesDone(nullptr);
  next();
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  queue.Shutdown();
  while (next()) {
  }
}

// True when a server answers on `host`.
bool Answers(const std::string& host, int port) {
  auto stub = MasterService::NewStub(
      grpc::CreateChannel(absl::StrCat(host, ":", port), grpc::InsecureChannelCredentials()));
  tensorflow::ListDevicesResponse response;
  return stub->ListDevices(Context().get(), tensorflow::ListDevicesRequest(), &response).ok();
}

TEST(Server, ListensOnItsOwnAddressAndOnAllInterfacesWhenItHasNone) {
  struct Case {
    std::string host;
    bool answers_elsewhere;
  };
  for (const Case& c : {Case{"127.0.0.5", false}, Case{"192.0.2.1", true}}) {
    SCOPED_TRACE(c.host);
    ServerOptions options;
    options.config = *ParseClusterConfig(absl::StrCat(R"({"worker": [")", c.host, R"(:0"]})"));
    options.task = {"worker", 0};
    options.insecure = true;
    auto server = Server::Create(options);
    ASSERT_TRUE(server.ok()) << server.status();
    ASSERT_TRUE((*server)->Start().ok());
    const std::string prefix = absl::StrCat("grpc://", c.host, ":");
    ASSERT_TRUE(absl::StartsWith((*server)->target(), prefix)) << (*server)->target();
    int port = 0;
    ASSERT_TRUE(absl::SimpleAtoi((*server)->target().substr(prefix.size()), &port));
    EXPECT_TRUE(Answers("127.0.0.5", port));
    EXPECT_EQ(Answers("127.0.0.1", port), c.answers_elsewhere);
  }
}

TEST(Server, RefusesWhatItCannotBe) {
  ServerOptions options;
  options.config = *ParseClusterConfig(R"({"worker": ["localhost:0", "localhost:0"]})");
  options.task = {"worker", 7};
  EXPECT_EQ(Server::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.task = {"worker", 1};
  options.bind = "no address";
  EXPECT_EQ(Server::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.bind.clear();
  options.config = *ParseClusterConfig(R"({"worker": ["10.1.2.3:0"]})");
  options.task = {"worker", 0};
  EXPECT_EQ(Server::Create(options).status().code(), absl::StatusCode::kFailedPrecondition);
  options.config = *ParseClusterConfig(R"({"worker": ["127.example.org:0"]})");
  EXPECT_EQ(Server::Create(options).status().code(), absl::StatusCode::kFailedPrecondition);
  options.config = *ParseClusterConfig(R"({"worker": ["localhost:0"]})");
  options.devices = "TPU:1";
  EXPECT_EQ(Server::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
