// Sessions whose runs have learned where their values lie answer what sessions do that take all
// memory from the allocator, whatever shapes come, whatever is kept, and whoever runs at once.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

constexpr int64_t kColumns = 64;

std::unique_ptr<Session> Open(const Scope& scope, bool plan_memory, const std::string& device) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  SessionOptions options;
  options.devices = *DeviceSet::Create({{kCpu, 1}, {kSim, 1}});
  options.default_device = absl::StrCat("/device:", device, ":0");
  options.optimize.plan_memory = plan_memory;
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*scope.graph(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

Tensor Input(int64_t rows, float first) {
  Tensor x(kFloat32, Shape({rows, kColumns}));
  float value = first;
  for (float& element : x.MutableElements<float>()) {
    element = value;
    value = value > 1 ? -1 : value + 0.01f;
  }
  return x;
}

std::vector<float> Elements(const Tensor& tensor) {
  const auto elements = tensor.Elements<float>();
  return {elements.begin(), elements.end()};
}

// Products and activations in several branches, a variable that keeps one of the values, and one
// that is fetched from the middle.
Scope Branches() {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call(
      "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({-1, kColumns})}});
  Output sum = x;
  for (int branch = 0; branch < 3; ++branch) {
    Output value = x;
    for (int i = 0; i < 6; ++i) {
      value = s.Call("MatMul", {value, s.Call("MatMul", {x, value}, {{"transpose_a", true}})});
      value = s.Call(i % 2 == 0 ? "Tanh" : "Softmax", {value});
      // Shares the memory of its input.
      if (i == 3) value = s.Call("Identity", {value});
    }
    sum = s.WithOpName(absl::StrCat("sum", branch)).Call("AddV2", {sum, value});
  }
  const Output kept = s.WithOpName("kept").Call(
      "VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({-1, kColumns})}});
  s.WithOpName("keep").AddNode("AssignVariableOp", {kept, s.Call("Tanh", {sum})});
  s.WithOpName("read").Call("ReadVariableOp", {kept}, {{"dtype", kFloat32}});
  return s;
}

class MemoryPlans : public ::testing::TestWithParam<std::string> {};

TEST_P(MemoryPlans, ChangeNoResult) {
  const Scope s = Branches();
  const auto planned = Open(s, true, GetParam());
  const auto plain = Open(s, false, GetParam());
  // Larger ones than before, smaller ones, and again.
  const std::vector<int64_t> rows = {32, 32, 32, 32, 100, 100, 100, 7, 1, 32, 200, 200, 200, 100};
  std::vector<Tensor> fetched;
  std::vector<std::vector<float>> wanted;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Session::Feeds feeds = {{"x", Input(rows[i], 0.1f * static_cast<float>(i))}};
    const auto found = planned->Run(feeds, {"sum2", "sum0"}, {"keep"});
    const auto right = plain->Run(feeds, {"sum2", "sum0"}, {"keep"});
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_TRUE(right.ok()) << right.status();
    for (size_t j = 0; j < 2; ++j) {
      fetched.push_back((*found)[j]);
      wanted.push_back(Elements((*right)[j]));
    }
    const auto kept = planned->Run({}, {"read"});
    const auto right_kept = plain->Run({}, {"read"});
    ASSERT_TRUE(kept.ok() && right_kept.ok());
    fetched.push_back((*kept)[0]);
    wanted.push_back(Elements((*right_kept)[0]));
  }
  // Only now: what a run gave out must not be overwritten by later ones.
  for (size_t i = 0; i < fetched.size(); ++i) {
    EXPECT_TRUE(Elements(fetched[i]) == wanted[i]) << "value " << i;
  }
}

TEST_P(MemoryPlans, SurviveRunsThatFail) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call(
      "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({-1, kColumns})}});
  const Output other = s.WithOpName("other").Call(
      "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({-1, kColumns})}});
  Output value = x;
  for (int i = 0; i < 4; ++i) value = s.Call("Tanh", {s.Call("AddV2", {value, other})});
  s.WithOpName("y").Call("MatMul", {value, other}, {{"transpose_b", true}});
  const auto planned = Open(s, true, GetParam());
  const auto plain = Open(s, false, GetParam());
  for (int i = 0; i < 12; ++i) {
    // Rows that do not agree, from time to time.
    const Session::Feeds feeds = {{"x", Input(40, 0.1f)},
                                  {"other", Input(i % 3 == 1 ? 39 : 40, 0.3f)}};
    const auto found = planned->Run(feeds, {"y"});
    const auto right = plain->Run(feeds, {"y"});
    ASSERT_EQ(found.status().code(), right.status().code()) << i << ": " << found.status();
    if (!found.ok()) continue;
    EXPECT_TRUE(Elements((*found)[0]) == Elements((*right)[0])) << "run " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryPlans, ::testing::Values("CPU", "SIM"),
                         [](const auto& info) { return info.param; });

TEST(MemoryPlan, ServesRunsAtTheSameTime) {
  const Scope s = Branches();
  const auto planned = Open(s, true, "CPU");
  const auto plain = Open(s, false, "CPU");
  const auto train = [&](int thread) {
    for (int i = 0; i < 25; ++i) {
      const Session::Feeds feeds = {{"x", Input(20 + 10 * ((thread + i) % 3), 0.1f)}};
      const auto found = planned->Run(feeds, {"sum2"});
      const auto right = plain->Run(feeds, {"sum2"});
      ASSERT_TRUE(found.ok() && right.ok());
      EXPECT_TRUE(Elements((*found)[0]) == Elements((*right)[0])) << thread << ", " << i;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(train, i);
  for (std::thread& thread : threads) thread.join();
}

// How often a run that has been repeated takes memory.
int64_t AllocationsOfAWarmRun(const Scope& scope, bool plan_memory) {
  const auto session = Open(scope, plan_memory, "CPU");
  const Tensor x = Input(256, 0.5f);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(session->Run({{"x", x}}, {"y"}).ok());
  const int64_t before = HostAllocator()->stats().allocations;
  EXPECT_TRUE(session->Run({{"x", x}}, {"y"}).ok());
  return HostAllocator()->stats().allocations - before;
}

TEST(MemoryPlan, AWarmRunTakesOneBlock) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", Shape({256, kColumns})}});
  Output value = x;
  for (int i = 0; i < 10; ++i) {
    value = s.Call("MatMul", {s.Call("MatMul", {value, x}, {{"transpose_b", true}}), x});
  }
  s.WithOpName("y").Call("Sum", {value, s.Constant(Tensor::Scalar<int32_t>(0))});
  const int64_t planned = AllocationsOfAWarmRun(s, true);
  const int64_t plain = AllocationsOfAWarmRun(s, false);
  // The products of a run lie in one block; what else it takes, it takes without a plan, too.
  EXPECT_EQ(plain - planned, 20 - 1);
}

}  // namespace
}  // namespace tandem
