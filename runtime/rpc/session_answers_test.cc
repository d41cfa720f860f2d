// What a server tells and allows its clients' sessions, where that differs from a local session or
// hangs on the session's config.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/graph/export.h"
#include "core/tensor/tensor_proto.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

using absl::StatusCode;
using absl::StrContains;

const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};

Output Placeholder(const Scope& scope, const std::string& name, DataType dtype = kFloat32) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", dtype}, {"shape", PartialShape({})}});
}

Tensor Number(float value) { return Tensor::Scalar<float>(value); }

class SessionAnswersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.StartAll();
    client_ = std::make_unique<TestClient>(cluster_.address(kWorker));
  }

  // A session of the master's task alone unless the config says otherwise.
  void Create(const Scope& scope, tensorflow::ConfigProto config = {}) {
    if (config.device_filters().empty()) config.add_device_filters("/job:worker");
    const grpc::Status status = client_->Create(scope, config);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  tensorflow::RunStepResponse Run(const tensorflow::RunStepRequest& request) {
    tensorflow::RunStepResponse response;
    const absl::Status status = client_->Run(request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }

  TestCluster cluster_{{{"worker", 1}, {"ps", 1}}};
  std::unique_ptr<TestClient> client_;
};

TEST_F(SessionAnswersTest, AFetchOfWhatWasNotTakenIsInternal) {
  for (const bool alone : {true, false}) {
    Scope s = Scope::NewRoot();
    Node* const branch =
        s.WithOpName("branch").AddNode("Switch", {Placeholder(s, "x"), Placeholder(s, "p", kBool)});
    s.WithOpName("no").Call("Neg", {branch->output(0)});
    s.WithOpName("yes").Call("Neg", {branch->output(1)});
    tensorflow::ConfigProto config;
    config.add_device_filters("/job:worker");
    if (!alone) config.add_device_filters("/job:ps");
    Create(s, config);
    const Tensor taken = Tensor::Scalar<bool>(true);
    EXPECT_TRUE(client_->Fetch("yes:0", {{"x:0", Number(1)}, {"p:0", taken}}).ok());
    EXPECT_EQ(client_->Fetch("no:0", {{"x:0", Number(1)}, {"p:0", taken}}).status().code(),
              StatusCode::kInternal);
  }
}

TEST_F(SessionAnswersTest, ThingsOfDifferentKindsMayHaveOneName) {
  Scope s = Scope::NewRoot();
  const AttrMap variable = {{"dtype", kFloat32}, {"shape", PartialShape({})}, {"shared_name", "v"}};
  const Output handle = s.WithOpName("handle").Call("VarHandleOp", {}, variable);
  const Output reference = s.WithOpName("reference").Call("VariableV2", {}, variable);
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.WithOpName("queue").Call(
      "FIFOQueueV2", {}, {{"component_types", types}, {"shared_name", "v"}});
  s.WithOpName("set_handle").AddNode("AssignVariableOp", {handle, 1.0f});
  s.WithOpName("set_reference").AddNode("Assign", {reference, 2.0f});
  s.WithOpName("put").AddNode("QueueEnqueueV2", {queue, 3.0f}, {{"Tcomponents", types}});
  s.WithOpName("of_handle").Call("ReadVariableOp", {handle}, {{"dtype", kFloat32}});
  s.WithOpName("of_reference").Call("Identity", {reference});
  s.WithOpName("of_queue").Call("QueueDequeueV2", {queue}, {{"component_types", types}});
  s.WithOpName("destroy").AddNode("DestroyResourceOp", {handle});
  Create(s);
  for (const char* target : {"set_handle", "set_reference", "put"}) {
    const absl::Status status = client_->RunTarget(target);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(client_->Fetch("of_handle:0")->ScalarValue<float>(), 1);
  EXPECT_EQ(client_->Fetch("of_reference:0")->ScalarValue<float>(), 2);
  EXPECT_EQ(client_->Fetch("of_queue:0")->ScalarValue<float>(), 3);
  // It takes that one alone away.
  EXPECT_TRUE(client_->RunTarget("destroy").ok());
  EXPECT_FALSE(client_->Fetch("of_handle:0").ok());
  EXPECT_EQ(client_->Fetch("of_reference:0")->ScalarValue<float>(), 2);
  EXPECT_TRUE(client_->RunTarget("put").ok());
}

// Creates a session of a graph in text form. "$T" says that T is float.
grpc::Status CreateFromText(TestClient& client, std::string text, std::string* handle,
                            const tensorflow::ConfigProto& config = {}) {
  for (size_t at; (at = text.find("$T")) != std::string::npos;) {
    text.replace(at, 2, "attr { key: 'T' value { type: DT_FLOAT } }");
  }
  tensorflow::CreateSessionRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.mutable_graph_def()));
  *request.mutable_config() = config;
  tensorflow::CreateSessionResponse response;
  const grpc::Status status = client.stub().CreateSession(TestContext().get(), request, &response);
  *handle = response.session_handle();
  return status;
}

