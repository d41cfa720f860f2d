// What TensorFlow's answers (tests/golden) do not show of variables: whose memory is written, what
// readers see, destroyed variables, gradients, and rows that several threads update. All of it on a
// CPU and on a device with memory of its own.
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/graph/scope.h"
#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "kernels/state/variables.h"
#include "runtime/device/device.h"
#include "runtime/session/session.h"

namespace tandem::state {
namespace {

using Floats = std::vector<float>;

Output Handle(const Scope& s, const std::string& name, PartialShape shape,
              DataType dtype = kFloat32) {
  return s.WithOpName(name).Call("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}});
}

Output Reference(const Scope& s, const std::string& name, PartialShape shape) {
  return s.WithOpName(name).Call("VariableV2", {}, {{"dtype", kFloat32}, {"shape", shape}});
}

Output Read(const Scope& s, const std::string& name, const Output& handle) {
  return s.WithOpName(name).Call("ReadVariableOp", {handle}, {{"dtype", kFloat32}});
}

class VariablesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void Open() {
    ASSERT_TRUE(s.ok()) << s.status();
    const auto devices = DeviceSet::Create({{kCpu, 1}, {kSim, 1}});
    ASSERT_TRUE(devices.ok()) << devices.status();
    SessionOptions options;
    options.devices = *devices;
    options.default_device = "/job:localhost/replica:0/task:0/device:" + GetParam() + ":0";
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*s.graph(), options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  void Do(const std::string& target, const Session::Feeds& feeds = {}) {
    const auto result = session_->Run(feeds, {}, {target});
    ASSERT_TRUE(result.ok()) << target << ": " << result.status();
  }
  absl::Status Fails(const std::string& target, const Session::Feeds& feeds = {}) {
    return session_->Run(feeds, {}, {target}).status();
  }
  Tensor Fetch(const std::string& name, const Session::Feeds& feeds = {}) {
    const auto result = session_->Run(feeds, {name});
    EXPECT_TRUE(result.ok()) << name << ": " << result.status();
    return result.ok() ? (*result)[0] : Tensor::Scalar(-1.0f);
  }
  Floats Values(const Tensor& tensor) {
    const auto elements = tensor.Elements<float>();
    return Floats(elements.begin(), elements.end());
  }

  Scope s = Scope::NewRoot();

 private:
  std::unique_ptr<Session> session_;
};

TEST_P(VariablesTest, AnUpdateLeavesWhatWasReadBefore) {
  const Output v = Handle(s, "v", {3});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, {1.f, 2.f, 3.f}});
  Read(s, "read", v);
  s.WithOpName("add").AddNode("AssignAddVariableOp", {v, {10.f, 10.f, 10.f}});
  s.WithOpName("step").AddNode("ResourceApplyGradientDescent", {v, 0.5f, {2.f, 2.f, 2.f}});
  s.WithOpName("rows").AddNode("ResourceScatterUpdate", {v, {0}, {7.f}});
  Open();
  Do("init");
  const Tensor first = Fetch("read");
  Do("add");
  const Tensor second = Fetch("read");
  Do("step");
  const Tensor third = Fetch("read");
  Do("rows");
  EXPECT_EQ(Values(first), (Floats{1, 2, 3}));
  EXPECT_EQ(Values(second), (Floats{11, 12, 13}));
  EXPECT_EQ(Values(third), (Floats{10, 11, 12}));
  EXPECT_EQ(Values(Fetch("read")), (Floats{7, 11, 12}));
}

TEST_P(VariablesTest, AnUpdateWritesInPlaceWhenNobodyHoldsTheValue) {
  if (GetParam() != kCpu) return;  // What is fetched from another memory is a copy.
  const Output v = Handle(s, "v", {3});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, {1.f, 2.f, 3.f}});
  Read(s, "read", v);
  s.WithOpName("step").AddNode("ResourceApplyGradientDescent", {v, 0.5f, {2.f, 2.f, 2.f}});
  Open();
  Do("init");
  const void* const before = Fetch("read").data();
  Do("step");
  EXPECT_EQ(Fetch("read").data(), before);
}

TEST_P(VariablesTest, LookupsOfAFewRowsKeepNoUpdateFromWritingInPlace) {
  if (GetParam() != kCpu) return;  // As above.
  const Output v = Handle(s, "v", {4096, 16});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, s.Call("Fill", {{4096, 16}, 1.f})});
  Read(s, "read", v);
  std::vector<int64_t> indices(256);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i * 16);
  const Tensor rows = Tensor::Vector<int64_t>(absl::MakeConstSpan(indices));
  s.WithOpName("lookup").Call("ResourceGather", {v, rows}, {{"dtype", kFloat32}});
  s.WithOpName("add").AddNode("ResourceScatterAdd", {v, {5}, s.Call("Fill", {{1, 16}, 1.f})});
  Open();
  Do("init");
  const void* const before = Fetch("read").data();
  std::thread looks([&] {
    for (int i = 0; i < 500; ++i) EXPECT_EQ(Values(Fetch("lookup"))[0], 1);
  });
  for (int i = 0; i < 500; ++i) {
    Do("add");
    // A copy would stay.
    if (i % 100 == 99) {
      EXPECT_EQ(Fetch("read").data(), before);
    }
  }
  looks.join();
  EXPECT_EQ(Values(Fetch("read"))[5 * 16], 501);
}

