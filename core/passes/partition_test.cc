#include "core/passes/partition.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "core/kernel/rendezvous_key.h"
#include "core/passes/partition_test_util.h"
#include "gtest/gtest.h"
#include "runtime/rendezvous/local_rendezvous.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

using testing::CpuOf;
using testing::Incarnations;
using testing::PartitionRunTest;
using testing::PartitionTest;
using testing::TaskName;

TEST_F(PartitionTest, OneTaskIsLeftWhole) {
  On(0).WithOpName("y").Call("Neg", {On(0).WithOpName("x").Constant(1.0f)});
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 1u);
  EXPECT_EQ(partitions[0].task, TaskName(0));
  EXPECT_EQ(partitions[0].graph.num_nodes(), 2);
}

TEST_F(PartitionTest, AValueIsSentOnceToEachTask) {
  const Output x = On(0).WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}});
  On(1).WithOpName("a").Call("Neg", {x});
  On(1).WithOpName("b").Call("Mul", {x, x});
  On(0).WithOpName("c").Call("Neg", {x});
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 2u);
  const std::vector<Node*> sends = OfType(partitions[0].graph, "_Send");
  const std::vector<Node*> receives = OfType(partitions[1].graph, "_Recv");
  ASSERT_EQ(sends.size(), 1u);
  ASSERT_EQ(receives.size(), 1u);
  for (const Node* end : {sends[0], receives[0]}) {
    EXPECT_EQ(*end->Attr<std::string>("tensor_name"), "edge_0_x");
    EXPECT_EQ(*end->Attr<std::string>("send_device"), CpuOf(0));
    EXPECT_EQ(*end->Attr<int64_t>("send_device_incarnation"), 0xaa);
    EXPECT_EQ(*end->Attr<std::string>("recv_device"), CpuOf(1));
    EXPECT_FALSE(*end->Attr<bool>("client_terminated"));
  }
  EXPECT_EQ(sends[0]->device(), CpuOf(0));
  EXPECT_EQ(receives[0]->requested_device(), CpuOf(1));
  EXPECT_EQ(partitions[0].graph.num_nodes(), 3);  // x, c, _Send
  EXPECT_EQ(partitions[1].graph.num_nodes(), 3);  // _Recv, a, b
  EXPECT_EQ(partitions[1].graph.FindNode("b")->input(1).node, receives[0]);
}

TEST_F(PartitionTest, EachTaskHasItsOwnConstants) {
  const Output one = On(0).WithOpName("one").Constant(1.0f);
  On(0).WithOpName("a").Call("Neg", {one});
  On(1).WithOpName("b").Call("Neg", {one});
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 2u);
  EXPECT_EQ(OfType(partitions[0].graph, "_Send").size(), 0u);
  const Node* const copy = partitions[1].graph.FindNode("one");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->device(), CpuOf(1));
  EXPECT_EQ(partitions[0].graph.FindNode("one")->device(), CpuOf(0));
}

TEST_F(PartitionTest, AControlEdgeTravelsAsASignal) {
  Node* const before = On(0).WithOpName("before").AddNode("NoOp", {});
  On(1).WithOpName("after").WithControlDependencies({before}).AddNode("NoOp", {});
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 2u);
  const std::vector<Node*> sends = OfType(partitions[0].graph, "_Send");
  ASSERT_EQ(sends.size(), 1u);
  const Node* const signal = sends[0]->input(0).node;
  EXPECT_TRUE(signal->Is("Const"));
  ASSERT_EQ(signal->control_inputs().size(), 1u);
  EXPECT_EQ(signal->control_inputs()[0]->name(), "before");
  const Node* const after = partitions[1].graph.FindNode("after");
  ASSERT_EQ(after->control_inputs().size(), 1u);
  EXPECT_TRUE(after->control_inputs()[0]->Is("Identity"));
  EXPECT_TRUE(after->control_inputs()[0]->input(0).node->Is("_Recv"));
}

