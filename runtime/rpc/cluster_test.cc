// Clusters of several tasks, over real ports: what is computed where, and what happens when a task
// fails, is missing, or comes back as another.
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/graph/function_body.h"
#include "core/tensor/tensor_proto.h"
#include "gtest/gtest.h"
#include "runtime/rpc/join_tasks.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

using absl::StrContains;

const TaskId kWorker0 = {"worker", 0};
const TaskId kWorker1 = {"worker", 1};
const TaskId kPs = {"ps", 0};

constexpr char kOnWorker0[] = "/job:worker/task:0";
constexpr char kOnWorker1[] = "/job:worker/task:1";
constexpr char kOnPs[] = "/job:ps/task:0";

Output Placeholder(const Scope& scope, const std::string& name,
                   const PartialShape& shape = PartialShape({})) {
  return scope.WithOpName(name).Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", shape}});
}

Output Variable(const Scope& scope, const std::string& name) {
  return scope.WithOpName(name).Call(
      "VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}, {"shared_name", name}});
}

Tensor Number(float value) { return Tensor::Scalar<float>(value); }

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() : cluster_({{"worker", 2}, {"ps", 1}}) {}

  TestCluster cluster_;
};

TEST_F(ClusterTest, ValuesGoFromTaskToTask) {
  cluster_.StartAll();
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x", PartialShape({-1}));
  const Output a = s.WithDevice(kOnPs).WithOpName("a").Call("Mul", {x, 2.0f});
  const Output b = s.WithDevice(kOnWorker1).WithOpName("b").Call("Add", {a, 1.0f});
  s.WithDevice(kOnWorker0).WithOpName("c").Call("Sub", {b, a});
  s.WithDevice(kOnPs).WithOpName("text").Call("Identity", {"from afar"});
  const Output reserved =
      s.WithDevice(kOnPs).Call("TensorListReserve", {s.Constant(Tensor::Vector<int32_t>({2})), 3},
                               {{"element_dtype", kFloat32}});
  const Output filled =
      s.WithDevice(kOnWorker1)
          .Call("TensorListSetItem", {reserved, 1, s.Constant(Tensor::Vector<float>({2, 3}))});
  s.WithDevice(kOnPs).WithOpName("item").Call("TensorListGetItem",
                                              {filled, 1, s.Constant(Tensor::Vector<int32_t>({2}))},
                                              {{"element_dtype", kFloat32}});
  TestClient client(cluster_.address(kWorker0));
  const grpc::Status created = client.Create(s);
  ASSERT_TRUE(created.ok()) << created.error_message();
  const auto small = client.Fetch("b:0", {{"x:0", Tensor::Vector<float>({1, 2})}});
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->Elements<float>()[1], 5);
  // Strings have another form on the wire; nothing of this one is in the master's task.
  const auto text = client.Fetch("text:0");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->ScalarValue<std::string>(), "from afar");
  // So have lists, in which one element is not set.
  const auto list = client.Fetch("item:0");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->Elements<float>()[1], 3);
  // More than gRPC holds in one slice, and nothing at all.
  Tensor large(kFloat32, Shape({1 << 20}));
  for (int i = 0; i < 1 << 20; ++i) large.MutableElements<float>()[i] = static_cast<float>(i);
  for (const Tensor& value : {large, Tensor(kFloat32, Shape({0}))}) {
    const auto result = client.Fetch("c:0", {{"x:0", value}});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->shape(), value.shape());
    for (const float one : result->Elements<float>()) ASSERT_EQ(one, 1);
  }
}