TEST_P(VariablesTest, AnAssignedConstantStaysTheConstant) {
  const Output v = Handle(s, "v", {2});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, s.WithOpName("c").Constant({1.f, 2.f})});
  s.WithOpName("add").AddNode("AssignAddVariableOp", {v, {10.f, 10.f}});
  Read(s, "read", v);
  Open();
  for (int i = 0; i < 2; ++i) {
    Do("init");
    Do("add");
    Do("add");
    EXPECT_EQ(Values(Fetch("read")), (Floats{21, 22}));
    EXPECT_EQ(Values(Fetch("c")), (Floats{1, 2}));
  }
}

TEST_P(VariablesTest, AFedTensorStaysTheCallers) {
  const Output v = Handle(s, "v", {2});
  const Output x = s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, x});
  s.WithOpName("add").AddNode("AssignAddVariableOp", {v, {10.f, 10.f}});
  Read(s, "read", v);
  Open();
  Tensor mine = Tensor::Vector<float>({1, 2});
  Do("init", {{"x", mine}});
  mine.MutableElements<float>()[0] = 100;
  Do("add");
  EXPECT_EQ(Values(mine), (Floats{100, 2}));
  EXPECT_EQ(Values(Fetch("read")), (Floats{11, 12}));
}

TEST_P(VariablesTest, ADestroyedVariableCanBeMadeAgain) {
  const Output v = Handle(s, "v", {1});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, {1.f}});
  s.WithOpName("destroy").AddNode("DestroyResourceOp", {v});
  Read(s, "read", v);
  Open();
  Do("init");
  Do("destroy");
  EXPECT_EQ(Fails("read").code(), absl::StatusCode::kFailedPrecondition);
  Do("init");
  EXPECT_EQ(Values(Fetch("read")), (Floats{1}));
}

// Nodes without inputs run before all others; their errors are those of any node.
TEST_P(VariablesTest, AVariableOfAnotherTypeFailsItsRunAndNoLaterOne) {
  const auto reference = [this](const char* name, DataType dtype) {
    return s.WithOpName(name).Call(
        "VariableV2", {}, {{"dtype", dtype}, {"shape", Shape({1})}, {"shared_name", "shared"}});
  };
  const Output floats = reference("floats", kFloat32);
  const Output doubles = reference("doubles", kFloat64);
  s.WithOpName("init").AddNode("Assign", {floats, {1.f}});
  s.WithOpName("read").Call("Identity", {floats});
  s.WithOpName("sum").Call(
      "AddV2", {s.Call("Cast", {floats}, {{"DstT", kFloat64}}), s.Call("Identity", {doubles})});
  Open();
  Do("init");
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Fails("sum");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("doubles"), absl::string_view::npos) << status;
    EXPECT_EQ(Values(Fetch("read")), (Floats{1}));
  }
}

TEST_P(VariablesTest, AnUninitializedVariableIsNamed) {
  const Output v = Handle(s, "weights", {1});
  Read(s, "read", v);
  Open();
  const absl::Status status = Fails("read");
  EXPECT_NE(status.message().find("weights"), std::string::npos) << status;
}

TEST_P(VariablesTest, OneNameWithTwoTypesIsRefused) {
  const Output a = s.WithOpName("a").Call(
      "VariableV2", {}, {{"dtype", kFloat32}, {"shape", PartialShape({1})}, {"shared_name", "v"}});
  const Output b = s.WithOpName("b").Call(
      "VariableV2", {}, {{"dtype", kInt32}, {"shape", PartialShape({1})}, {"shared_name", "v"}});
  s.WithOpName("init_a").AddNode("Assign", {a, {1.f}});
  s.WithOpName("init_b").AddNode("Assign", {b, {1}});
  Open();
  Do("init_a");
  EXPECT_EQ(Fails("init_b").code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(VariablesTest, AnOptimizerRefusesOneVariableInTwoRoles) {
  const Output v = Handle(s, "v", {1});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, {1.f}});
  s.WithOpName("step").AddNode("ResourceApplyMomentum", {v, v, 0.1f, {1.f}, 0.9f});
  Open();
  Do("init");
  EXPECT_EQ(Fails("step").code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(VariablesTest, AFailedUpdateChangesNothing) {
  const Output v = Handle(s, "v", {2, 1});
  const Output slot = Handle(s, "slot", {2, 1});
  const Output x = s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kInt32}});
  s.WithOpName("init_v").AddNode("AssignVariableOp", {v, {{1.f}, {2.f}}});
  s.WithOpName("init_slot").AddNode("AssignVariableOp", {slot, {{1.f}, {2.f}}});
  s.WithOpName("step").AddNode("ResourceSparseApplyMomentum",
                               {v, slot, 0.1f, {{1.f}, {1.f}}, x, 0.9f});
  Read(s, "read_v", v);
  Read(s, "read_slot", slot);
  Open();
  Do("init_v");
  Do("init_slot");
  const Session::Feeds bad = {{"x", Tensor::Vector<int32_t>({0, 2})}};
  EXPECT_EQ(Fails("step", bad).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Values(Fetch("read_v")), (Floats{1, 2}));
  EXPECT_EQ(Values(Fetch("read_slot")), (Floats{1, 2}));
}