TEST_F(PartitionTest, ReceiversKnowWhetherSomethingDeadMayCome) {
  const Output x = On(0).Call("Placeholder", {}, {{"dtype", kFloat32}});
  const Output pred = On(0).Call("Placeholder", {}, {{"dtype", kBool}, {"shape", Shape()}});
  On(1).WithOpName("alive").Call("Neg", {x});
  On(1).WithOpName("either").Call("Neg", {On(0).Call("Abs", {On(0).Call("Switch", {x, pred})})});
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 2u);
  const Graph& graph = partitions[1].graph;
  const bool* const alive = graph.FindNode("alive")->input(0).node->Attr<bool>("_alive");
  ASSERT_NE(alive, nullptr);
  EXPECT_TRUE(*alive);
  EXPECT_EQ(graph.FindNode("either")->input(0).node->Attr<bool>("_alive"), nullptr);
}

TEST_F(PartitionTest, WhatALoopLetsOutMayBeSent) {
  const Output start = On(0).Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", Shape()}});
  const Output enter = On(0).Call("Enter", {start}, {{"frame_name", "loop"}});
  On(1).Call("Neg", {On(0).Call("Exit", {enter})});
  EXPECT_EQ(Cut().size(), 2u);
}

TEST_F(PartitionTest, AHandleStaysInItsTask) {
  const Output variable =
      On(0).Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", Shape({2})}});
  On(1).WithOpName("init").Call("VarIsInitializedOp", {variable});
  for (Node* node : root_.graph()->nodes()) {
    node->set_device(CpuOf(node->name() == "init" ? 1 : 0));
  }
  const absl::Status status = PartitionGraph(Incarnations(), *root_.graph()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(status.message(), "'init'")) << status;
}

TEST_F(PartitionTest, EveryNodeMustBePlaced) {
  root_.WithOpName("x").AddNode("NoOp", {});
  EXPECT_EQ(PartitionGraph(Incarnations(), *root_.graph()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Builds one graph twice: over two tasks, and for one.
void BuildPingPong(const Scope& near, const Scope& far) {
  const Output x = near.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}});
  const Output there = far.Call("Mul", {x, 3.0f});
  Node* const between = far.WithControlDependencies({there.node}).AddNode("NoOp", {});
  const Output back = near.WithControlDependencies({between}).Call("AddV2", {there, x});
  far.WithOpName("far").Call("Sub", {back, there});
  near.WithOpName("near").Call("Neg", {back});
}

TEST_F(PartitionRunTest, GivesWhatTheWholeGraphGives) {
  BuildPingPong(On(0), On(1));
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 2u);
  Scope whole = Scope::NewRoot();
  BuildPingPong(whole, whole);
  const auto session = Session::Create(*whole.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  const Session::Feeds feeds = {{"x", Tensor::Vector<float>({1, -2, 0.5f})}};
  const auto wanted = (*session)->Run(feeds, {"near", "far"});
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  Results results = RunTogether(partitions, feeds, {"near", "far"});
  EXPECT_EQ(AttrValue(results["near"]), AttrValue((*wanted)[0]));
  EXPECT_EQ(AttrValue(results["far"]), AttrValue((*wanted)[1]));
}

