#include "runtime/session/session.h"

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/kernel/factories.h"
#include "gtest/gtest.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/thread_pool.h"

namespace tandem {
namespace {

// Waits until its step is cancelled.
class WaitForeverKernel final : public AsyncKernel {
 public:
  void Start(KernelContext& c, Done done) override {
    CancellationManager* cancellation = c.step().cancellation;
    auto shared = std::make_shared<Done>(std::move(done));
    const auto token = cancellation->NewToken();
    if (!cancellation->Register(token, [shared] { (*shared)(absl::CancelledError("woken")); })) {
      (*shared)(absl::CancelledError("cancelled before it began"));
    }
  }
};
TANDEM_OP("_TestWaitForever")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Stateful()
    .Cpu(Make<WaitForeverKernel>());

absl::Status FailCompute(KernelContext&) { return absl::DataLossError("the disk is gone"); }
TANDEM_OP("_TestFail")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Stateful()
    .Cpu(Function(FailCompute));

Output Placeholder(const Scope& scope, const std::string& name, PartialShape shape = {}) {
  return scope.WithOpName(name).Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", shape}});
}

std::unique_ptr<Session> Open(const Scope& scope, SessionOptions options = {}) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*scope.graph(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

float Value(const absl::StatusOr<std::vector<Tensor>>& results, size_t i = 0) {
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? (*results)[i].ScalarValue<float>() : -12345.f;
}

TEST(Session, FeedsComputesAndFetches) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  s.WithOpName("y").Call("AddV2", {x, 1.0f});
  auto session = Open(s);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Value(session->Run({{"x", Tensor::Scalar<float>(i)}}, {"y"})), i + 1.f);
  }
}

TEST(Session, FetchesInAnyOrderAndTwice) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  s.WithOpName("y").Call("AddV2", {x, 1.0f});
  s.WithOpName("z").Call("Mul", {x, 10.0f});
  auto session = Open(s);
  const auto results = session->Run({{"x", Tensor::Scalar<float>(2)}}, {"z", "y:0", "z", "x"});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].ScalarValue<float>(), 20);
  EXPECT_EQ((*results)[1].ScalarValue<float>(), 3);
  EXPECT_EQ((*results)[2].ScalarValue<float>(), 20);
  EXPECT_EQ((*results)[3].ScalarValue<float>(), 2);
}

TEST(Session, AFeedReplacesAnInnerValue) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  const Output y = s.WithOpName("y").Call("AddV2", {x, 1.0f});
  s.WithOpName("z").Call("Mul", {y, 10.0f});
  auto session = Open(s);
  EXPECT_EQ(Value(session->Run({{"y", Tensor::Scalar<float>(7)}}, {"z"})), 70);
}

TEST(Session, NamesTheFailingNodeItsOpAndDevice) {
  Scope s = Scope::NewRoot();
  s.WithOpName("broken").Call("_TestFail", {1.0f});
  auto session = Open(s);
  const auto results = session->Run({}, {"broken"});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(results.status().message(), "the disk is gone"));
  EXPECT_TRUE(absl::StrContains(results.status().message(), "[[{{node broken}}]]"));
  EXPECT_TRUE(absl::StrContains(results.status().message(), "_TestFail on /job:localhost"));
}

TEST(Session, SuggestsNearNamesForAnUnknownFetch) {
  Scope s = Scope::NewRoot();
  s.WithOpName("accuracy").Call("AddV2", {1.0f, 1.0f});
  auto session = Open(s);
  const auto results = session->Run({}, {"acuracy"});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(results.status().message(), "'accuracy'")) << results.status();
}

TEST(Session, RefusesAFeedOfWrongTypeOrShape) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x", {2});
  s.WithOpName("y").Call("AddV2", {x, 1.0f});
  auto session = Open(s);
  const auto type = session->Run({{"x", Tensor::Vector<int32_t>({1, 2})}}, {"y"});
  EXPECT_EQ(type.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(type.status().message(), "int32")) << type.status();
  const auto shape = session->Run({{"x", Tensor::Vector<float>({1, 2, 3})}}, {"y"});
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(shape.status().message(), "[3]")) << shape.status();
}