TEST_F(SessionAnswersTest, OpsThatAreNotKnownMatterToStepsThatNeedThem) {
  tensorflow::ConfigProto alone;
  alone.add_device_filters("/job:worker");
  for (const tensorflow::ConfigProto& config : {alone, tensorflow::ConfigProto()}) {
    std::string handle;
    const grpc::Status created = CreateFromText(*client_, R"(
        node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }
        node { name: 'y' op: 'Neg' input: 'x' $T }
        node { name: 'u' op: 'Unheard' input: 'x' }
        node { name: 'v' op: 'Unseen' input: 'u' }
        node { name: 'w' op: 'Neg' input: 'v' $T }
        node { name: 'all' op: 'NoOp' input: '^y' input: '^w' })",
                                                &handle, config);
    ASSERT_TRUE(created.ok()) << created.error_message();
    const auto run = [&](const char* fetch, const char* target, const char* feed) {
      tensorflow::RunStepRequest request = client_->Step({});
      request.set_session_handle(handle);
      if (fetch != nullptr) request.add_fetch(fetch);
      if (target != nullptr) request.add_target(target);
      auto* const named = request.add_feed();
      named->set_name(feed);
      EXPECT_TRUE(
          TensorToProto(Number(3), named->mutable_tensor(), TensorProtoForm::kContent).ok());
      tensorflow::RunStepResponse response;
      return client_->Run(request, &response);
    };
    EXPECT_TRUE(run("y:0", nullptr, "x:0").ok());
    // What is fed is not computed.
    EXPECT_TRUE(run("w:0", nullptr, "v:0").ok());
    for (const char* fetch : {"w:0", "v:0", "v:7"}) {
      const absl::Status status = run(fetch, nullptr, "x:0");
      EXPECT_EQ(status.code(), StatusCode::kNotFound) << fetch << ": " << status;
      EXPECT_TRUE(StrContains(status.message(), "'Unheard' (node 'u')")) << status;
      EXPECT_TRUE(StrContains(status.message(), "'Unseen' (node 'v')")) << status;
    }
    EXPECT_EQ(run(nullptr, "all", "x:0").code(), StatusCode::kNotFound);
  }
}

TEST_F(SessionAnswersTest, PartitionGraphsAreThoseOfAllTasks) {
  Scope s = Scope::NewRoot();
  const Output a = s.WithDevice("/job:ps").WithOpName("a").Call("Neg", {Placeholder(s, "x")});
  s.WithDevice("/job:worker").WithOpName("b").Call("Neg", {a});
  tensorflow::ConfigProto config;
  config.add_device_filters("/job:worker");
  config.add_device_filters("/job:ps");
  Create(s, config);
  tensorflow::RunStepRequest request = client_->Step({"b:0"});
  auto* const feed = request.add_feed();
  feed->set_name("x:0");
  ASSERT_TRUE(TensorToProto(Number(3), feed->mutable_tensor()).ok());
  EXPECT_EQ(Run(request).metadata().partition_graphs_size(), 0);
  request.mutable_options()->set_output_partition_graphs(true);
  const tensorflow::RunStepResponse response = Run(request);
  ASSERT_EQ(response.metadata().partition_graphs_size(), 2);
  EXPECT_TRUE(StrContains(response.metadata().partition_graphs(0).DebugString(), "/job:worker"));
  EXPECT_TRUE(StrContains(response.metadata().partition_graphs(1).DebugString(), "/job:ps"));
  EXPECT_FALSE(response.metadata().has_step_stats());
  config.mutable_experimental()->set_disable_output_partition_graphs(true);
  Create(s, config);
  request.set_session_handle(client_->handle());
  tensorflow::RunStepResponse refused;
  EXPECT_EQ(client_->Run(request, &refused).code(), StatusCode::kInvalidArgument);
}

TEST_F(SessionAnswersTest, EveryNthStepHasACostGraph) {
  Scope s = Scope::NewRoot();
  const Output a = s.WithOpName("a").Call("Neg", {Placeholder(s, "x")});
  s.WithOpName("b").Call("Exp", {a});
  tensorflow::ConfigProto config;
  config.mutable_graph_options()->set_build_cost_model(2);
  config.mutable_graph_options()->set_build_cost_model_after(1);
  // As it is written, so that nodes can be found.
  config.mutable_graph_options()->mutable_rewrite_options()->set_disable_meta_optimizer(true);
  Create(s, config);
  tensorflow::RunStepRequest request = client_->Step({"b:0"});
  auto* const feed = request.add_feed();
  feed->set_name("x:0");
  ASSERT_TRUE(TensorToProto(Number(0), feed->mutable_tensor()).ok());
  std::vector<int> nodes;
  tensorflow::CostGraphDef costs;
  for (int i = 0; i < 5; ++i) {
    const tensorflow::RunStepResponse response = Run(request);
    nodes.push_back(response.metadata().cost_graph().node_size());
    if (nodes.back() > 0) costs = response.metadata().cost_graph();
    EXPECT_FALSE(response.metadata().has_step_stats());
  }
  EXPECT_GT(nodes[0], 0);
  EXPECT_EQ(nodes[1], 0);
  EXPECT_GT(nodes[2], 0);
  EXPECT_EQ(nodes[3], 0);
  EXPECT_GT(nodes[4], 0);
  const tensorflow::CostGraphDef::Node* b = nullptr;
  for (const auto& node : costs.node()) {
    if (node.name() == "b") b = &node;
  }
  ASSERT_NE(b, nullptr) << costs.DebugString();
  EXPECT_TRUE(StrContains(b->device(), "/job:worker/replica:0/task:0/device:CPU:0"));
  ASSERT_EQ(b->input_info_size(), 1);
  EXPECT_EQ(costs.node(b->input_info(0).preceding_node()).name(), "a");
  ASSERT_EQ(b->output_info_size(), 1);
  EXPECT_EQ(b->output_info(0).size(), 4);
  EXPECT_EQ(b->output_info(0).dtype(), tensorflow::DT_FLOAT);
}