TEST_F(PartitionRunTest, ConditionalsMaySpanTasks) {
  const Output x = On(0).WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}});
  const Output pred =
      On(0).WithOpName("pred").Call("Placeholder", {}, {{"dtype", kBool}, {"shape", Shape()}});
  const std::vector<Output> branches = On(0).CallMulti("Switch", {x, pred});
  ASSERT_EQ(branches.size(), 2u) << root_.status();
  const Output taken_if_false = On(1).Call("Mul", {branches[0], 10.0f});
  const Output taken_if_true = On(1).Call("Mul", {branches[1], 100.0f});
  // Dead or alive by a control edge alone.
  const Output signalled =
      On(0).WithControlDependencies({taken_if_true.node}).Call("Identity", {pred});
  const Output text_if_true = On(0).Call("Cast", {signalled}, {{"DstT", kFloat32}});
  On(0).WithOpName("sum").Call("Merge", {On(0).Call("Neg", {taken_if_false}), taken_if_true});
  On(0).WithOpName("by_control").Call("Merge", {text_if_true, On(0).Call("Neg", {branches[0]})});
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 2u);
  for (const bool value : {false, true}) {
    Results results =
        RunTogether(partitions, {{"x", Tensor::Scalar<float>(2)}, {"pred", Tensor::Scalar(value)}},
                    {"sum", "by_control"});
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results["sum"].ScalarValue<float>(), value ? 200 : -20);
    EXPECT_EQ(results["by_control"].ScalarValue<float>(), value ? 1 : -2);
  }
}

// Says when somebody waits.
class WatchedRendezvous final : public Rendezvous {
 public:
  absl::Status Send(absl::string_view key, Entry entry) override {
    return rendezvous_.Send(key, std::move(entry));
  }
  void Receive(absl::string_view key, CancellationManager* cancellation,
               Received received) override {
    rendezvous_.Receive(key, cancellation, std::move(received));
    waits_.Set();
  }
  void Abort(absl::Status reason) override { rendezvous_.Abort(std::move(reason)); }

  void AwaitReceiver() { EXPECT_TRUE(waits_.Wait(absl::Now() + absl::Seconds(60))); }

 private:
  LocalRendezvous rendezvous_;
  Event waits_;
};

class PartitionEndTest : public PartitionRunTest {
 protected:
  // Runs the second partition alone until `end` ends it.
  absl::Status EndInMidWait(const std::function<void(CancellationManager&, Rendezvous&)>& end) {
    BuildPingPong(On(0), On(1));
    const std::vector<Partition> partitions = Cut();
    if (partitions.size() != 2u) return errors::Internal("not two partitions");
    WatchedRendezvous rendezvous;
    CancellationManager cancellation;
    absl::Status status;
    std::thread runner([&] {
      RunOptions options;
      options.rendezvous = &rendezvous;
      options.cancellation = &cancellation;
      Results results;
      status = RunPartition(partitions[1], {}, {}, options, &results);
    });
    rendezvous.AwaitReceiver();
    end(cancellation, rendezvous);
    runner.join();
    return status;
  }
};

TEST_F(PartitionEndTest, ACancelledStepStopsWaiting) {
  const absl::Status status = EndInMidWait([](CancellationManager& cancellation, Rendezvous&) {
    cancellation.Cancel(errors::Cancelled("the client went away"));
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(absl::StrContains(status.message(), "the client went away")) << status;
}

TEST_F(PartitionEndTest, APeerThatFailedEndsTheStep) {
  const absl::Status status = EndInMidWait([](CancellationManager&, Rendezvous& rendezvous) {
    rendezvous.Abort(errors::Unavailable("task 0 is gone"));
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "task 0 is gone")) << status;
}

TEST_F(PartitionEndTest, ADeadValueThatCannotBeIsAnError) {
  const absl::Status status = EndInMidWait([](CancellationManager&, Rendezvous& rendezvous) {
    RendezvousKey key;
    key.source_device = CpuOf(0);
    key.source_incarnation = 0xaa;
    key.destination_device = CpuOf(1);
    key.edge = "edge_0_x";
    EXPECT_TRUE(rendezvous.Send(key.ToString(), {Tensor(), /*is_dead=*/true}).ok());
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "dead")) << status;
}

TEST_F(PartitionRunTest, AStepWithoutARendezvousSaysSo) {
  BuildPingPong(On(0), On(1));
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 2u);
  Results results;
  EXPECT_EQ(RunPartition(partitions[1], {}, {}, RunOptions(), &results).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tandem
