#include "core/passes/spread_loops.h"

#include "absl/strings/match.h"
#include "core/graph/test_loop.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using testing::AddLoop;
using testing::EnterLoop;

std::string TaskName(int task) {
  return "/job:worker/replica:0/task:" + std::string(1, static_cast<char>('0' + task));
}
std::string CpuOf(int task) { return TaskName(task) + "/device:CPU:0"; }

class SpreadLoopsTest : public ::testing::Test {
 protected:
  Scope On(int task) { return root_.WithDevice(CpuOf(task)); }

  // Nodes run where they ask for, and else in the first task.
  absl::StatusOr<SpreadLoopsResult> TrySpread() {
    EXPECT_TRUE(root_.ok()) << root_.status();
    for (Node* node : root_.graph()->nodes()) {
      node->set_device(node->requested_device().empty() ? CpuOf(0) : node->requested_device());
    }
    return SpreadLoops(*root_.graph());
  }
  SpreadLoopsResult Spread() {
    absl::StatusOr<SpreadLoopsResult> result = TrySpread();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : SpreadLoopsResult();
  }

  // while (i < 5) i = body(i).
  std::vector<Output> Count(const Scope& scope, const std::string& frame,
                            const std::function<Output(Output)>& body) {
    return AddLoop(
        scope, frame, {root_.Constant(0)},
        [&](const std::vector<Output>& values) {
          return scope.Call("Less", {values[0], 5});
        },
        [&](const std::vector<Output>& values) { return std::vector<Output>{body(values[0])}; });
  }

  Scope root_ = Scope::NewRoot();
};

TEST_F(SpreadLoopsTest, ALoopInOneTaskIsLeftAlone) {
  const std::vector<Output> ends = Count(On(1), "loop", [&](const Output& i) {
    return On(1).Call("AddV2", {i, 1});
  });
  On(0).Call("Neg", {ends[0]});
  const int nodes = root_.graph()->num_nodes();
  const SpreadLoopsResult result = Spread();
  EXPECT_TRUE(result.rounds.empty());
  EXPECT_EQ(root_.graph()->num_nodes(), nodes);
  EXPECT_EQ(result.frames.frames.size(), 2u);
}

TEST_F(SpreadLoopsTest, TasksThatTakePartGetRoundsThatAskTheLoopsCondition) {
  Count(On(0), "loop", [&](const Output& i) { return On(1).Call("AddV2", {i, 1}); });
  const SpreadLoopsResult result = Spread();
  ASSERT_EQ(result.rounds.size(), 2u);
  for (const int task : {0, 1}) {
    const Node* const merge = result.rounds.at({1, TaskName(task)});
    EXPECT_TRUE(merge->Is("Merge"));
    EXPECT_EQ(merge->device(), CpuOf(task));
    const Node* const enter = merge->input(0).node;
    ASSERT_TRUE(enter->Is("Enter"));
    EXPECT_EQ(*enter->Attr<std::string>("frame_name"), "loop");
    EXPECT_EQ(*enter->Attr<int64_t>("parallel_iterations"), 10);
    EXPECT_TRUE(enter->input(0).node->Is("Const"));
    const Node* const next = merge->input(1).node;
    ASSERT_TRUE(next->Is("NextIteration"));
    const Output goes_on = next->input(0);
    ASSERT_TRUE(goes_on.node->Is("Switch"));
    EXPECT_EQ(goes_on.index, 1);
    EXPECT_EQ(goes_on.node->input(0).node, merge);
    EXPECT_TRUE(goes_on.node->input(1).node->Is("LoopCond"));
    EXPECT_EQ(goes_on.node->device(), CpuOf(task));
    EXPECT_EQ(result.frames.output_frame[static_cast<size_t>(merge->id())], 1);
  }
}

TEST_F(SpreadLoopsTest, WhoDecidesNeedsNoRoundsUnlessItReceivesSomething) {
  const Output size = On(0).Call("Placeholder", {}, {{"dtype", kInt32}, {"shape", Shape()}});
  Count(On(0), "loop", [&](const Output& i) {
    On(1).WithOpName("there").Call("AddV2", {i, EnterLoop(On(1), "loop", size)});
    return On(0).Call("AddV2", {i, 1});
  });
  const SpreadLoopsResult result = Spread();
  ASSERT_EQ(result.rounds.size(), 1u);
  EXPECT_EQ(result.rounds.begin()->first.second, TaskName(1));
}

