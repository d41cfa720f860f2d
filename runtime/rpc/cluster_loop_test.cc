// Loops over several tasks of a cluster, over real ports: those of TensorFlow 1, and functional
// ones; and how they end when they do not come to their end.
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "core/graph/function_body.h"
#include "core/graph/test_loop.h"
#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "kernels/testing/functions.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

using absl::StrContains;
using testing::AddLoop;
using testing::EnterLoop;
using Values = std::vector<Output>;

const TaskId kWorker0 = {"worker", 0};
const TaskId kPs = {"ps", 0};

constexpr char kOnWorker0[] = "/job:worker/task:0";
constexpr char kOnWorker1[] = "/job:worker/task:1";
constexpr char kOnPs[] = "/job:ps/task:0";

Output Placeholder(const Scope& scope, const std::string& name, DataType dtype) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", dtype}, {"shape", PartialShape({})}});
}

class ClusterLoopTest : public ::testing::Test {
 protected:
  ClusterLoopTest() : cluster_({{"worker", 2}, {"ps", 1}}) { cluster_.StartAll(); }

  // A session of the first worker over the graph of `s_`.
  TestClient Open() {
    TestClient client(cluster_.address(kWorker0));
    const grpc::Status created = client.Create(s_);
    EXPECT_TRUE(created.ok()) << created.error_message();
    return client;
  }

  static float Fetch(TestClient& client, const std::string& name,
                     const std::vector<std::pair<std::string, Tensor>>& feeds = {}) {
    const auto value = client.Fetch(name, feeds);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? value->ScalarValue<float>() : -12345.f;
  }
  static float FetchAfter(TestClient& client, int rounds) {
    return Fetch(client, "y:0", {{"n:0", Tensor::Scalar<int32_t>(rounds)}});
  }

  TestCluster cluster_;
  Scope s_ = Scope::NewRoot();
  const Scope first_ = s_.WithDevice(kOnWorker0);
  const Scope second_ = s_.WithDevice(kOnWorker1);
  const Scope ps_ = s_.WithDevice(kOnPs);
};

TEST_F(ClusterLoopTest, ALoopOfTheFirstVersionOverThreeTasks) {
  const Output n = EnterLoop(first_, "loop", Placeholder(s_, "n", kInt32));
  const Values ends = AddLoop(
      first_, "loop", {s_.Constant(0), s_.Constant(0.0f)},
      [&](const Values& v) {
        return first_.Call("Less", {v[0], n});
      },
      [&](const Values& v) -> Values {
        const Output i = second_.Call("AddV2", {v[0], 1});
        return {i, ps_.Call("AddV2", {v[1], second_.Call("Cast", {i}, {{"DstT", kFloat32}})})};
      });
  s_.WithOpName("y").Call("Identity", {ends[1]});
  TestClient client = Open();
  EXPECT_EQ(FetchAfter(client, 0), 0);
  EXPECT_EQ(FetchAfter(client, 3), 6);
  EXPECT_EQ(FetchAfter(client, 1000), 500500);
}

// The inner loop is decided on the parameter server, and dead in every third round.
TEST_F(ClusterLoopTest, LoopsNestAndHaveDeadBranches) {
  const Output n = EnterLoop(first_, "outer", Placeholder(s_, "n", kInt32));
  const Values ends = AddLoop(
      first_, "outer", {s_.Constant(0), s_.Constant(1.0f)},
      [&](const Values& v) {
        return first_.Call("Less", {v[0], n});
      },
      [&](const Values& v) -> Values {
        const Output third = second_.Call("Equal", {second_.Call("FloorMod", {v[0], 3}), 2});
        const Values branches = first_.CallMulti("Switch", {v[1], third});
        if (branches.empty()) return v;
        const Values inner = AddLoop(
            ps_, "inner", {branches[0]},
            [&](const Values& w) {
              return ps_.Call("Less", {w[0], 100.0f});
            },
            [&](const Values& w) -> Values {
              return {second_.Call("Mul", {w[0], 3.0f})};
            });
        if (inner.empty()) return v;
        const Output small = second_.Call("Mul", {branches[1], 0.125f});
        return {second_.Call("AddV2", {v[0], 1}),
                first_.Call("Merge", {ps_.Call("AddV2", {inner[0], 1.0f}), small})};
      });
  s_.WithOpName("y").Call("Identity", {ends[1]});
  TestClient client = Open();
  float wanted = 1;
  for (int rounds = 0; rounds <= 9; ++rounds) {
    EXPECT_EQ(FetchAfter(client, rounds), wanted) << rounds;
    if (rounds % 3 == 2) {
      wanted *= 0.125f;
    } else {
      while (wanted < 100) wanted *= 3;
      wanted += 1;
    }
  }
}

