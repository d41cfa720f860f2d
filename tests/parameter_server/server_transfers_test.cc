// Large values of pulls and pushes go through shared memory, when the server is on this host; they
// count as exactly as others.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "tests/parameter_server/server_test_util.h"

namespace tandem::parameter_server {
namespace {

const TaskId kServer = {"ps", 0};
constexpr int64_t kFloats = 50'000;

// Counts the lines of the log that tell of values that came through shared memory.
class SharedMemoryLines {
 public:
  SharedMemoryLines()
      : before_(SetLogSink([this](LogSeverity, absl::string_view text) {
          if (absl::StrContains(text, "come through shared memory")) ++lines_;
        })) {}
  ~SharedMemoryLines() { SetLogSink(before_); }
  int lines() const { return lines_; }

 private:
  std::atomic<int> lines_{0};
  const LogSink before_;
};

// A variable of kFloats; "add/push" adds to it, "read/pull" reads it, "sum/pull" gives what is fed
// plus it.
ShardDefinition LargeShard() {
  DefinitionBuilder b;
  const Scope& s = b.scope();
  const Output large = b.AddVariable("large", kFloat32, {kFloats});
  const Output zeros = s.Call("Fill", {Tensor::Vector<int64_t>({kFloats}), 0.0f});
  s.WithOpName("init").AddNode("AssignVariableOp", {large, zeros});
  b.AddPush("init/push", {}, {"init"});
  const Output x = b.AddPlaceholder("x", kFloat32, {kFloats});
  s.WithOpName("add").AddNode("AssignAddVariableOp", {large, x});
  b.AddPush("add/push", {"x"}, {"add"}, {SUM});
  const Output read = s.WithOpName("read").Call("ReadVariableOp", {large}, {{"dtype", kFloat32}});
  b.AddPull("read/pull", {}, {"read"});
  s.WithOpName("sum").Call("AddV2", {read, x});
  b.AddPull("sum/pull", {"x"}, {"sum"});
  Definition made = b.Finish();
  ShardDefinition definition;
  definition.job = kJob;
  definition.graph = std::move(made.graph);
  definition.programs = std::move(made.programs);
  definition.variables = std::move(made.variables);
  return definition;
}

Tensor Numbers(float first) {
  Tensor numbers(kFloat32, Shape({kFloats}));
  for (float& number : numbers.MutableElements<float>()) number = first++;
  return numbers;
}

class ServerTransfersTest : public ::testing::Test {
 protected:
  ServerTransfersTest() : cluster_({{"ps", 1}}) { Begin(); }

  void Begin() {
    cluster_.Start(kServer);
    client_ = ClientOf(cluster_.address(kServer));
    const auto defined = client_->Define(LargeShard(), Soon());
    ASSERT_TRUE(defined.ok()) << defined.status();
    way_ = {cluster_.address(kServer), defined->incarnation, 0};
    ASSERT_TRUE(StartCall(*NewStore(), way_.To(1, 1), "init/push", {}).status().ok());
  }
  absl::StatusOr<Tensor> Pull(ParameterStore& store, const std::string& program,
                              std::vector<Tensor> arguments) {
    ShardCall call;
    call.route = way_.To(1, 1).SerializeAsString();
    call.program = program;
    call.results = 1;
    PendingCall pending;
    store.Call(std::move(call), std::move(arguments), nullptr, pending.done());
    TANDEM_ASSIGN_OR_RETURN(ShardAnswer answer, pending.Wait());
    if (answer.results.size() != 1) return errors::Internal("no result");
    return std::move(answer.results[0]);
  }
  // Calls until values come through shared memory. All of them come out right.
  void UntilShared(ParameterStore& store, const SharedMemoryLines& log, int lines) {
    const absl::Time end = absl::Now() + absl::Seconds(60);
    while (log.lines() < lines) {
      ASSERT_LT(absl::Now(), end);
      const auto sum = Pull(store, "sum/pull", {Numbers(7)});
      ASSERT_TRUE(sum.ok()) << sum.status();
      ASSERT_EQ(sum->shape(), Shape({kFloats}));
      EXPECT_EQ(sum->Elements<float>()[0], 7 + base_);
      EXPECT_EQ(sum->Elements<float>()[kFloats - 1], kFloats + 6 + base_);
    }
  }

