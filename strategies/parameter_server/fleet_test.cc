// Workers that come, go and come back while steps run on them.
#include "strategies/parameter_server/fleet.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

TaskId Worker(int index) { return {"worker", index}; }

// Feeds "x" and, as the route, "waits". "y": if it waits, what another step of this worker has put
// into a queue; else -x, and x is put there.
WorkerProgram Program() {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  const Output waits = s.WithOpName("waits").Call("Placeholder", {},
                                                  {{"dtype", kBool}, {"shape", PartialShape({})}});
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.WithOpName("queue").Call("FIFOQueueV2", {}, {{"component_types", types}});
  const std::vector<Output> branches = s.CallMulti("Switch", {x, waits});
  Node* const put = s.AddNode("QueueEnqueueV2", {queue, branches[0]}, {{"Tcomponents", types}});
  const Output negated = s.WithControlDependencies({put}).Call("Neg", {branches[0]});
  const Output begins = s.Call("Identity", {branches[1]});
  const Output taken = s.WithControlDependencies({begins.node})
                           .Call("QueueDequeueV2", {queue}, {{"component_types", types}});
  const Output joined = s.CallMulti("Merge", {negated, taken})[0];
  s.WithOpName("y").Call("Identity", {joined});
  EXPECT_TRUE(s.ok()) << s.status();
  WorkerProgram program;
  program.graph = s.graph()->Clone();
  program.signature.feeds = {"x:0", "waits:0"};
  program.signature.fetches = {"y:0"};
  return program;
}

// What became of a step.
struct Outcome {
  Event ended;
  absl::StatusOr<std::vector<Tensor>> result = std::vector<Tensor>();
  std::atomic<int> sent{0};

  absl::StatusCode code() { return WaitForStatus().code(); }
  absl::Status WaitForStatus() {
    EXPECT_TRUE(ended.Wait(absl::Now() + kPatience));
    return ended.IsSet() ? result.status() : errors::Internal("it has not ended");
  }
  float Value() {
    const absl::Status status = WaitForStatus();
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? (*result)[0].ScalarValue<float>() : 0;
  }
};

class FleetTest : public ::testing::Test {
 protected:
  explicit FleetTest() : cluster_({{"worker", 2}}) {}

  void Make(absl::Duration start_timeout = kPatience, int steps_in_flight = 2) {
    FleetOptions options;
    options.workers = {{0, cluster_.address(Worker(0))}, {1, cluster_.address(Worker(1))}};
    options.steps_in_flight = steps_in_flight;
    options.heartbeat = absl::Milliseconds(50);
    options.lost_after = absl::Seconds(10);
    options.start_timeout = start_timeout;
    options.on_trouble = [this] { ++troubles_; };
    fleet_ = std::make_unique<Fleet>(std::move(options));
    program_ = fleet_->AddProgram(Program());
  }

  // `waits`: as many times as it is sent, the last one for ever after.
  std::shared_ptr<Outcome> Submit(float x, std::vector<bool> waits = {false}, int64_t order = 0,
                                  bool belongs_together = false) {
    auto outcome = std::make_shared<Outcome>();
    FleetStep step;
    step.id = ++last_id_;
    step.program = program_;
    step.feeds = {Tensor::Scalar<float>(x)};
    step.order = order;
    step.belongs_together = belongs_together;
    step.route = [outcome, waits]() -> absl::optional<Tensor> {
      const size_t number = static_cast<size_t>(outcome->sent++);
      return Tensor::Scalar<bool>(waits[std::min(number, waits.size() - 1)]);
    };
    step.done = [outcome](absl::StatusOr<std::vector<Tensor>> result) {
      outcome->result = std::move(result);
      outcome->ended.Set();
    };
    fleet_->Submit(std::move(step));
    return outcome;
  }

  template <typename Condition>
  static bool WaitUntil(Condition is_so) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!is_so()) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return true;
  }

  TestCluster cluster_;
  std::atomic<int> troubles_{0};
  std::unique_ptr<Fleet> fleet_;
  int program_ = 0;
  int64_t last_id_ = 0;
};