TEST_P(VariablesTest, ReferencesPassThroughChainsOfUpdates) {
  const Output v = Reference(s, "v", {2});
  const Output init = s.WithOpName("init").Call("Assign", {v, {1.f, 2.f}});
  const Output added = s.WithOpName("added").Call("AssignAdd", {init, {10.f, 10.f}});
  s.WithOpName("stepped").Call("ApplyGradientDescent", {added, 1.f, {1.f, 1.f}});
  Open();
  EXPECT_EQ(Values(Fetch("stepped")), (Floats{10, 11}));
  EXPECT_EQ(Values(Fetch("v")), (Floats{10, 11}));
}

TEST_P(VariablesTest, TheGradientOfAReadIsThatOfTheValue) {
  const Output v = Handle(s, "v", {2});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, {3.f, 5.f}});
  const Output y = s.Call("Square", {Read(s, "read", v)});
  ASSERT_TRUE(s.ok()) << s.status();
  const auto gradients = AddGradients(s.graph(), {y}, {v});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_TRUE((*gradients)[0].exists());
  s.WithOpName("gradient").Call("Identity", {(*gradients)[0].values});
  Open();
  Do("init");
  EXPECT_EQ(Values(Fetch("gradient")), (Floats{6, 10}));
}

TEST_P(VariablesTest, TheGradientOfAGatherHasARowForEachIndex) {
  const Output v = Handle(s, "v", PartialShape::Unknown());
  const Output x = s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kInt32}});
  s.WithOpName("init").AddNode("AssignVariableOp", {v, {{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}});
  const Output rows = s.Call("ResourceGather", {v, x}, {{"dtype", kFloat32}});
  const Output y = s.Call("Square", {rows});
  ASSERT_TRUE(s.ok()) << s.status();
  const auto gradients = AddGradients(s.graph(), {y}, {v});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_TRUE((*gradients)[0].is_sparse());
  s.WithOpName("values").Call("Identity", {(*gradients)[0].values});
  s.WithOpName("indices").Call("Identity", {(*gradients)[0].indices});
  s.WithOpName("shape").Call("Identity", {(*gradients)[0].dense_shape});
  Open();
  Do("init");
  const Session::Feeds feeds = {{"x", Tensor::FromValues<int32_t>({1, 2}, {2, 0})}};
  const Tensor values = Fetch("values", feeds);
  EXPECT_EQ(values.shape(), Shape({2, 2}));
  EXPECT_EQ(Values(values), (Floats{10, 12, 2, 4}));
  EXPECT_EQ(Fetch("indices", feeds).Elements<int32_t>(), (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(Fetch("shape", feeds).Elements<int32_t>(), (std::vector<int32_t>{3, 2}));
}

INSTANTIATE_TEST_SUITE_P(Devices, VariablesTest, ::testing::Values(kCpu, kSim),
                         [](const auto& info) { return info.param; });

// Runs the parts of a loop last first: what depends on their order shows.
class BackwardsRunner final : public ParallelRunner {
 public:
  int parallelism() const override { return 5; }
  void For(int64_t total, double, Body body) override {
    parts_ = total;
    for (int64_t i = total; i-- > 0;) body(i, i + 1);
  }
  int64_t parts() const { return parts_; }

 private:
  int64_t parts_ = 0;
};

TEST(ForEachRow, SeesEveryRowOnceAndEqualOnesInOrder) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 1000; ++i) rows.push_back(i * 7919 % 100);
  BackwardsRunner runner;
  std::vector<int> calls(rows.size(), 0);
  std::vector<int64_t> last(100, -1);
  ForEachRow(runner, rows, /*nanoseconds_per_row=*/1e6, [&](int64_t i, int64_t row) {
    ++calls[static_cast<size_t>(i)];
    EXPECT_EQ(row, rows[static_cast<size_t>(i)]);
    EXPECT_GT(i, last[static_cast<size_t>(row)]) << "row " << row << " is out of order";
    last[static_cast<size_t>(row)] = i;
  });
  EXPECT_GT(runner.parts(), 1);
  EXPECT_EQ(calls, std::vector<int>(rows.size(), 1));
}

}  // namespace
}  // namespace tandem::state
