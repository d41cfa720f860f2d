// A kernel to which the system grants no memory fails its step, wherever it runs, and nothing else.
// Here the kernels throw what a container would; tests/programs has a real one.
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/graph/function_body.h"
#include "core/graph/scope.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "gtest/gtest.h"
#include "runtime/device/sim/sim_device.h"
#include "runtime/session/session.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

absl::Status HungryCompute(KernelContext&) { throw std::bad_alloc(); }
TANDEM_OP("_TestHungry")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Cpu(Function(HungryCompute));

absl::Status TooLongCompute(KernelContext&) {
  std::vector<float> scratch;
  scratch.reserve(scratch.max_size() + 1);
  return absl::OkStatus();
}
TANDEM_OP("_TestTooLong")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Cpu(Function(TooLongCompute));

// One unit of many finds no memory; which thread has it is left to chance.
absl::Status HungryLoopCompute(KernelContext& c) {
  c.parallel().For(64, /*nanoseconds_per_unit=*/1e6, [](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i == 17) throw std::bad_alloc();
    }
  });
  return absl::OkStatus();
}
TANDEM_OP("_TestHungryLoop")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Cpu(Function(HungryLoopCompute));

class HungryStart final : public AsyncKernel {
 public:
  void Start(KernelContext&, Done done) override { throw std::bad_alloc(); }
};
TANDEM_OP("_TestHungryStart")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Cpu(Make<HungryStart>());

class OutOfMemory : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kernels, OutOfMemory,
                         ::testing::Values("_TestHungry", "_TestTooLong", "_TestHungryLoop",
                                           "_TestHungryStart"),
                         [](const auto& info) { return info.param.substr(1); });

std::unique_ptr<Session> Open(const Scope& scope) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  SessionOptions options;
  const auto devices = DeviceSet::Create({{kCpu, 1}, {kSim, 1}});
  EXPECT_TRUE(devices.ok()) << devices.status();
  options.devices = *devices;
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*scope.graph(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

void ExpectNamedFailure(Session& session, const std::string& fetch) {
  const absl::Status status = session.Run({}, {fetch}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "no memory")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "{{node hungry}}")) << status;
}

TEST_P(OutOfMemory, FailsTheStepAndTheNextOneRuns) {
  for (const char* device : {"/device:CPU:0", "/device:SIM:0"}) {
    SCOPED_TRACE(device);
    Scope s = Scope::NewRoot();
    // No constant: it would be folded.
    const Output x = s.WithOpName("x").Call("PlaceholderWithDefault",
                                            {s.Constant(Tensor::Vector<float>({1, 2}))},
                                            {{"shape", PartialShape({2})}});
    const Output hungry = s.WithDevice(device).WithOpName("hungry").Call(GetParam(), {x});
    s.WithOpName("y").Call("Identity", {hungry});
    s.WithDevice(device).WithOpName("modest").Call("Neg", {x});
    auto session = Open(s);
    ExpectNamedFailure(*session, "y");
    ExpectNamedFailure(*session, "y");
    const auto modest = session->Run({}, {"modest"});
    ASSERT_TRUE(modest.ok()) << modest.status();
    EXPECT_EQ((*modest)[0].Elements<float>()[1], -2);
  }
}

// Folding meets the kernel first, leaves the node alone, and the run says what is wrong.
TEST_P(OutOfMemory, WhileFoldingLeavesTheErrorToTheRun) {
  Scope s = Scope::NewRoot();
  const Output hungry = s.WithOpName("hungry").Call(GetParam(), {1.0f});
  s.WithOpName("y").Call("Neg", {hungry});
  auto session = Open(s);
  ExpectNamedFailure(*session, "y");
}

TEST_P(OutOfMemory, InAFunctionFailsTheCall) {
  Scope s = Scope::NewRoot();
  Scope body = Scope::NewRoot();
  const Output arg = FunctionArg(body, 0, kFloat32);
  FunctionResult(body, 0, body.WithOpName("hungry").Call(GetParam(), {arg}));
  ASSERT_TRUE(body.ok()) << body.status();
  ASSERT_TRUE(DefineFunction("f", *body.graph(), {}, &s.graph()->functions()).ok());
  s.WithOpName("y").Call("PartitionedCall", {1.0f},
                         {{"f", FunctionRef{"f", {}}}, {"Tout", std::vector<DataType>{kFloat32}}});
  auto session = Open(s);
  ExpectNamedFailure(*session, "y");
}

// Folding computes, so it holds a token.
absl::Status HoldsToken(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, Shape({})));
  output->MutableElements<bool>()[0] = ThisThreadHoldsRunToken();
  return absl::OkStatus();
}
TANDEM_OP("_TestHoldsToken")
    .Inputs("input:float32")
    .Outputs("output:bool")
    .Shape([](ShapeContext& c) { return c.SetOutput(0, PartialShape({})); })
    .Cpu(Function(HoldsToken));

TEST(Folding, HoldsARunToken) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("_TestHoldsToken", {1.0f});
  auto session = Open(s);
  const auto held = session->Run({}, {"y"});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE((*held)[0].ScalarValue<bool>());
}

}  // namespace
}  // namespace tandem