TEST(Session, RecoversAfterAFailedRun) {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kInt32}, {"shape", PartialShape()}});
  s.WithOpName("y").Call("FloorDiv", {12, x});
  auto session = Open(s);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(session->Run({{"x", Tensor::Scalar<int32_t>(0)}}, {"y"}).status().code(),
              absl::StatusCode::kInvalidArgument);
    const auto good = session->Run({{"x", Tensor::Scalar<int32_t>(4)}}, {"y"});
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_EQ((*good)[0].ScalarValue<int32_t>(), 3);
  }
}

TEST(Session, EndsAWaitAtItsDeadlineAndNamesTheNode) {
  Scope s = Scope::NewRoot();
  s.WithOpName("patient").Call("_TestWaitForever", {1.0f});
  auto session = Open(s);
  RunOptions options;
  options.timeout = absl::Milliseconds(50);
  const auto results = session->Run(options, {}, {"patient"}, {}, nullptr);
  EXPECT_EQ(results.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(absl::StrContains(results.status().message(), "patient (_TestWaitForever)"))
      << results.status();
}

TEST(Session, CancellingARunEndsItWithTheReason) {
  Scope s = Scope::NewRoot();
  s.WithOpName("patient").Call("_TestWaitForever", {1.0f});
  auto session = Open(s);
  CancellationManager cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  std::thread canceller([&] { cancellation.Cancel(absl::AbortedError("enough")); });
  const auto results = session->Run(options, {}, {"patient"}, {}, nullptr);
  canceller.join();
  EXPECT_EQ(results.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(results.status().message(), "enough");
}

TEST(Session, CloseEndsRunsAndRefusesNewOnes) {
  Scope s = Scope::NewRoot();
  s.WithOpName("patient").Call("_TestWaitForever", {1.0f});
  auto session = Open(s);
  std::thread closer([&] { session->Close(); });
  EXPECT_EQ(session->Run({}, {"patient"}).status().code(), absl::StatusCode::kCancelled);
  closer.join();
  EXPECT_EQ(session->Run({}, {"patient"}).status().code(), absl::StatusCode::kCancelled);
}

TEST(Session, RunsManyStepsAtOnce) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  Output y = x;
  for (int i = 0; i < 50; ++i) y = s.Call("AddV2", {y, x});
  s.WithOpName("y").Call("Identity", {y});
  auto session = Open(s);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const float value = static_cast<float>(t * 1000 + i);
        if (Value(session->Run({{"x", Tensor::Scalar<float>(value)}}, {"y"})) != 51 * value)
          ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Session, ExtendAddsNodesAndKeepsTheOldOnes) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  s.WithOpName("y").Call("AddV2", {x, 1.0f});
  auto session = Open(s);
  ASSERT_TRUE(session
                  ->Extend([](Graph& graph) -> absl::Status {
                    Scope more = Scope::ForGraph(&graph);
                    more.WithOpName("z").Call("Mul", {Output(graph.FindNode("y"), 0), 2.0f});
                    return more.status();
                  })
                  .ok());
  EXPECT_EQ(Value(session->Run({{"x", Tensor::Scalar<float>(4)}}, {"z"})), 10);
}

// Adds the function `times`, of one argument that it multiplies, and a node "z" that calls it.
absl::Status CallTimes(Graph& graph, float factor) {
  Scope body = Scope::NewRoot();
  const Output arg = FunctionArg(body, 0, kFloat32);
  FunctionResult(body, 0, body.Call("Mul", {arg, factor}));
  TANDEM_RETURN_IF_ERROR(body.status());
  TANDEM_RETURN_IF_ERROR(DefineFunction("times", *body.graph(), {}, &graph.functions()));
  Scope more = Scope::ForGraph(&graph);
  more.WithOpName("z").Call(
      "PartitionedCall", {Output(graph.FindNode("x"), 0)},
      {{"f", FunctionRef{"times", {}}}, {"Tout", std::vector<DataType>{kFloat32}}});
  return more.status();
}

TEST(Session, AnExtendThatFailsLeavesNoFunctionBehind) {
  Scope s = Scope::NewRoot();
  Placeholder(s, "x");
  auto session = Open(s);
  const absl::Status failed = session->Extend([](Graph& graph) -> absl::Status {
    TANDEM_RETURN_IF_ERROR(CallTimes(graph, 2));
    return errors::InvalidArgument("on second thought, no");
  });
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument);
  // Another function may have the name now, and the graph has no node "z".
  const absl::Status again = session->Extend([](Graph& graph) { return CallTimes(graph, 3); });
  ASSERT_TRUE(again.ok()) << again;
  EXPECT_EQ(Value(session->Run({{"x", Tensor::Scalar<float>(4)}}, {"z"})), 12);
}

