// Steps that wait for another task's value, or for a device that is busy, are cancelled while they
// do.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "core/kernel/factories.h"
#include "core/kernel/parameter_store.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "gtest/gtest.h"
#include "runtime/device/device.h"
#include "runtime/rendezvous/local_rendezvous.h"
#include "runtime/session/session.h"
#include "runtime/threads/run_tokens.h"
#include "tests/cancellation/waiting_step.h"

namespace tandem {
namespace {

// Holds the queue of the device that it runs on until its step is cancelled.
absl::Status HoldCompute(KernelContext& c) {
  Signal released;
  CancellationManager& cancellation = *c.step().cancellation;
  const CancellationManager::Token token = cancellation.NewToken();
  const bool waits = cancellation.Register(token, [&released] { released.Raise(); });
  Reached().Raise();
  {
    const ScopedRunTokenRelease waiting;  // As whatever waits.
    if (waits) released.Await();
  }
  cancellation.Deregister(token);
  return absl::OkStatus();
}
TANDEM_OP("_TestHold").Shape(NoOutputs).Stateful().Cpu(Function(HoldCompute));

std::atomic<int>& Counted() {
  static std::atomic<int> counted{0};
  return counted;
}

absl::Status CountCompute(KernelContext&) {
  ++Counted();
  return absl::OkStatus();
}
TANDEM_OP("_TestCount").Shape(NoOutputs).Stateful().Cpu(Function(CountCompute));

INSTANTIATE_TEST_SUITE_P(Threads, Cancellation, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "One" : "All"; });

TEST_P(Cancellation, AReceiveWhoseSenderDoesNotComeEnds) {
  Scope s = Scope::NewRoot();
  Node* const reached = s.AddNode("_TestReached", {});
  s.WithControlDependencies({reached}).WithOpName("receive").Call(
      "_Recv", {},
      {{"tensor_type", kFloat32},
       {"tensor_name", "edge_1"},
       {"send_device", "/job:worker/replica:0/task:1/device:CPU:0"},
       {"send_device_incarnation", int64_t{1}},
       {"recv_device", "/job:worker/replica:0/task:0/device:CPU:0"}});
  ASSERT_TRUE(s.ok()) << s.status();
  const auto session = Session::Create(*s.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  const auto run = [&](RunOptions options, Rendezvous& rendezvous) {
    options.rendezvous = &rendezvous;
    return (*session)->Run(options, {}, {"receive"}, {}, nullptr);
  };
  for (int i = 0; i < 30; ++i) {
    LocalRendezvous rendezvous;
    ASSERT_EQ(
        RunAndCancel([&](const RunOptions& options) { return run(options, rendezvous).status(); }),
        absl::AbortedError("enough"));
  }
  {
    LocalRendezvous rendezvous;
    RunOptions options;
    options.timeout = absl::Milliseconds(500);
    const absl::Status status = run(options, rendezvous).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(absl::StrContains(status.message(), "receive")) << status;
  }
  {
    // The task that would have sent has failed: its reason comes, not a deadline.
    LocalRendezvous rendezvous;
    const absl::Status lost = absl::UnavailableError("/job:worker/task:1 is gone");
    const absl::Status status = RunAndCancel(
        [&](RunOptions options) {
          options.cancellation = nullptr;
          return run(options, rendezvous).status();
        },
        [&] { rendezvous.Abort(lost); });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(status.message(), "task:1 is gone")) << status;
  }
}

// Answers nobody, until the call is cancelled.
class SilentStore final : public ParameterStore {
 public:
  void Call(ShardCall, std::vector<Tensor>, CancellationManager* cancellation, Done done) override {
    auto call = std::make_shared<Waiting>();
    call->done = std::move(done);
    const CancellationManager::Token token = cancellation->NewToken();
    const bool waits = cancellation->Register(
        token, [call, cancellation] { std::move(call->done)(cancellation->status()); });
    if (!waits) std::move(call->done)(cancellation->status());
  }

 private:
  struct Waiting {
    Done done;
  };
};

TEST_P(Cancellation, APullAndAPushThatNobodyAnswersEnd) {
  Scope s = Scope::NewRoot();
  Node* const reached = s.AddNode("_TestReached", {});
  const Scope after = s.WithControlDependencies({reached});
  const Output route = s.Constant(std::string("route"));
  after.WithOpName("pull").CallMulti(
      "_TandemPull", {route},
      {{"shard", 0}, {"program", "pull"}, {"Tout", std::vector<DataType>{kFloat32}}});
  after.WithOpName("push").AddNode("_TandemPush", {route, s.Constant(int64_t{3})},
                                   {{"shard", 0}, {"program", "push"}});
  ASSERT_TRUE(s.ok()) << s.status();
  SessionOptions options;
  options.parameter_store = std::make_shared<SilentStore>();
  const auto session = Session::Create(*s.graph(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  for (const char* node : {"pull", "push"}) {
    ExpectCancellable(**session, node);
    ExpectNamedAtDeadline(**session, node);
  }
}

// A session with SIM, whose queue "hold" holds; "queued" is computed there behind it, "copied"
// takes the result to the host, and "next" runs there after "hold".
std::unique_ptr<Session> OpenWithBusyDevice() {
  Scope s = Scope::NewRoot();
  const Scope sim = s.WithDevice("/device:SIM:0");
  Node* const hold = sim.WithOpName("hold").AddNode("_TestHold", {});
  const Output queued = sim.WithOpName("queued").Call(
      "RandomUniform", {s.Constant(Tensor::Vector<int32_t>({4}))}, {{"dtype", kFloat32}});
  s.WithDevice("/device:CPU:0").WithOpName("copied").Call("Neg", {queued});
  sim.WithControlDependencies({hold}).WithOpName("next").AddNode("_TestCount", {});
  EXPECT_TRUE(s.ok()) << s.status();
  const auto devices = DeviceSet::Create({{kCpu, 1}, {kSim, 1}});
  EXPECT_TRUE(devices.ok()) << devices.status();
  SessionOptions options;
  options.devices = *devices;
  auto session = Session::Create(*s.graph(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

TEST_P(Cancellation, KernelsAndCopiesBehindABusyDeviceEnd) {
  const auto session = OpenWithBusyDevice();
  for (int i = 0; i < 30; ++i) {
    Counted() = 0;
    ASSERT_EQ(RunAndCancel([&](const RunOptions& options) {
                return session->Run(options, {}, {"copied"}, {"hold", "next"}, nullptr).status();
              }),
              absl::AbortedError("enough"));
    EXPECT_EQ(Counted(), 0) << "what follows was begun after the step had been cancelled";
  }
  // The device's queue goes on as if nothing had been.
  const auto results = session->Run({}, {"copied"});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].shape(), Shape({4}));
}

TEST_P(Cancellation, ADeadlineNamesWhatABusyDeviceHoldsUp) {
  const auto session = OpenWithBusyDevice();
  RunOptions options;
  options.timeout = absl::Milliseconds(300);
  const absl::Status status = session->Run(options, {}, {"copied"}, {"hold"}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "hold")) << status;
}

}  // namespace
}  // namespace tandem
