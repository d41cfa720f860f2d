// What sessions, and steps of one session, do not do to each other: resources, runs that nobody
// waits for, calls that nest.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/mutex.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

Output Placeholder(const Scope& scope, const std::string& name) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", kFloat32}, {"shape", PartialShape({})}});
}

std::unique_ptr<Session> Open(const Scope& scope, SessionOptions options = {}) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*scope.graph(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

float Fetch(Session& session, const Session::Feeds& feeds, const std::string& name) {
  const auto results = session.Run(feeds, {name});
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? (*results)[0].ScalarValue<float>() : -12345.f;
}

// A variable "v" with a target that sets it to what is fed as "x".
Scope WithVariable() {
  Scope s = Scope::NewRoot();
  const Output v =
      s.WithOpName("v").Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("set").AddNode("AssignVariableOp", {v, Placeholder(s, "x")});
  s.WithOpName("value").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  return s;
}

TEST(SessionResources, BelongToTheSession) {
  const auto devices = DeviceSet::Create({{"CPU", 1}});
  ASSERT_TRUE(devices.ok());
  SessionOptions options;
  options.devices = *devices;
  const Scope s = WithVariable();
  auto a = Open(s, options);
  auto b = Open(s, options);
  ASSERT_TRUE(a->Run({{"x", Tensor::Scalar<float>(1)}}, {}, {"set"}).ok());
  EXPECT_EQ(b->Run({}, {"value"}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(b->Run({{"x", Tensor::Scalar<float>(2)}}, {}, {"set"}).ok());
  EXPECT_EQ(Fetch(*a, {}, "value"), 1);
  EXPECT_EQ(Fetch(*b, {}, "value"), 2);
}

TEST(SessionResources, AreSharedWhenTheSessionsDevicesAre) {
  const Scope s = WithVariable();
  auto a = Open(s);
  SessionOptions options;
  options.session_devices = a->session_devices();
  auto b = Open(s, options);
  ASSERT_TRUE(a->Run({{"x", Tensor::Scalar<float>(1)}}, {}, {"set"}).ok());
  EXPECT_EQ(Fetch(*b, {}, "value"), 1);
  a->session_devices()->ClearContainer("localhost");
  EXPECT_FALSE(b->Run({}, {"value"}).ok());
}

TEST(Feed, ANodeThatIsNoPlaceholderRunsForWhoWaitsForIt) {
  Scope s = WithVariable();
  // Its value is fed, but "after" also waits for it by a control edge: it reads, and finds nothing.
  const Output value(s.graph()->FindNode("value"), 0);
  s.WithOpName("after").WithControlDependencies({value.node}).Call("Identity", {value});
  auto session = Open(s);
  EXPECT_EQ(session->Run({{"value", Tensor::Scalar<float>(7)}}, {"after"}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(session->Run({{"x", Tensor::Scalar<float>(5)}}, {}, {"set"}).ok());
  EXPECT_EQ(Fetch(*session, {{"value", Tensor::Scalar<float>(7)}}, "after"), 7);
}

TEST(Start, RunsTheStepAndCallsDoneOnce) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Mul", {Placeholder(s, "x"), 2.0f});
  auto session = Open(s);
  auto callable = session->MakeCallable({{"x"}, {"y"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  constexpr int kRuns = 200;
  Mutex mu;
  CondVar changed;
  int ended = 0;
  int right = 0;
  for (int i = 0; i < kRuns; ++i) {
    (*callable)->Start({Tensor::Scalar<float>(static_cast<float>(i))}, {}, nullptr,
                       [&, i](absl::StatusOr<std::vector<Tensor>> results) {
                         MutexLock lock(mu);
                         ++ended;
                         if (results.ok() && (*results)[0].ScalarValue<float>() == 2.f * i) ++right;
                         changed.NotifyAll();
                       });
  }
  MutexLock lock(mu);
  while (ended < kRuns) changed.Wait(mu);
  EXPECT_EQ(right, kRuns);
}

TEST(Start, TellsWhatIsWrongThroughDone) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  auto session = Open(s);
  auto callable = session->MakeCallable({{"x"}, {"y"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  absl::Status status;
  const auto note = [&](absl::StatusOr<std::vector<Tensor>> r) { status = r.status(); };
  (*callable)->Start({Tensor::Scalar<int32_t>(1)}, {}, nullptr, note);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  RunOptions timed;
  timed.timeout = absl::Seconds(1);
  (*callable)->Start({Tensor::Scalar<float>(1)}, timed, nullptr, note);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  session->Close();
  (*callable)->Start({Tensor::Scalar<float>(1)}, {}, nullptr, note);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(Start, IsEndedByWhoCancelsIt) {
  Scope s = Scope::NewRoot();
  const Output queue = s.WithOpName("queue").Call(
      "FIFOQueueV2", {}, {{"component_types", std::vector<DataType>{kFloat32}}});
  s.WithOpName("taken").Call("QueueDequeueV2", {queue},
                             {{"component_types", std::vector<DataType>{kFloat32}}});
  auto session = Open(s);
  auto callable = session->MakeCallable({{}, {"taken"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  for (int i = 0; i < 20; ++i) {
    CancellationManager cancellation;
    RunOptions options;
    options.cancellation = &cancellation;
    Event ended;
    absl::Status status;
    (*callable)->Start({}, options, nullptr, [&](absl::StatusOr<std::vector<Tensor>> results) {
      status = results.status();
      ended.Set();
    });
    cancellation.Cancel(absl::AbortedError("a member was lost"));
    ended.Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  }
}

// A function that calls itself until its argument is 0; the call is the last thing that it does.
void DefineCountdown(const Scope& scope) {
  const std::vector<DataType> floats = {kFloat32};
  const auto define = [&](const std::string& name,
                          const std::function<Output(const Scope&, Output)>& body) {
    Scope inside = Scope::NewRoot();
    const Output x = FunctionArg(inside, 0, kFloat32);
    FunctionResult(inside, 0, body(inside, x));
    ASSERT_TRUE(inside.ok()) << inside.status();
    ASSERT_TRUE(DefineFunction(name, *inside.graph(), {}, &scope.graph()->functions()).ok());
  };
  define("end", [](const Scope& in, Output x) { return in.Call("Identity", {x}); });
  define("go_on", [&](const Scope& in, Output x) {
    return in.Call("StatefulPartitionedCall", {in.Call("Sub", {x, 1.0f})},
                   {{"f", FunctionRef{"countdown", {}}}, {"Tout", floats}});
  });
  define("countdown", [&](const Scope& in, Output x) {
    return in.Call("If", {in.Call("Less", {x, 1.0f}), x},
                   {{"then_branch", FunctionRef{"end", {}}},
                    {"else_branch", FunctionRef{"go_on", {}}},
                    {"Tout", floats}});
  });
}

TEST(Calls, TakeNoRoomOnTheStack) {
  Scope s = Scope::NewRoot();
  DefineCountdown(s);
  s.WithOpName("y").Call(
      "PartitionedCall", {Placeholder(s, "x")},
      {{"f", FunctionRef{"countdown", {}}}, {"Tout", std::vector<DataType>{kFloat32}}});
  auto session = Open(s);
  // Two calls a round: close to the limit.
  EXPECT_EQ(Fetch(*session, {{"x", Tensor::Scalar<float>(4900)}}, "y"), 0);
}

TEST(Calls, ARecursionWithoutEndIsAnError) {
  Scope s = Scope::NewRoot();
  DefineCountdown(s);
  s.WithOpName("y").Call(
      "PartitionedCall", {Placeholder(s, "x")},
      {{"f", FunctionRef{"countdown", {}}}, {"Tout", std::vector<DataType>{kFloat32}}});
  auto session = Open(s);
  const auto results = session->Run({{"x", Tensor::Scalar<float>(1e9f)}}, {"y"});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(results.status().message(), "recursion")) << results.status();
  // The session goes on.
  EXPECT_EQ(Fetch(*session, {{"x", Tensor::Scalar<float>(3)}}, "y"), 0);
}

TEST(Merge, FiresWhenItIsFedByAConstantAndWaitsForAControlEdge) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  const Output first = s.Call("Neg", {x});
  const std::vector<Output> branches = s.CallMulti("Switch", {x, s.Call("Less", {x, 0.0f})});
  ASSERT_TRUE(s.ok()) << s.status();
  // The branch is dead for x >= 0; the constant is what is left.
  s.WithOpName("y")
      .WithControlDependencies({first.node})
      .CallMulti("Merge", {branches[1], s.Constant(42.0f)});
  auto session = Open(s);
  EXPECT_EQ(Fetch(*session, {{"x", Tensor::Scalar<float>(1)}}, "y"), 42);
}

TEST(Constants, AreConsumedInsideLoopsOnADeviceWithItsOwnMemory) {
  Scope s = Scope::NewRoot();
  const Scope sim = s.WithDevice("/device:SIM:0");
  const AttrMap frame = {{"frame_name", "loop"}};
  const auto merge = [&](Output enter) -> Node* {
    NodeSpec spec;
    spec.name = s.graph()->UniqueName("Merge");
    spec.op = "Merge";
    spec.inputs = {enter};
    spec.attrs = {{"N", 2}, {"T", enter.dtype()}};
    spec.first_missing_input = 1;
    return *s.graph()->AddNode(spec);
  };
  const Output x = Placeholder(s, "x");
  const Output enter = sim.Call("Enter", {x}, frame);
  ASSERT_TRUE(s.ok()) << s.status();
  Node* const value = merge(enter);
  const Output go_on = s.Call("LoopCond", {sim.Call("Less", {value->output(0), 100.0f})});
  const std::vector<Output> branches = sim.CallMulti("Switch", {value->output(0), go_on});
  ASSERT_TRUE(s.ok()) << s.status();
  const Output doubled = sim.Call("Mul", {branches[1], 2.0f});
  const Output back = sim.Call("NextIteration", {doubled});
  ASSERT_TRUE(s.ok()) << s.status();
  ASSERT_TRUE(s.graph()->SetInput(value, 1, back).ok());
  s.WithOpName("y").Call("Identity", {sim.Call("Exit", {branches[0]})});
  SessionOptions options;
  const auto devices = DeviceSet::Create({{"SIM", 1}});
  ASSERT_TRUE(devices.ok()) << devices.status();
  options.devices = *devices;
  auto session = Open(s, options);
  EXPECT_EQ(Fetch(*session, {{"x", Tensor::Scalar<float>(3)}}, "y"), 192);
}

}  // namespace
}  // namespace tandem