TEST(Session, SessionsOfOneGraphHaveTheirOwnFunctions) {
  Scope s = Scope::NewRoot();
  Placeholder(s, "x");
  auto first = Open(s);
  auto second = Open(s);
  ASSERT_TRUE(first->Extend([](Graph& graph) { return CallTimes(graph, 2); }).ok());
  const absl::Status other = second->Extend([](Graph& graph) { return CallTimes(graph, 3); });
  ASSERT_TRUE(other.ok()) << other;
  EXPECT_EQ(Value(first->Run({{"x", Tensor::Scalar<float>(4)}}, {"z"})), 8);
  EXPECT_EQ(Value(second->Run({{"x", Tensor::Scalar<float>(4)}}, {"z"})), 12);
}

TEST(Session, ACallableRunsWithFeedsInOrder) {
  Scope s = Scope::NewRoot();
  const Output a = Placeholder(s, "a");
  const Output b = Placeholder(s, "b");
  s.WithOpName("y").Call("Sub", {a, b});
  auto session = Open(s);
  auto callable = session->MakeCallable({{"b", "a"}, {"y"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  EXPECT_EQ(Value((*callable)->Run({Tensor::Scalar<float>(1), Tensor::Scalar<float>(10)})), 9);
}

TEST(Session, TracesNodes) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  s.WithOpName("y").Call("Mul", {x, x});
  auto session = Open(s);
  RunOptions options;
  options.trace = true;
  RunMetadata metadata;
  ASSERT_TRUE(session->Run(options, {{"x", Tensor::Scalar<float>(3)}}, {"y"}, {}, &metadata).ok());
  ASSERT_EQ(metadata.events.size(), 1u);
  EXPECT_EQ(metadata.events[0].node, "y");
  EXPECT_EQ(metadata.events[0].op, "Mul");
  EXPECT_LE(metadata.events[0].start_nanoseconds, metadata.events[0].end_nanoseconds);
}

TEST(Session, NamesWithCommasAreNotTwoNames) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  s.WithOpName("a").Call("Neg", {x});
  s.WithOpName("b").Call("Neg", {x});
  auto session = Open(s);
  ASSERT_TRUE(session->Run({{"x", Tensor::Scalar<float>(1)}}, {"a", "b"}).ok());
  EXPECT_EQ(session->Run({{"x", Tensor::Scalar<float>(1)}}, {"a,b"}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Session, AnInputThatWasNeverConnectedIsAnError) {
  Scope s = Scope::NewRoot();
  NodeSpec spec;
  spec.name = "open";
  spec.op = "Merge";
  spec.inputs = {Placeholder(s, "x")};
  spec.attrs = {{"N", 2}, {"T", kFloat32}};
  spec.first_missing_input = 1;
  ASSERT_TRUE(s.graph()->AddNode(spec).ok());
  auto session = Open(s);
  const auto results = session->Run({{"x", Tensor::Scalar<float>(1)}}, {"open"});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(results.status().message(), "open")) << results.status();
}

TEST(Session, AClosedSessionRefusesConstantsToo) {
  Scope s = Scope::NewRoot();
  s.WithOpName("one").Call("Identity", {1.0f});
  auto session = Open(s);
  ASSERT_TRUE(session->Run({}, {"one"}).ok());
  session->Close();
  EXPECT_EQ(session->Run({}, {"one"}).status().code(), absl::StatusCode::kCancelled);
}

// --- Control flow of TensorFlow 1
// -----------------------------------------------------------------

TEST(Session, ASwitchTakesOneBranch) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  const Output is_large = s.Call("Greater", {x, 10.0f});
  const std::vector<Output> branches = s.CallMulti("Switch", {x, is_large});
  ASSERT_TRUE(s.ok()) << s.status();
  const Output small = s.Call("Neg", {branches[0]});
  const Output large = s.Call("Mul", {branches[1], 2.0f});
  s.WithOpName("y").CallMulti("Merge", {small, large});
  s.WithOpName("dead").Call("Identity", {small});
  auto session = Open(s);
  EXPECT_EQ(Value(session->Run({{"x", Tensor::Scalar<float>(3)}}, {"y"})), -3);
  EXPECT_EQ(Value(session->Run({{"x", Tensor::Scalar<float>(30)}}, {"y"})), 60);
  EXPECT_EQ(session->Run({{"x", Tensor::Scalar<float>(30)}}, {"dead"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Adds a loop in the form of TensorFlow 1: while (i < limit) { i += 1; acc = body(acc); }; returns
// the final acc. The control dependencies of `outside` hold for what enters the loop.
Output Loop(const Scope& outside, const std::string& frame, Output limit, Output start,
            const std::function<Output(const Scope&, Output)>& body, int parallel = 10) {
  const Scope s = outside.WithoutControlDependencies();
  const AttrMap attrs = {{"frame_name", frame}, {"parallel_iterations", parallel}};
  AttrMap constant = attrs;
  constant["is_constant"] = true;
  const Output enter_i = outside.Call("Enter", {s.Constant(0)}, attrs);
  const Output enter_acc = outside.Call("Enter", {start}, attrs);
  const Output enter_limit = outside.Call("Enter", {limit}, constant);
  const auto merge = [&](Output enter) -> Node* {
    NodeSpec spec;
    spec.name = s.graph()->UniqueName("Merge");
    spec.op = "Merge";
    spec.inputs = {enter};
    spec.attrs = {{"N", 2}, {"T", enter.dtype()}};
    spec.first_missing_input = 1;
    return *s.graph()->AddNode(spec);
  };
  Node* const merge_i = merge(enter_i);
  Node* const merge_acc = merge(enter_acc);
  const Output go_on = s.Call("LoopCond", {s.Call("Less", {merge_i->output(0), enter_limit})});
  const std::vector<Output> switch_i = s.CallMulti("Switch", {merge_i->output(0), go_on});
  const std::vector<Output> switch_acc = s.CallMulti("Switch", {merge_acc->output(0), go_on});
  const Output in_body = s.Call("Identity", {switch_i[1]});
  const Scope inside = s.WithControlDependencies({in_body.node});
  const Output next_i = s.Call("AddV2", {in_body, inside.Constant(1)});
  const Output next_acc = body(inside, switch_acc[1]);
  const Output back_i = s.Call("NextIteration", {next_i});
  const Output back_acc = s.Call("NextIteration", {next_acc});
  EXPECT_TRUE(s.graph()->SetInput(merge_i, 1, back_i).ok());
  EXPECT_TRUE(s.graph()->SetInput(merge_acc, 1, back_acc).ok());
  s.Call("Exit", {switch_i[0]});
  return s.Call("Exit", {switch_acc[0]});
}

TEST(Session, ALoopRunsItsIterations) {
  for (const int parallel : {1, 2, 10}) {
    Scope s = Scope::NewRoot();
    const Output limit =
        s.WithOpName("n").Call("Placeholder", {}, {{"dtype", kInt32}, {"shape", PartialShape({})}});
    const Output result = Loop(
        s, "loop", limit, s.Constant(1.0f),
        [](const Scope& inside, Output acc) {
          return inside.Call("Mul", {acc, inside.Constant(2.0f)});
        },
        parallel);
    s.WithOpName("y").Call("Identity", {result});
    auto session = Open(s);
    for (const int n : {0, 1, 5, 20}) {
      EXPECT_EQ(Value(session->Run({{"n", Tensor::Scalar<int32_t>(n)}}, {"y"})),
                static_cast<float>(1 << n))
          << parallel;
    }
  }
}

TEST(Session, LoopsNest) {
  Scope s = Scope::NewRoot();
  const Output limit = s.Constant(5);
  const Output result =
      Loop(s, "outer", limit, s.Constant(0.0f), [](const Scope& inside, Output acc) {
        return Loop(inside, "inner", inside.Constant(7), acc, [](const Scope& inner, Output value) {
          return inner.Call("AddV2", {value, inner.Constant(1.0f)});
        });
      });
  s.WithOpName("y").Call("Identity", {result});
  auto session = Open(s);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Value(session->Run({}, {"y"})), 35);
}

TEST(Session, ALoopOnTheBranchNotTakenIsDead) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  const std::vector<Output> branches = s.CallMulti("Switch", {x, s.Call("Greater", {x, 0.0f})});
  ASSERT_TRUE(s.ok()) << s.status();
  const Output looped = Loop(s, "loop", s.Call("Cast", {branches[1]}, {{"DstT", kInt32}}),
                             branches[1], [](const Scope& inside, Output acc) {
                               return inside.Call("AddV2", {acc, inside.Constant(1.0f)});
                             });
  s.WithOpName("y").CallMulti("Merge", {branches[0], looped});
  auto session = Open(s);
  EXPECT_EQ(Value(session->Run({{"x", Tensor::Scalar<float>(4)}}, {"y"})), 8);
  EXPECT_EQ(Value(session->Run({{"x", Tensor::Scalar<float>(-4)}}, {"y"})), -4);
}

TEST(Session, AnErrorInsideALoopEndsTheStep) {
  Scope s = Scope::NewRoot();
  const Output result =
      Loop(s, "loop", s.Constant(5), s.Constant(0.0f),
           [](const Scope& inside, Output acc) { return inside.Call("_TestFail", {acc}); });
  s.WithOpName("y").Call("Identity", {result});
  auto session = Open(s);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(session->Run({}, {"y"}).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(Session, AnEndlessLoopEndsAtItsDeadline) {
  Scope s = Scope::NewRoot();
  const Output result = Loop(s, "loop", s.Constant(2000000000), s.Constant(0.0f),
                             [](const Scope& inside, Output acc) {
                               return inside.Call("AddV2", {acc, inside.Constant(1.0f)});
                             });
  s.WithOpName("y").Call("Identity", {result});
  auto session = Open(s);
  RunOptions options;
  options.timeout = absl::Milliseconds(30);
  const absl::Status status = session->Run(options, {}, {"y"}, {}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(absl::StrContains(status.message(), "(LoopCond) in round ")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "of frame 'loop")) << status;
}

// One executor thread and one run token, as long as it lives.
class Narrow {
 public:
  Narrow() {
    ExecutorPool().SetMaxRunning(1);
    RunTokens::Process().SetCapacity(1);
    RunTokens::Process().ResetHighWater();
  }
  ~Narrow() {
    RunTokens::Process().SetCapacity(tokens_);
    ExecutorPool().SetMaxRunning(threads_);
  }

 private:
  const int threads_ = ExecutorPool().max_running();
  const int tokens_ = RunTokens::Process().capacity();
};

TEST(Session, OneThreadAndOneTokenAreEnough) {
  const Narrow narrow;
  Scope s = Scope::NewRoot();
  const Output outer =
      Loop(s, "outer", s.Constant(20), s.Constant(0.0f), [](const Scope& inside, Output acc) {
        return Loop(inside, "inner", inside.Constant(20), acc,
                    [](const Scope& inner, Output value) {
                      return inner.Call("AddV2", {value, inner.Constant(1.0f)});
                    });
      });
  s.WithOpName("y").Call("Identity", {outer});
  auto session = Open(s);
  EXPECT_EQ(Value(session->Run({}, {"y"})), 400);
  EXPECT_EQ(RunTokens::Process().high_water(), 1);
}

// The function is compiled inside the step, and its constant copied by the queue meanwhile.
TEST(Session, OneThreadAndOneTokenAreEnoughForAFunctionOnAQueuedDevice) {
  const Narrow narrow;
  Scope s = Scope::NewRoot();
  Scope body = Scope::NewRoot();
  const Output arg = FunctionArg(body, 0, kFloat32);
  FunctionResult(body, 0, body.Call("AddV2", {arg, body.Constant(1.0f)}));
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_TRUE(DefineFunction("plus_one", *body.graph(), {}, &s.graph()->functions()).ok());
  const Output x = Placeholder(s, "x");
  s.WithDevice("/device:SIM:0")
      .WithOpName("y")
      .Call("PartitionedCall", {x},
            {{"f", FunctionRef{"plus_one", {}}}, {"Tout", std::vector<DataType>{kFloat32}}});
  SessionOptions options;
  const auto devices = DeviceSet::Create({{kCpu, 1}, {kSim, 1}});
  ASSERT_TRUE(devices.ok()) << devices.status();
  options.devices = *devices;
  auto session = Open(s, options);
  EXPECT_EQ(Value(session->Run({{"x", Tensor::Scalar<float>(4)}}, {"y"})), 5);
  EXPECT_EQ(RunTokens::Process().high_water(), 1);
}

}  // namespace
}  // namespace tandem