  TestCluster cluster_;
  std::unique_ptr<ShardClient> client_;
  Way way_;
  float base_ = 0;  // What the first and the last number of the variable are.
};

TEST_F(ServerTransfersTest, LargeValuesGoThroughSharedMemoryBothWays) {
  SharedMemoryLines log;
  const auto store = NewStore();
  UntilShared(*store, log, 1);
  for (int64_t i = 1; i <= 20; ++i) {
    const Tensor ones = [] {
      Tensor tensor(kFloat32, Shape({kFloats}));
      for (float& number : tensor.MutableElements<float>()) number = 1;
      return tensor;
    }();
    // Again under the same name: counts once.
    for (int twice = 0; twice < 2; ++twice) {
      const absl::Status status = StartCall(*store, way_.To(2, i), "add/push", {ones}).status();
      ASSERT_TRUE(status.ok()) << status;
    }
    const auto read = Pull(*store, "read/pull", {});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->Elements<float>()[0], static_cast<float>(i));
    EXPECT_EQ(read->Elements<float>()[kFloats - 1], static_cast<float>(i));
  }
}

// What was pulled keeps its numbers, whatever happens to the variable and to the server.
TEST_F(ServerTransfersTest, WhatWasPulledStays) {
  SharedMemoryLines log;
  const auto store = NewStore();
  UntilShared(*store, log, 1);
  std::vector<Tensor> pulled;
  for (int64_t i = 1; i <= 10; ++i) {
    ASSERT_TRUE(StartCall(*store, way_.To(2, i), "add/push", {Numbers(0)}).status().ok());
    auto read = Pull(*store, "read/pull", {});
    ASSERT_TRUE(read.ok()) << read.status();
    pulled.push_back(*std::move(read));
  }
  cluster_.Stop(kServer);
  for (size_t i = 0; i < pulled.size(); ++i) {
    EXPECT_EQ(pulled[i].Elements<float>()[0], 0);
    EXPECT_EQ(pulled[i].Elements<float>()[100], static_cast<float>(100 * (i + 1)));
  }
}

TEST_F(ServerTransfersTest, AServerThatWasStartedAgainIsCalledInMessagesFirst) {
  SharedMemoryLines log;
  const auto store = NewStore();
  UntilShared(*store, log, 1);
  cluster_.Stop(kServer);
  Begin();
  for (int64_t i = 1; i <= 5; ++i) {
    const absl::Status status = StartCall(*store, way_.To(2, i), "add/push", {Numbers(0)}).status();
    ASSERT_TRUE(status.ok()) << status;
  }
  const auto read = Pull(*store, "read/pull", {});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Elements<float>()[3], 15);
}

TEST_F(ServerTransfersTest, CountsAreExactThoughCallsAreLostAndDoubled) {
  SharedMemoryLines log;
  const auto faults = Faults("lose=0.25,double=0.25,seed=3");
  constexpr int kClients = 3;
  constexpr int64_t kPushes = 30;
  std::vector<std::thread> threads;
  for (uint64_t c = 1; c <= kClients; ++c) {
    threads.emplace_back([&, c] {
      const auto store = NewStore(faults);
      for (int64_t i = 1; i <= kPushes; ++i) {
        const absl::Status status =
            StartCall(*store, way_.To(10 + c, i), "add/push", {Numbers(1)}).status();
        ASSERT_TRUE(status.ok()) << status;
        const auto read = Pull(*store, "read/pull", {});
        ASSERT_TRUE(read.ok()) << read.status();
        // Each update is whole.
        const auto numbers = read->Elements<float>();
        EXPECT_EQ(numbers[9], 10 * numbers[0]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto read = Pull(*NewStore(), "read/pull", {});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Elements<float>()[0], kClients * kPushes);
  EXPECT_EQ(read->Elements<float>()[99], 100 * kClients * kPushes);
  EXPECT_GT(log.lines(), 0);
}

}  // namespace
}  // namespace tandem::parameter_server