TEST_F(SpreadLoopsTest, EveryTaskEntersForItself) {
  const Output size = On(0).Call("Placeholder", {}, {{"dtype", kInt32}, {"shape", Shape()}});
  const Output both = EnterLoop(On(0).WithOpName("both"), "loop", size);
  const Output there = EnterLoop(On(0).WithOpName("there"), "loop", size);
  Count(On(0), "loop", [&](const Output& i) {
    const Output a = On(1).WithOpName("a").Call("AddV2", {i, both});
    const Output b = On(1).WithOpName("b").Call("AddV2", {a, there});
    return On(0).WithOpName("c").Call("AddV2", {b, both});
  });
  Spread();
  const Graph& graph = *root_.graph();
  const Node* const copy = graph.FindNode("a")->input(1).node;
  EXPECT_TRUE(copy->Is("Enter"));
  EXPECT_NE(copy, both.node);
  EXPECT_EQ(copy->device(), CpuOf(1));
  EXPECT_TRUE(*copy->Attr<bool>("is_constant"));
  EXPECT_EQ(copy->input(0), size);
  EXPECT_EQ(graph.FindNode("c")->input(1).node, both.node);
  EXPECT_EQ(both.node->device(), CpuOf(0));
  EXPECT_EQ(graph.FindNode("b")->input(1).node, there.node);
  EXPECT_EQ(there.node->device(), CpuOf(1));
}

TEST_F(SpreadLoopsTest, TheEndsOfARoundAreWhereItsValuesAre) {
  const std::vector<Output> ends = Count(On(0), "loop", [&](const Output& i) {
    return On(1).Call("AddV2", {i, 1});
  });
  Node* const exit = ends[0].node;
  Node* const merge = exit->input(0).node->input(0).node;
  Node* const next = merge->input(1).node;
  for (Node* node : root_.graph()->nodes()) {
    if (node->requested_device().empty()) node->set_requested_device(CpuOf(0));
  }
  ASSERT_NE(next, nullptr);
  next->set_requested_device(CpuOf(1));
  exit->set_requested_device(CpuOf(1));
  merge->input(0).node->set_requested_device(CpuOf(1));
  Spread();
  EXPECT_EQ(next->device(), CpuOf(0));
  EXPECT_EQ(exit->device(), CpuOf(0));
  EXPECT_EQ(merge->input(0).node->device(), CpuOf(0));
}

TEST_F(SpreadLoopsTest, RoundsOfAnInnerLoopBeginInThoseOfTheOuterOne) {
  Count(On(0), "outer", [&](const Output& i) {
    const std::vector<Output> inner = AddLoop(
        On(0), "inner", {i},
        [&](const std::vector<Output>& values) {
          return On(0).Call("Less", {values[0], 9});
        },
        [&](const std::vector<Output>& values) {
          return std::vector<Output>{On(1).Call("AddV2", {values[0], 1})};
        });
    return On(0).Call("AddV2", {inner[0], 1});
  });
  const SpreadLoopsResult result = Spread();
  ASSERT_EQ(result.frames.frames.size(), 3u);
  EXPECT_EQ(result.frames.frames[2].parent, 1);
  for (const int task : {0, 1}) {
    const Node* const outer = result.rounds.at({1, TaskName(task)});
    const Node* const inner = result.rounds.at({2, TaskName(task)});
    EXPECT_EQ(inner->input(0).node->input(0).node, outer);
  }
}

TEST_F(SpreadLoopsTest, ALoopWithoutAConditionIsRefused) {
  const Output x = On(0).Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", Shape()}});
  On(0).Call("Exit", {On(1).Call("Neg", {On(0).Call("Enter", {x}, {{"frame_name", "loop"}})})});
  const Output y = On(0).Call("Enter", {x}, {{"frame_name", "loop"}});
  On(0).Call("Exit", {On(0).Call("Neg", {y})});
  const absl::Status status = TrySpread().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "no LoopCond")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "'loop'")) << status;
}

TEST_F(SpreadLoopsTest, AValueOfSomeRoundsOnlyCannotCross) {
  const Output x = On(0).Call("Placeholder", {}, {{"dtype", kInt32}, {"shape", Shape()}});
  const Output first =
      On(0).WithOpName("first").Call("Neg", {On(0).Call("Enter", {x}, {{"frame_name", "loop"}})});
  Count(On(0), "loop", [&](const Output& i) {
    On(1).WithOpName("there").Call("Neg", {first});
    return On(0).Call("AddV2", {i, 1});
  });
  const absl::Status status = TrySpread().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(status.message(), "'first'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "some of its rounds")) << status;
}

}  // namespace
}  // namespace tandem