TEST_F(ClusterTest, MastersShareTheVariablesOfAParameterServer) {
  cluster_.StartAll();
  Scope s = Scope::NewRoot();
  const Output v = Variable(s.WithDevice(kOnPs), "v");
  s.WithOpName("set").AddNode("AssignVariableOp", {v, Placeholder(s, "x")});
  s.WithOpName("add").AddNode("AssignAddVariableOp", {v, Placeholder(s, "y")});
  s.WithOpName("value").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  TestClient first(cluster_.address(kWorker0));
  TestClient second(cluster_.address(kWorker1));
  ASSERT_TRUE(first.Create(s).ok());
  ASSERT_TRUE(second.Create(s).ok());
  ASSERT_TRUE(first.RunTarget("set", {{"x:0", Number(1)}}).ok());
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(second.RunTarget("add", {{"y:0", Number(1)}}).ok());
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(first.RunTarget("add", {{"y:0", Number(1)}}).ok());
  other.join();
  EXPECT_EQ(second.Fetch("value:0")->ScalarValue<float>(), 41);
  // A session of its own state sees nothing of it.
  tensorflow::ConfigProto config;
  config.set_isolate_session_state(true);
  TestClient isolated(cluster_.address(kWorker0));
  ASSERT_TRUE(isolated.Create(s, config).ok());
  EXPECT_EQ(isolated.Fetch("value:0").status().code(), absl::StatusCode::kFailedPrecondition);
  // Reset forgets it everywhere.
  tensorflow::ResetRequest reset;
  tensorflow::ResetResponse response;
  ASSERT_TRUE(first.stub().Reset(TestContext().get(), reset, &response).ok());
  EXPECT_EQ(first.Fetch("value:0").status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(second.Fetch("value:0").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ClusterTest, BranchesOfAConditionalLieInDifferentTasks) {
  cluster_.StartAll();
  Scope s = Scope::NewRoot();
  const Output p =
      s.WithOpName("p").Call("Placeholder", {}, {{"dtype", kBool}, {"shape", PartialShape({})}});
  const Scope here = s.WithDevice(kOnWorker0);
  Node* const branch = here.WithOpName("switch").AddNode("Switch", {Placeholder(s, "x"), p});
  const Output no = s.WithDevice(kOnPs).Call("Neg", {branch->output(0)});
  const Output yes = s.WithDevice(kOnWorker1).Call("Mul", {branch->output(1), 10.0f});
  here.WithOpName("merge").Call("Merge", {no, yes});
  TestClient client(cluster_.address(kWorker0));
  ASSERT_TRUE(client.Create(s).ok());
  for (const bool taken : {true, false}) {
    const auto result =
        client.Fetch("merge:0", {{"x:0", Number(3)}, {"p:0", Tensor::Scalar<bool>(taken)}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->ScalarValue<float>(), taken ? 30 : -3);
  }
}

// Calls and conditionals whose bodies use a variable of the parameter server, and its devices.
TEST_F(ClusterTest, FunctionsMaySpanTasks) {
  cluster_.StartAll();
  Scope s = Scope::NewRoot();
  const std::vector<DataType> args = {kResource, kFloat32};
  const std::vector<DataType> results = {kFloat32};
  const auto define = [&](const char* name, float factor, bool adds) {
    Scope body = Scope::NewRoot();
    const Output v = FunctionArg(body.WithOpName("v"), 0, kResource);
    const Output x = FunctionArg(body.WithOpName("x"), 1, kFloat32);
    std::vector<Node*> effects;
    Scope after = body;
    if (adds) {
      effects.push_back(body.WithOpName("add").AddNode("AssignAddVariableOp", {v, 1.0f}));
      after = body.WithControlDependencies({effects[0]});
    }
    const Output read = after.Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
    const Output product = body.WithDevice(kOnPs).WithOpName("product").Call("Mul", {x, factor});
    FunctionResult(body.WithOpName("y"), 0,
                   body.WithDevice(kOnWorker1).Call("Add", {product, read}));
    ASSERT_TRUE(body.ok()) << body.status();
    ASSERT_TRUE(DefineFunction(name, *body.graph(), effects, &s.graph()->functions()).ok());
  };
  define("twice", 2, true);
  define("thrice", 3, false);
  const Output v = Variable(s.WithDevice(kOnPs), "v");
  s.WithOpName("set").AddNode("AssignVariableOp", {v, 100.0f});
  s.WithOpName("value").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  const Output x = Placeholder(s, "x");
  const Output p =
      s.WithOpName("p").Call("Placeholder", {}, {{"dtype", kBool}, {"shape", PartialShape({})}});
  const Scope here = s.WithDevice(kOnWorker0);
  here.WithOpName("call").AddNode("StatefulPartitionedCall", {v, x},
                                  {{"f", FunctionRef{"twice", {}}}, {"Tout", results}});
  here.WithOpName("if").AddNode("If", {p, v, x},
                                {{"Tout", results},
                                 {"then_branch", FunctionRef{"twice", {}}},
                                 {"else_branch", FunctionRef{"thrice", {}}}});
  TestClient client(cluster_.address(kWorker0));
  const grpc::Status created = client.Create(s);
  ASSERT_TRUE(created.ok()) << created.error_message();
  ASSERT_TRUE(client.RunTarget("set").ok());
  const auto call = client.Fetch("call:0", {{"x:0", Number(5)}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->ScalarValue<float>(), 111);
  for (const bool taken : {false, true}) {
    const auto result =
        client.Fetch("if:0", {{"x:0", Number(5)}, {"p:0", Tensor::Scalar<bool>(taken)}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->ScalarValue<float>(), taken ? 112 : 116);
  }
  // As a target, without anybody who wants the result.
  ASSERT_TRUE(client.RunTarget("call", {{"x:0", Number(5)}}).ok());
  EXPECT_EQ(client.Fetch("value:0")->ScalarValue<float>(), 103);
}

// "failing" fails on the parameter server while both workers wait for it.
TEST_F(ClusterTest, TheFirstErrorNamesItsTaskAndNode) {
  cluster_.StartAll();
  Scope s = Scope::NewRoot();
  const Output size = s.WithOpName("size").Call("Placeholder", {},
                                                {{"dtype", kInt32}, {"shape", PartialShape({1})}});
  const Output failing = s.WithDevice(kOnPs).WithOpName("failing").Call(
      "Reshape", {Placeholder(s, "x", PartialShape({-1})), size});
  const Output a = s.WithDevice(kOnWorker1).Call("Neg", {failing});
  s.WithDevice(kOnWorker0).WithOpName("b").Call("Neg", {a});
  TestClient client(cluster_.address(kWorker0));
  ASSERT_TRUE(client.Create(s).ok());
  const Tensor x = Tensor::Vector<float>({1, 2, 3});
  const auto fetch = [&](int elements) {
    return client.Fetch("b:0", {{"x:0", x}, {"size:0", Tensor::Vector<int32_t>({elements})}});
  };
  for (int i = 0; i < 10; ++i) {
    const absl::Status status = fetch(7).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StartsWith(status.message(), "From /job:ps/replica:0/task:0:\n")) << status;
    EXPECT_TRUE(StrContains(status.message(), "{{node failing}}")) << status;
  }
  // Nothing stays behind.
  EXPECT_TRUE(fetch(3).ok());
}

// "taken" waits for a queue of the parameter server.
Scope Waiting() {
  Scope s = Scope::NewRoot();
  const std::vector<DataType> types = {kFloat32};
  const Output queue =
      s.WithDevice(kOnPs).WithOpName("queue").Call("FIFOQueueV2", {}, {{"component_types", types}});
  s.WithOpName("put").AddNode("QueueEnqueueV2", {queue, Placeholder(s, "x")},
                              {{"Tcomponents", types}});
  const Output taken =
      s.WithDevice(kOnPs).Call("QueueDequeueV2", {queue}, {{"component_types", types}});
  s.WithDevice(kOnWorker1).WithOpName("taken").Call("Neg", {taken});
  return s;
}

TEST_F(ClusterTest, ATimeoutNamesTheTasksThatHadNotEnded) {
  cluster_.StartAll();
  TestClient client(cluster_.address(kWorker0));
  ASSERT_TRUE(client.Create(Waiting()).ok());
  auto request = client.Step({}, {"taken"});
  request.mutable_options()->set_timeout_in_ms(100);
  tensorflow::RunStepResponse response;
  const absl::Status status = client.Run(request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(StrContains(status.message(), "/job:ps/replica:0/task:0")) << status;
  EXPECT_TRUE(StrContains(status.message(), "/job:worker/replica:0/task:1")) << status;
}

TEST_F(ClusterTest, ACancelledCallEndsItsStepOnAllTasks) {
  cluster_.StartAll();
  TestClient client(cluster_.address(kWorker0));
  ASSERT_TRUE(client.Create(Waiting()).ok());
  auto context = TestContext();
  std::thread waits([&] {
    tensorflow::RunStepResponse response;
    EXPECT_EQ(client.Run(client.Step({"taken:0"}), &response, context.get()).code(),
              absl::StatusCode::kCancelled);
  });
  context->TryCancel();
  waits.join();
  // Whoever waited for the queue waits no more: another step gets the element.
  ASSERT_TRUE(client.RunTarget("put", {{"x:0", Number(5)}}).ok());
  const auto taken = client.Fetch("taken:0");
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->ScalarValue<float>(), -5);
  client.Close();
}

TEST_F(ClusterTest, ClosingASessionEndsItsStepsEverywhere) {
  cluster_.StartAll();
  TestClient client(cluster_.address(kWorker0));
  ASSERT_TRUE(client.Create(Waiting()).ok());
  absl::Status status;
  std::thread waits([&] { status = client.Fetch("taken:0").status(); });
  client.Close();
  waits.join();
  // Whether the step came before the close or after it.
  EXPECT_TRUE(absl::IsCancelled(status) || absl::IsAborted(status) ||
              absl::IsFailedPrecondition(status))
      << status;
}

TEST_F(ClusterTest, ATaskThatEndsEndsTheStepsThatUseItAndIsNamed) {
  cluster_.StartAll();
  TestClient client(cluster_.address(kWorker0));
  ASSERT_TRUE(client.Create(Waiting()).ok());
  absl::Status status;
  std::thread waits([&] { status = client.Fetch("taken:0").status(); });
  // The step reaches the parameter server before or after the end; either way it learns of it.
  cluster_.Stop(kPs);
  waits.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(StrContains(status.message(), "/job:ps/replica:0/task:0")) << status;
}

TEST_F(ClusterTest, ARestartedTaskHasLostTheSession) {
  cluster_.StartAll();
  Scope s = Scope::NewRoot();
  s.WithDevice(kOnPs).WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  TestClient client(cluster_.address(kWorker0));
  ASSERT_TRUE(client.Create(s).ok());
  ASSERT_TRUE(client.Fetch("y:0", {{"x:0", Number(1)}}).ok());
  cluster_.Start(kPs);
  absl::Status status = absl::UnavailableError("");
  // Until the connection is there again.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (absl::IsUnavailable(status) && absl::Now() < deadline) {
    status = client.Fetch("y:0", {{"x:0", Number(1)}}).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(StrContains(status.message(), "/job:ps/replica:0/task:0")) << status;
  EXPECT_TRUE(StrContains(status.message(), "restarted")) << status;
  // A new session is what helps.
  ASSERT_TRUE(client.Create(s).ok());
  EXPECT_TRUE(client.Fetch("y:0", {{"x:0", Number(1)}}).ok());
}

TEST_F(ClusterTest, ASessionWaitsForTasksThatAreMissing) {
  cluster_.Start(kWorker0);
  cluster_.Start(kWorker1);
  Scope s = Scope::NewRoot();
  s.WithDevice(kOnPs).WithOpName("y").Call("Neg", {1.0f});
  TestClient client(cluster_.address(kWorker0));
  grpc::Status created;
  std::thread creates([&] { created = client.Create(s); });
  cluster_.Start(kPs);
  creates.join();
  ASSERT_TRUE(created.ok()) << created.error_message();
  EXPECT_EQ(client.Fetch("y:0")->ScalarValue<float>(), -1);
}

TEST_F(ClusterTest, TasksThatStayAwayAreNamedUnlessTheyAreFilteredOut) {
  cluster_.Start(kWorker0, absl::Milliseconds(200));
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {1.0f});
  TestClient client(cluster_.address(kWorker0));
  grpc::Status created = client.Create(s);
  EXPECT_EQ(created.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(StrContains(created.error_message(), "/job:ps/replica:0/task:0"))
      << created.error_message();
  EXPECT_TRUE(StrContains(created.error_message(), cluster_.address(kWorker1)))
      << created.error_message();
  tensorflow::ConfigProto config;
  config.add_device_filters("/job:worker/task:0");
  created = client.Create(s, config);
  ASSERT_TRUE(created.ok()) << created.error_message();
  EXPECT_TRUE(client.Fetch("y:0").ok());
  config.set_device_filters(0, "/job:ps");
  cluster_.Start(kPs);
  // It may take longer than that to find one that has just come.
  cluster_.Start(kWorker0);
  TestClient again(cluster_.address(kWorker0));
  created = again.Create(s, config);
  ASSERT_TRUE(created.ok()) << created.error_message();
  tensorflow::ListDevicesRequest list;
  list.set_session_handle(again.handle());
  tensorflow::ListDevicesResponse devices;
  ASSERT_TRUE(again.stub().ListDevices(TestContext().get(), list, &devices).ok());
  ASSERT_EQ(devices.local_device_size(), 2);
  EXPECT_EQ(devices.local_device(1).name(), "/job:ps/replica:0/task:0/device:CPU:0");
  config.set_device_filters(0, "job ps");
  EXPECT_EQ(again.Create(s, config).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(JoinTasks, TheLogSaysWhoIsWaitedFor) {
  // Nobody listens there.
  const auto absent = std::make_shared<WorkerClient>("/job:ps/replica:0/task:0", "127.0.0.1:1");
  Mutex mu;
  int lines = 0;
  const LogSink before = SetLogSink([&](LogSeverity, absl::string_view text) {
    MutexLock lock(mu);
    if (StrContains(text, "still waits for /job:ps/replica:0/task:0 at 127.0.0.1:1")) ++lines;
  });
  absl::Status status;
  Event joined;
  JoinTasks({absent}, absl::Milliseconds(300), absl::Milliseconds(50), nullptr,
            [&](const auto& devices) {
              status = devices.status();
              EXPECT_EQ(absent.use_count(), 1) << "who goes with a call waits for that call";
              joined.Set();
            });
  EXPECT_TRUE(joined.Wait(absl::Now() + absl::Seconds(60)));
  SetLogSink(before);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  MutexLock lock(mu);
  EXPECT_GE(lines, 1);
}

TEST_F(ClusterTest, ATraceHasTheNodesOfAllTasks) {
  cluster_.StartAll();
  Scope s = Scope::NewRoot();
  const Output a = s.WithDevice(kOnPs).WithOpName("a").Call("Neg", {Placeholder(s, "x")});
  s.WithDevice(kOnWorker0).WithOpName("b").Call("Neg", {a});
  TestClient client(cluster_.address(kWorker0));
  ASSERT_TRUE(client.Create(s).ok());
  auto request = client.Step({"b:0"});
  request.mutable_options()->set_trace_level(tensorflow::RunOptions::FULL_TRACE);
  auto* const feed = request.add_feed();
  feed->set_name("x:0");
  ASSERT_TRUE(TensorToProto(Number(1), feed->mutable_tensor()).ok());
  tensorflow::RunStepResponse response;
  const absl::Status status = client.Run(request, &response);
  ASSERT_TRUE(status.ok()) << status;
  std::map<std::string, std::string> device_of;
  for (const auto& device : response.metadata().step_stats().dev_stats()) {
    for (const auto& node : device.node_stats()) device_of[node.node_name()] = device.device();
  }
  EXPECT_EQ(device_of["a"], "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(device_of["b"], "/job:worker/replica:0/task:0/device:CPU:0");
}

TEST_F(ClusterTest, ManyStepsOfManyClientsGoOnAtOnce) {
  cluster_.StartAll();
  Scope s = Scope::NewRoot();
  const Output a = s.WithDevice(kOnPs).Call("Mul", {Placeholder(s, "x"), 2.0f});
  s.WithDevice(kOnWorker1).WithOpName("y").Call("Add", {a, 1.0f});
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      TestClient client(cluster_.address(c % 2 == 0 ? kWorker0 : kWorker1));
      ASSERT_TRUE(client.Create(s).ok());
      for (int i = 0; i < 25; ++i) {
        const auto y = client.Fetch("y:0", {{"x:0", Number(static_cast<float>(i))}});
        ASSERT_TRUE(y.ok()) << y.status();
        EXPECT_EQ(y->ScalarValue<float>(), 2.0f * static_cast<float>(i) + 1);
      }
      client.Close();
    });
  }
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace tandem