TEST_F(FleetTest, RunsManySteps) {
  cluster_.StartAll();
  Make();
  std::vector<std::shared_ptr<Outcome>> outcomes;
  for (int i = 0; i < 100; ++i) outcomes.push_back(Submit(static_cast<float>(i)));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(outcomes[static_cast<size_t>(i)]->Value(), static_cast<float>(-i));
    EXPECT_EQ(outcomes[static_cast<size_t>(i)]->sent, 1);
  }
  EXPECT_EQ(troubles_, 0);
}

TEST_F(FleetTest, AStepOfALostWorkerRunsElsewhere) {
  cluster_.Start(Worker(0));
  Make();
  const auto outcome = Submit(3, {true, false});
  ASSERT_TRUE(WaitUntil([&] { return outcome->sent == 1; }));
  cluster_.Start(Worker(1));
  ASSERT_TRUE(WaitUntil([&] { return fleet_->num_there() == 2; }));
  cluster_.Stop(Worker(0));
  EXPECT_EQ(outcome->Value(), -3);
  EXPECT_EQ(outcome->sent, 2);
  EXPECT_GE(troubles_, 1);
  std::vector<MemberEvent> events;
  ASSERT_TRUE(WaitUntil([&] {
    for (MemberEvent& event : fleet_->TakeEvents()) events.push_back(std::move(event));
    return !events.empty() && events.back().kind == MemberEvent::Kind::kLeft;
  }));
  EXPECT_EQ(events.back().member, "/job:worker/task:0");

  // And it comes back.
  events.clear();
  cluster_.Start(Worker(0));
  ASSERT_TRUE(WaitUntil([&] {
    for (MemberEvent& event : fleet_->TakeEvents()) events.push_back(std::move(event));
    return !events.empty();
  }));
  EXPECT_EQ(events.back().kind, MemberEvent::Kind::kJoined);
  EXPECT_EQ(events.back().member, "/job:worker/task:0");
  cluster_.Stop(Worker(1));
  EXPECT_EQ(Submit(4)->Value(), -4);
}

TEST_F(FleetTest, AWorkerThatIsStartedAgainAtOnceIsAnother) {
  cluster_.Start(Worker(0));
  Make();
  for (int i = 0; i < 3; ++i) {
    const auto outcome = Submit(2, {true, false});
    ASSERT_TRUE(WaitUntil([&] { return outcome->sent == 1; }));
    cluster_.Start(Worker(0));
    EXPECT_EQ(outcome->Value(), -2);
    // What it has put into the queue is taken out: the next one shall wait.
    EXPECT_EQ(Submit(0, {true})->Value(), 2);
  }
}

TEST_F(FleetTest, WorkersMayComeLate) {
  Make();
  const auto outcome = Submit(5);
  EXPECT_EQ(fleet_->num_there(), 0);
  cluster_.Start(Worker(1));
  EXPECT_EQ(outcome->Value(), -5);
}

TEST_F(FleetTest, WithoutAnyWorkerStepsEndAndNameAll) {
  Make(absl::Milliseconds(200));
  const absl::Status status = Submit(1)->WaitForStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("/job:worker/task:", i)))
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), cluster_.address(Worker(i)))) << status;
  }
  // Later ones wait again.
  const auto outcome = Submit(2);
  cluster_.StartAll();
  const absl::Status second = outcome->WaitForStatus();
  EXPECT_TRUE(second.ok() || absl::IsDeadlineExceeded(second)) << second;
}

TEST_F(FleetTest, StepsAreCancelledWhileTheyWaitAndWhileTheyRun) {
  Make();
  const auto waiting = Submit(1);
  fleet_->Cancel(last_id_, errors::Cancelled("not wanted"));
  EXPECT_EQ(waiting->WaitForStatus(), errors::Cancelled("not wanted"));
  EXPECT_EQ(waiting->sent, 0);
  cluster_.StartAll();
  const auto one = Submit(1, {true});
  const auto other = Submit(1, {true});
  ASSERT_TRUE(WaitUntil([&] { return one->sent == 1 && other->sent == 1; }));
  fleet_->CancelAll(errors::Cancelled("the end"));
  EXPECT_EQ(one->WaitForStatus(), errors::Cancelled("the end"));
  EXPECT_EQ(other->WaitForStatus(), errors::Cancelled("the end"));
  // What ended long ago can be cancelled, too.
  fleet_->Cancel(last_id_, errors::Cancelled("again"));
  EXPECT_EQ(Submit(6)->Value(), -6);
  EXPECT_EQ(troubles_, 0);
}