TEST_F(SessionAnswersTest, ThePlacementIsInTheLogOfWhoAsksForIt) {
  Mutex mu;
  std::vector<std::string> lines;
  const LogSink before = SetLogSink([&](LogSeverity, absl::string_view text) {
    MutexLock lock(mu);
    lines.emplace_back(text);
  });
  Scope s = Scope::NewRoot();
  s.WithOpName("shown_node").Call("Neg", {Placeholder(s, "x")});
  tensorflow::ConfigProto config;
  Create(s, config);
  EXPECT_TRUE(client_->Fetch("shown_node:0", {{"x:0", Number(1)}}).ok());
  const auto count = [&] {
    MutexLock lock(mu);
    int found = 0;
    for (const std::string& line : lines) {
      found += StrContains(line, "shown_node: (Neg): /job:worker/replica:0/task:0/device:CPU:0");
    }
    return found;
  };
  EXPECT_EQ(count(), 0);
  config.set_log_device_placement(true);
  Create(s, config);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(client_->Fetch("shown_node:0", {{"x:0", Number(1)}}).ok());
  }
  SetLogSink(before);
  EXPECT_EQ(count(), 1);
}

TEST_F(SessionAnswersTest, ASessionMayBringAClusterOfOneTask) {
  Scope s = Scope::NewRoot();
  const Output v = s.WithOpName("v").Call(
      "VarHandleOp", {},
      {{"dtype", kFloat32}, {"shape", PartialShape({})}, {"shared_name", "brought"}});
  s.WithDevice("/job:trainer/task:7").WithOpName("set").AddNode("AssignVariableOp", {v, 1.0f});
  s.WithOpName("value").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  tensorflow::CreateSessionRequest request;
  const auto def = ExportGraphDef(*s.graph());
  ASSERT_TRUE(def.ok()) << def.status();
  *request.mutable_graph_def() = *def;
  const std::string address = cluster_.address(kWorker);
  request.set_target(absl::StrCat("grpc://", address));
  tensorflow::JobDef* const job = request.mutable_config()->mutable_cluster_def()->add_job();
  job->set_name("trainer");
  (*job->mutable_tasks())[7] = address;
  const auto create = [&] {
    tensorflow::CreateSessionResponse response;
    const grpc::Status status =
        client_->stub().CreateSession(TestContext().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.session_handle();
  };
  const std::string handle = create();
  tensorflow::ListDevicesRequest list;
  list.set_session_handle(handle);
  tensorflow::ListDevicesResponse devices;
  ASSERT_TRUE(client_->stub().ListDevices(TestContext().get(), list, &devices).ok());
  ASSERT_EQ(devices.local_device_size(), 1);
  EXPECT_EQ(devices.local_device(0).name(), "/job:trainer/replica:0/task:7/device:CPU:0");
  tensorflow::RunStepRequest step = client_->Step({}, {"set"});
  step.set_session_handle(handle);
  Run(step);
  // Its state is its own.
  tensorflow::RunStepRequest read = client_->Step({"value:0"});
  read.set_session_handle(create());
  tensorflow::RunStepResponse response;
  EXPECT_EQ(client_->Run(read, &response).code(), StatusCode::kFailedPrecondition);
  (*job->mutable_tasks())[8] = "elsewhere:1";
  tensorflow::CreateSessionResponse refused;
  EXPECT_EQ(client_->stub().CreateSession(TestContext().get(), request, &refused).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(SessionAnswersTest, OptionsAboutThreadsAreTakenAndLeft) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  tensorflow::ConfigProto config;
  config.set_use_per_session_threads(true);
  config.add_session_inter_op_thread_pool()->set_num_threads(3);
  Create(s, config);
  EXPECT_TRUE(client_->Fetch("y:0", {{"x:0", Number(1)}}).ok());
}

TEST_F(SessionAnswersTest, TheSessionsTimeoutHoldsForStepsThatNameNone) {
  Scope s = Scope::NewRoot();
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.Call("FIFOQueueV2", {}, {{"component_types", types}});
  s.WithOpName("taken").Call("QueueDequeueV2", {queue}, {{"component_types", types}});
  tensorflow::ConfigProto config;
  config.set_operation_timeout_in_ms(20);
  Create(s, config);
  EXPECT_EQ(client_->Fetch("taken:0").status().code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace tandem