// A variable of the parameter server that the body reads and writes, and a conditional of which
// each branch lies in another task.
TEST_F(ClusterLoopTest, AFunctionalLoopUsesTheVariableOfAnotherTask) {
  const std::vector<DataType> of_float = {kFloat32};
  const Output variable = ps_.WithOpName("v").Call(
      "VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}, {"shared_name", "v"}});
  s_.WithOpName("set").AddNode("AssignVariableOp", {variable, 1.0f});
  s_.WithOpName("value").Call("ReadVariableOp", {variable}, {{"dtype", kFloat32}});
  const Values results = testing::Loop(
      first_, "loop", {s_.Constant(0), Placeholder(s_, "n", kInt32), variable, s_.Constant(0.0f)},
      [](const Scope& in, const Values& v) {
        return in.Call("Less", {v[0], v[1]});
      },
      [&](const Scope& in, const Values& v) -> Values {
        const Output read = in.Call("ReadVariableOp", {v[2]}, {{"dtype", kFloat32}});
        const FunctionRef half = testing::Define(
            in, "half", of_float, [](const Scope& inside, const Values& x) -> Values {
              return {inside.WithDevice(kOnWorker1).Call("Mul", {x[0], 0.5f})};
            });
        const FunctionRef twice = testing::Define(
            in, "twice", of_float, [](const Scope& inside, const Values& x) -> Values {
              return {inside.WithDevice(kOnPs).Call("Mul", {x[0], 2.0f})};
            });
        const Output odd = in.Call("FloorMod", {v[0], 2});
        const Output next =
            in.Call("StatelessIf", {odd, read},
                    {{"then_branch", half}, {"else_branch", twice}, {"Tout", of_float}});
        Node* const write = in.AddNode("AssignVariableOp", {v[2], next});
        const Output sum = in.WithDevice(kOnWorker1).Call("AddV2", {v[3], next});
        return {in.WithControlDependencies({write}).Call("AddV2", {v[0], 1}), v[1], v[2], sum};
      },
      "While");
  s_.WithOpName("y").Call("Identity", {results[3]});
  TestClient client = Open();
  ASSERT_TRUE(client.RunTarget("set").ok());
  EXPECT_EQ(FetchAfter(client, 0), 0);
  EXPECT_EQ(Fetch(client, "value:0"), 1);
  // 2, 1, 2, 1, 2
  EXPECT_EQ(FetchAfter(client, 5), 8);
  EXPECT_EQ(Fetch(client, "value:0"), 2);
}

TEST_F(ClusterLoopTest, GradientsOfALoopOverTasks) {
  const Output x = Placeholder(s_, "x", kFloat32);
  const Values results = testing::CountedLoop(
      first_, "loop", 4, {x, x}, [](const Scope& in, const Values& v) -> Values {
        return {in.WithDevice(kOnWorker1).Call("Mul", {v[1], v[2]}), v[2]};
      });
  s_.WithOpName("y").Call("Identity", {results[0]});
  ASSERT_TRUE(s_.ok()) << s_.status();
  const auto gradients = AddGradients(s_.graph(), {results[0]}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  s_.WithOpName("dx").Call("Identity", {(*gradients)[0].values});
  TestClient client = Open();
  EXPECT_EQ(Fetch(client, "y:0", {{"x:0", Tensor::Scalar<float>(2)}}), 32);
  EXPECT_EQ(Fetch(client, "dx:0", {{"x:0", Tensor::Scalar<float>(2)}}), 80);
}

// Each round takes an element from a queue of the parameter server, and the worker counts it.
class EndlessLoopTest : public ClusterLoopTest {
 protected:
  EndlessLoopTest() {
    const std::vector<DataType> types = {kFloat32};
    const Output queue = ps_.WithOpName("queue").Call(
        "FIFOQueueV2", {}, {{"component_types", types}, {"capacity", 1}});
    s_.WithOpName("put").AddNode("QueueEnqueueV2", {queue, 1.0f}, {{"Tcomponents", types}});
    const Output handle = EnterLoop(ps_, "loop", queue);
    const Values ends = AddLoop(
        first_, "loop", {s_.Constant(0.0f)},
        [&](const Values& v) {
          return first_.Call("Less", {v[0], 1e9f});
        },
        [&](const Values& v) -> Values {
          const Output taken = ps_.WithControlDependencies({v[0].node})
                                   .WithOpName("taken")
                                   .Call("QueueDequeueV2", {handle}, {{"component_types", types}});
          return {second_.Call("AddV2", {v[0], taken})};
        });
    s_.WithOpName("y").Call("Identity", {ends[0]});
  }

  // Returns when the loop has gone round some times.
  static void GoRound(TestClient& client) {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(client.RunTarget("put").ok());
  }
};

TEST_F(EndlessLoopTest, ACancelledCallEndsItInAllTasks) {
  TestClient client = Open();
  auto context = TestContext();
  std::thread waits([&] {
    tensorflow::RunStepResponse response;
    EXPECT_EQ(client.Run(client.Step({"y:0"}), &response, context.get()).code(),
              absl::StatusCode::kCancelled);
  });
  GoRound(client);
  context->TryCancel();
  waits.join();
  client.Close();
}

TEST_F(EndlessLoopTest, ATaskThatEndsIsNamedWithTheNodeAndTheRoundThatWaited) {
  TestClient client = Open();
  absl::Status status;
  std::thread waits([&] { status = client.Fetch("y:0").status(); });
  GoRound(client);
  cluster_.Stop(kPs);
  waits.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(StrContains(status.message(), "/job:ps/replica:0/task:0")) << status;
  EXPECT_TRUE(StrContains(status.message(), "/recv")) << status;
  EXPECT_TRUE(StrContains(status.message(), " in round ")) << status;
  EXPECT_TRUE(StrContains(status.message(), "frame 'loop'")) << status;
}

TEST_F(EndlessLoopTest, ADeadlineNamesTasksNodeAndRound) {
  TestClient client = Open();
  auto request = client.Step({"y:0"});
  request.mutable_options()->set_timeout_in_ms(100);
  absl::Status status;
  // The first time may go into compiling.
  for (int i = 0; i < 2; ++i) {
    tensorflow::RunStepResponse response;
    status = client.Run(request, &response);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  }
  EXPECT_TRUE(StrContains(status.message(), "/job:ps/replica:0/task:0")) << status;
  EXPECT_TRUE(StrContains(status.message(), " of frame 'loop' had not ended")) << status;
}

}  // namespace
}  // namespace tandem