TEST_F(FleetTest, TheEndEndsAll) {
  cluster_.Start(Worker(0));
  Make();
  const auto running = Submit(1, {true});
  ASSERT_TRUE(WaitUntil([&] { return running->sent == 1; }));
  std::vector<std::shared_ptr<Outcome>> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(Submit(1, {true}));
  fleet_.reset();
  EXPECT_EQ(running->code(), absl::StatusCode::kCancelled);
  for (const auto& outcome : waiting) EXPECT_EQ(outcome->code(), absl::StatusCode::kCancelled);
}

TEST_F(FleetTest, AnErrorOfTheProgramIsFinal) {
  cluster_.StartAll();
  Make();
  WorkerProgram bad = Program();
  bad.signature.fetches = {"z:0"};
  const int good = std::exchange(program_, fleet_->AddProgram(std::move(bad)));
  const absl::Status unknown = Submit(1)->WaitForStatus();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown) || absl::IsNotFound(unknown)) << unknown;
  EXPECT_TRUE(absl::StrContains(unknown.message(), "'z")) << unknown;
  EXPECT_EQ(Submit(2)->WaitForStatus().code(), unknown.code());
  program_ = good;
  EXPECT_EQ(Submit(3)->Value(), -3);

  // One that the step finds: a feed of another type.
  auto outcome = std::make_shared<Outcome>();
  FleetStep step;
  step.id = ++last_id_;
  step.program = good;
  step.feeds = {Tensor::Vector<float>({1, 2}), Tensor::Scalar<int32_t>(1)};
  step.done = [outcome](absl::StatusOr<std::vector<Tensor>> result) {
    outcome->result = std::move(result);
    outcome->ended.Set();
  };
  fleet_->Submit(std::move(step));
  EXPECT_EQ(outcome->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(troubles_, 0);
}

TEST_F(FleetTest, PartsThatWaitForEachOtherRunTogetherOnABusyWorker) {
  cluster_.Start(Worker(0));
  Make(kPatience, /*steps_in_flight=*/1);
  const auto takes = Submit(1, {true}, /*order=*/7, /*belongs_together=*/true);
  ASSERT_TRUE(WaitUntil([&] { return takes->sent == 1; }));
  // Not its turn: the worker has one already.
  const auto later = Submit(9, {false}, /*order=*/8, /*belongs_together=*/true);
  const auto gives = Submit(2, {false}, /*order=*/7, /*belongs_together=*/true);
  EXPECT_EQ(gives->Value(), -2);
  EXPECT_EQ(takes->Value(), 2);
  EXPECT_EQ(later->Value(), -9);
}

TEST_F(FleetTest, AStepWithoutARouteWaitsForOne) {
  cluster_.StartAll();
  Make();
  std::atomic<bool> has_route{false};
  std::atomic<int> asked{0};
  auto outcome = std::make_shared<Outcome>();
  FleetStep step;
  step.id = ++last_id_;
  step.program = program_;
  step.feeds = {Tensor::Scalar<float>(8)};
  step.route = [&]() -> absl::optional<Tensor> {
    ++asked;
    if (!has_route) return absl::nullopt;
    return Tensor::Scalar<bool>(false);
  };
  step.done = [outcome](absl::StatusOr<std::vector<Tensor>> result) {
    outcome->result = std::move(result);
    outcome->ended.Set();
  };
  fleet_->Submit(std::move(step));
  ASSERT_TRUE(WaitUntil([&] { return asked == 1; }));
  fleet_->Wake();
  ASSERT_TRUE(WaitUntil([&] { return asked == 2; }));
  EXPECT_FALSE(outcome->ended.IsSet());
  has_route = true;
  fleet_->Wake();
  EXPECT_EQ(outcome->Value(), -8);
}

}  // namespace
}  // namespace tandem::parameter_server
