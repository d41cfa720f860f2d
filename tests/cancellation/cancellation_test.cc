// Every kind of kernel that waits is cancelled while it does: the run ends with the reason, and
// what was waited for (the queue, the session) works as if nobody had waited. All of it also with
// one executor thread and one run token, which must be enough for everything.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/threads/run_tokens.h"
#include "tests/cancellation/waiting_step.h"

namespace tandem {
namespace {

// A function with the arguments `args`; `body` gives its results.
void Define(
    const Scope& scope, const std::string& name, const std::vector<DataType>& args,
    const std::function<std::vector<Output>(const Scope&, const std::vector<Output>&)>& body) {
  Scope inside = Scope::NewRoot();
  std::vector<Output> values;
  for (size_t i = 0; i < args.size(); ++i) {
    values.push_back(FunctionArg(inside, static_cast<int>(i), args[i]));
  }
  const std::vector<Output> results = body(inside, values);
  for (size_t i = 0; i < results.size(); ++i) {
    FunctionResult(inside, static_cast<int>(i), results[i]);
  }
  ASSERT_TRUE(inside.ok()) << inside.status();
  std::vector<Node*> effects;
  for (Node* node : inside.graph()->nodes()) {
    if (node->Is("QueueEnqueueV2") || node->Is("_TestReached")) effects.push_back(node);
  }
  const absl::Status status =
      DefineFunction(name, *inside.graph(), effects, &scope.graph()->functions());
  ASSERT_TRUE(status.ok()) << status;
}

const std::vector<DataType> kOneInt = {kInt32};

Output Dequeue(const Scope& scope, const Output& queue) {
  return scope.Call("QueueDequeueV2", {queue}, {{"component_types", kOneInt}});
}

// Conditions and bodies of loops that put 0 to 99 into a queue, and that add them up.
void DefineLoopsOverAQueue(const Scope& s) {
  Define(s, "below_100", {kInt32, kInt32, kResource},
         [](const Scope& inside, const std::vector<Output>& args) {
           return std::vector<Output>{inside.Call("Less", {args[0], 100})};
         });
  Define(s, "put_next", {kInt32, kInt32, kResource},
         [](const Scope& inside, const std::vector<Output>& args) {
           inside.AddNode("QueueEnqueueV2", {args[2], args[0]});
           return std::vector<Output>{inside.Call("AddV2", {args[0], 1}), args[1], args[2]};
         });
  Define(s, "add_next", {kInt32, kInt32, kResource},
         [](const Scope& inside, const std::vector<Output>& args) {
           const Output sum = inside.Call("AddV2", {args[1], Dequeue(inside, args[2])});
           return std::vector<Output>{inside.Call("AddV2", {args[0], 1}), sum, args[2]};
         });
}

// The graph that the tests run: a queue for one number, and what waits, for it or for nothing.
std::unique_ptr<Session> Open() {
  Scope s = Scope::NewRoot();
  Define(s, "take", {kResource}, [](const Scope& inside, const std::vector<Output>& args) {
    Node* const reached = inside.AddNode("_TestReached", {});
    return std::vector<Output>{Dequeue(inside.WithControlDependencies({reached}), args[0])};
  });
  Define(s, "not_negative", {kInt32}, [](const Scope& inside, const std::vector<Output>& args) {
    return std::vector<Output>{inside.Call("GreaterEqual", {args[0], 0})};
  });
  Define(s, "flip", {kInt32}, [](const Scope& inside, const std::vector<Output>& args) {
    inside.AddNode("_TestReached", {});
    return std::vector<Output>{inside.Call("Sub", {1, args[0]})};
  });
  DefineLoopsOverAQueue(s);

  const Output queue =
      s.WithOpName("q").Call("FIFOQueueV2", {}, {{"component_types", kOneInt}, {"capacity", 1}});
  Node* const reached = s.WithOpName("reached").AddNode("_TestReached", {});
  const Scope after = s.WithControlDependencies({reached});
  Dequeue(after.WithOpName("dequeue"), queue);
  after.WithOpName("enqueue").AddNode("QueueEnqueueV2", {queue, 7});
  s.WithOpName("size").Call("QueueSizeV2", {queue});
  s.WithOpName("close").AddNode("QueueCloseV2", {queue});
  s.WithOpName("cancel").AddNode("QueueCloseV2", {queue}, {{"cancel_pending_enqueues", true}});
  s.WithOpName("call").Call("StatefulPartitionedCall", {queue},
                            {{"f", FunctionRef{"take", {}}}, {"Tout", kOneInt}});
  s.WithOpName("if").Call("If", {true, queue},
                          {{"then_branch", FunctionRef{"take", {}}},
                           {"else_branch", FunctionRef{"take", {}}},
                           {"Tout", kOneInt}});
  s.WithOpName("case").Call(
      "Case", {1, queue},
      {{"branches", std::vector<FunctionRef>{{"take", {}}, {"take", {}}}}, {"Tout", kOneInt}});
  // The other member of the group does not come.
  after.WithOpName("all_reduce")
      .CallMulti("_TandemAllReduce", {1.0f},
                 {{"T", std::vector<DataType>{kFloat32}},
                  {"group", "replicas"},
                  {"member", 0},
                  {"instance", 1}});
  s.WithOpName("endless").Call(
      "While", {0}, {{"cond", FunctionRef{"not_negative", {}}}, {"body", FunctionRef{"flip", {}}}});
  s.WithOpName("producer")
      .CallMulti("While", {0, 0, queue},
                 {{"cond", FunctionRef{"below_100", {}}}, {"body", FunctionRef{"put_next", {}}}});
  s.WithOpName("consumer")
      .CallMulti("While", {0, 0, queue},
                 {{"cond", FunctionRef{"below_100", {}}}, {"body", FunctionRef{"add_next", {}}}});
  EXPECT_TRUE(s.ok()) << s.status();
  SessionOptions options;
  options.collective_groups = {{"replicas", 2}};
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*s.graph(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

int32_t FetchInt(Session& session, const std::string& name) {
  const auto results = session.Run({}, {name});
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? (*results)[0].ScalarValue<int32_t>() : -12345;
}

INSTANTIATE_TEST_SUITE_P(Threads, Cancellation, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "One" : "All"; });

void ExpectCancellableAndNamed(Session& session, const std::string& target) {
  ExpectCancellable(session, target);
  ExpectNamedAtDeadline(session, target);
}

TEST_P(Cancellation, ADequeueFromAnEmptyQueueEnds) {
  auto session = Open();
  ExpectCancellableAndNamed(*session, "dequeue");
  // Nobody is left who would take the element.
  ASSERT_TRUE(session->Run({}, {}, {"enqueue"}).ok());
  EXPECT_EQ(FetchInt(*session, "size"), 1);
  EXPECT_EQ(FetchInt(*session, "dequeue"), 7);
}

TEST_P(Cancellation, AnEnqueueIntoAFullQueueEnds) {
  auto session = Open();
  ASSERT_TRUE(session->Run({}, {}, {"enqueue"}).ok());
  ExpectCancellableAndNamed(*session, "enqueue");
  // Nothing is left that would be put in.
  EXPECT_EQ(FetchInt(*session, "dequeue"), 7);
  EXPECT_EQ(FetchInt(*session, "size"), 0);
}

TEST_P(Cancellation, AnEndlessLoopEnds) {
  auto session = Open();
  ExpectCancellableAndNamed(*session, "endless");
}

TEST_P(Cancellation, ACallOfAFunctionThatWaitsEnds) {
  auto session = Open();
  ExpectCancellableAndNamed(*session, "call");
  ExpectCancellableAndNamed(*session, "if");
  ExpectCancellableAndNamed(*session, "case");
  ASSERT_TRUE(session->Run({}, {}, {"enqueue"}).ok());
  EXPECT_EQ(FetchInt(*session, "call"), 7);
}

TEST_P(Cancellation, AnAllReduceWhoseOthersDoNotComeEnds) {
  auto session = Open();
  ExpectCancellableAndNamed(*session, "all_reduce");
}

TEST_P(Cancellation, ALoopThatWaitsInItsBodyEnds) {
  auto session = Open();
  for (const char* loop : {"producer", "consumer"}) {
    SCOPED_TRACE(loop);
    ExpectNamedAtDeadline(*session, loop);
  }
}

TEST_P(Cancellation, ClosingTheQueueEndsThoseWhoWait) {
  auto session = Open();
  Reached().Clear();
  std::thread closer([&] {
    Reached().Await();
    EXPECT_TRUE(session->Run({}, {}, {"close"}).ok());
  });
  const auto taken = session->Run({}, {"dequeue"});
  closer.join();
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kOutOfRange) << taken.status();

  session = Open();
  ASSERT_TRUE(session->Run({}, {}, {"enqueue"}).ok());
  Reached().Clear();
  std::thread canceller([&] {
    Reached().Await();
    EXPECT_TRUE(session->Run({}, {}, {"cancel"}).ok());
  });
  const auto put = session->Run({}, {}, {"enqueue"});
  canceller.join();
  EXPECT_EQ(put.status().code(), absl::StatusCode::kCancelled) << put.status();
  EXPECT_EQ(FetchInt(*session, "dequeue"), 7) << "what was in it can still be taken out";
}

TEST_P(Cancellation, ProducerAndConsumerTakeTurnsInTwoRuns) {
  auto session = Open();
  RunTokens::Process().ResetHighWater();
  for (int i = 0; i < 3; ++i) {
    RunOptions options;
    options.timeout = absl::Minutes(1);
    std::thread producer([&] {
      const auto results = session->Run(options, {}, {}, {"producer"}, nullptr);
      EXPECT_TRUE(results.ok()) << results.status();
    });
    const auto results = session->Run(options, {}, {"consumer:1"}, {}, nullptr);
    producer.join();
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ((*results)[0].ScalarValue<int32_t>(), 99 * 100 / 2);
  }
  if (GetParam()) {
    EXPECT_EQ(RunTokens::Process().high_water(), 1);
  }
}

// Eight devices and one queue: on each device loops run in loops, on the first and the last of them
// a producer and its consumer besides.
TEST_P(Cancellation, ManyDevicesAQueueAndLoopsInLoopsFinish) {
  constexpr int kDevices = 8;
  Scope s = Scope::NewRoot();
  Define(s, "below_10", {kInt32, kInt32}, [](const Scope& inside, const std::vector<Output>& args) {
    return std::vector<Output>{inside.Call("Less", {args[0], 10})};
  });
  Define(s, "count", {kInt32, kInt32}, [](const Scope& inside, const std::vector<Output>& args) {
    return std::vector<Output>{inside.Call("AddV2", {args[0], 1}),
                               inside.Call("AddV2", {args[1], 1})};
  });
  Define(s, "count_ten_times", {kInt32, kInt32},
         [](const Scope& inside, const std::vector<Output>& args) {
           const std::vector<Output> inner = inside.CallMulti(
               "While", {0, args[1]},
               {{"cond", FunctionRef{"below_10", {}}}, {"body", FunctionRef{"count", {}}}});
           return std::vector<Output>{inside.Call("AddV2", {args[0], 1}), inner[1]};
         });
  DefineLoopsOverAQueue(s);
  const Output queue =
      s.WithOpName("q").Call("FIFOQueueV2", {}, {{"component_types", kOneInt}, {"capacity", 1}});
  std::vector<std::string> fetches;
  for (int i = 0; i < kDevices; ++i) {
    const std::string name = absl::StrCat("loops_", i);
    s.WithDevice(absl::StrCat("/device:CPU:", i))
        .WithOpName(name)
        .CallMulti(
            "While", {0, i},
            {{"cond", FunctionRef{"below_10", {}}}, {"body", FunctionRef{"count_ten_times", {}}}});
    fetches.push_back(name + ":1");
  }
  s.WithOpName("producer")
      .CallMulti("While", {0, 0, queue},
                 {{"cond", FunctionRef{"below_100", {}}}, {"body", FunctionRef{"put_next", {}}}});
  s.WithOpName("consumer")
      .CallMulti("While", {0, 0, queue},
                 {{"cond", FunctionRef{"below_100", {}}}, {"body", FunctionRef{"add_next", {}}}});
  fetches.push_back("consumer:1");
  ASSERT_TRUE(s.ok()) << s.status();
  SessionOptions options;
  const auto devices = DeviceSet::Create({{kCpu, kDevices}});
  ASSERT_TRUE(devices.ok()) << devices.status();
  options.devices = *devices;
  const auto session = Session::Create(*s.graph(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 3; ++i) {
    RunOptions run;
    run.timeout = absl::Minutes(1);
    const auto results = (*session)->Run(run, {}, fetches, {"producer"}, nullptr);
    ASSERT_TRUE(results.ok()) << results.status();
    for (int d = 0; d < kDevices; ++d) {
      EXPECT_EQ((*results)[static_cast<size_t>(d)].ScalarValue<int32_t>(), d + 100);
    }
    EXPECT_EQ((*results)[kDevices].ScalarValue<int32_t>(), 99 * 100 / 2);
  }
}

}  // namespace
}  // namespace tandem
