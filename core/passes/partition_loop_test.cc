// Loops whose nodes lie in several tasks: each is run cut into its parts, and whole.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/graph/test_loop.h"
#include "core/passes/partition_test_util.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using testing::AddLoop;
using testing::EnterLoop;
using testing::PartitionRunTest;
using Values = std::vector<Output>;

// A scope for each task.
using Scopes = std::vector<Scope>;

Output Number(const Scope& scope, const std::string& name, DataType dtype) {
  return scope.WithOpName(name).Call("Placeholder", {}, {{"dtype", dtype}, {"shape", Shape()}});
}

class PartitionLoopTest : public PartitionRunTest {
 protected:
  // Builds a graph over all tasks and for one, and compares what `fetches` give for each feed.
  void Check(const std::function<void(const Scopes&)>& build,
             const std::vector<Session::Feeds>& runs, const std::vector<std::string>& fetches) {
    build({On(0), On(1), On(2)});
    const std::vector<Partition> partitions = Cut();
    ASSERT_GT(partitions.size(), 1u);
    Scope whole = Scope::NewRoot();
    build({whole, whole, whole});
    const auto session = Session::Create(*whole.graph());
    ASSERT_TRUE(session.ok()) << session.status();
    for (const Session::Feeds& feeds : runs) {
      const auto wanted = (*session)->Run(feeds, fetches);
      ASSERT_TRUE(wanted.ok()) << wanted.status();
      Results results = RunTogether(partitions, feeds, fetches);
      ASSERT_EQ(results.size(), fetches.size());
      for (size_t i = 0; i < fetches.size(); ++i) {
        EXPECT_EQ(AttrValue(results[fetches[i]]), AttrValue((*wanted)[i])) << fetches[i];
      }
    }
  }

  static Session::Feeds Rounds(int n) { return {{"n", Tensor::Scalar<int32_t>(n)}}; }
};

// while (i < n) { i += 1; x = x * 0.5 + i } with x computed by the second task.
Values HalveAndAdd(const Scopes& on, int parallel) {
  const Output n = EnterLoop(on[0], "loop", Number(on[0], "n", kInt32), parallel);
  return AddLoop(
      on[0], "loop", {on[0].Constant(0), on[0].Constant(1.0f)},
      [=](const Values& v) {
        return on[0].Call("Less", {v[0], n});
      },
      [=](const Values& v) -> Values {
        const Output i = on[0].Call("AddV2", {v[0], 1});
        const Output half = on[1].Call("Mul", {v[1], 0.5f});
        return {i, on[1].Call("AddV2", {half, on[1].Call("Cast", {i}, {{"DstT", kFloat32}})})};
      },
      parallel);
}

TEST_F(PartitionLoopTest, ABodyOfTwoTasksGivesWhatOneGives) {
  Check([](const Scopes& on) { on[0].WithOpName("y").Call("Identity", {HalveAndAdd(on, 10)[1]}); },
        {Rounds(0), Rounds(1), Rounds(2), Rounds(30), Rounds(1000)}, {"y"});
}

TEST_F(PartitionLoopTest, OneRoundAtATimeIsEnough) {
  Check([](const Scopes& on) { on[2].WithOpName("y").Call("Identity", {HalveAndAdd(on, 1)[1]}); },
        {Rounds(0), Rounds(1), Rounds(50)}, {"y"});
}

// One variable in each task, the condition in the third.
TEST_F(PartitionLoopTest, AControlPartOverThreeTasks) {
  Check(
      [](const Scopes& on) {
        const Output n = Number(on[0], "n", kInt32);
        const Scope& s = on[0];
        const Values ends = AddLoop(
            s, "loop", {s.Constant(0), s.Constant(1.0f), s.Constant(2.0f)},
            [&](const Values& v) {
              return on[2].Call("LogicalAnd",
                                {on[2].Call("Less", {v[0], EnterLoop(on[2], "loop", n)}),
                                 on[1].Call("Less", {v[1], 1000.0f})});
            },
            [&](const Values& v) -> Values {
              const Output sum = on[1].Call("AddV2", {v[1], v[2]});
              return {on[0].Call("AddV2", {v[0], 1}), on[2].Call("Mul", {sum, 1.5f}),
                      on[1].Call("Sub", {sum, v[1]})};
            });
        on[1].WithOpName("y").Call("Identity", {ends[1]});
        on[2].WithOpName("z").Call("Neg", {ends[2]});
        on[0].WithOpName("i").Call("Identity", {ends[0]});
      },
      {Rounds(0), Rounds(3), Rounds(100)}, {"i", "y", "z"});
}

TEST_F(PartitionLoopTest, LoopsNest) {
  Check(
      [](const Scopes& on) {
        const Output n = Number(on[0], "n", kInt32);
        const Output outer_n = EnterLoop(on[0], "outer", n);
        const Values ends = AddLoop(
            on[0], "outer", {on[0].Constant(0), on[0].Constant(1.0f)},
            [&](const Values& v) {
              return on[0].Call("Less", {v[0], outer_n});
            },
            [&](const Values& v) -> Values {
              // Decided in the second task, computed in the third; as many rounds as the outer
              // loop has had.
              const Output limit = EnterLoop(on[1], "inner", v[0]);
              const Values inner = AddLoop(
                  on[1].WithControlDependencies({v[0].node}), "inner", {on[1].Constant(0), v[1]},
                  [&](const Values& w) {
                    return on[1].Call("Less", {w[0], limit});
                  },
                  [&](const Values& w) -> Values {
                    return {on[1].Call("AddV2", {w[0], 1}), on[2].Call("AddV2", {w[1], 1.0f})};
                  });
              return {on[0].Call("AddV2", {v[0], 1}), on[2].Call("Mul", {inner[1], 0.5f})};
            });
        on[0].WithOpName("y").Call("Identity", {ends[1]});
      },
      {Rounds(0), Rounds(1), Rounds(7)}, {"y"});
}

// In every other round the inner loop, and what it consists of, is dead.
TEST_F(PartitionLoopTest, ALoopInABranchOfALoop) {
  Check(
      [](const Scopes& on) {
        const Output n = Number(on[0], "n", kInt32);
        const Output limit = EnterLoop(on[0], "outer", n);
        const Values ends = AddLoop(
            on[0], "outer", {on[0].Constant(0), on[0].Constant(1.0f)},
            [&](const Values& v) {
              return on[0].Call("Less", {v[0], limit});
            },
            [&](const Values& v) -> Values {
              const Output odd = on[0].Call("Equal", {on[0].Call("FloorMod", {v[0], 2}), 1});
              const Values branches = on[0].CallMulti("Switch", {v[1], odd});
              if (branches.empty()) return {v[0], v[1]};
              const Values inner = AddLoop(
                  on[1], "inner", {branches[1]},
                  [&](const Values& w) {
                    return on[1].Call("Less", {w[0], 20.0f});
                  },
                  [&](const Values& w) -> Values {
                    return {on[1].Call("AddV2", {on[2].Call("Mul", {w[0], 2.0f}), 1.0f})};
                  });
              const Output other = on[2].Call("Mul", {branches[0], 0.25f});
              const Output x = on[0].Call("Merge", {other, on[1].Call("Sqrt", {inner[0]})});
              return {on[0].Call("AddV2", {v[0], 1}), x};
            });
        on[0].WithOpName("y").Call("Identity", {ends[1]});
      },
      {Rounds(0), Rounds(1), Rounds(2), Rounds(9)}, {"y"});
}

TEST_F(PartitionLoopTest, ALoopOnTheBranchNotTakenIsDeadInAllTasks) {
  Check(
      [](const Scopes& on) {
        const Output n = Number(on[0], "n", kInt32);
        const Values branches = on[0].CallMulti("Switch", {n, on[0].Call("Greater", {n, 0})});
        if (branches.empty()) return;
        const Values ends = AddLoop(
            on[0], "loop", {branches[1]},
            [&](const Values& v) {
              return on[0].Call("Less", {v[0], 1000});
            },
            [&](const Values& v) -> Values {
              return {on[0].Call("AddV2", {on[1].Call("Mul", {v[0], 2}), 1})};
            });
        const Output late = on[1].Call("Neg", {ends[0]});
        on[0].WithOpName("y").Call("Merge", {branches[0], late});
      },
      {Rounds(-3), Rounds(5)}, {"y"});
}

TEST_F(PartitionLoopTest, WhatWaitsInARoundWaitsForThatRoundOfTheOtherTask) {
  Check(
      [](const Scopes& on) {
        const Output n = EnterLoop(on[0], "loop", Number(on[0], "n", kInt32));
        const Values ends = AddLoop(
            on[0], "loop", {on[0].Constant(0)},
            [&](const Values& v) {
              return on[0].Call("Less", {v[0], n});
            },
            [&](const Values& v) -> Values {
              Node* const there = on[1].WithControlDependencies({v[0].node}).AddNode("NoOp", {});
              return {on[0].WithControlDependencies({there}).Call("AddV2", {v[0], 1})};
            });
        on[0].WithOpName("y").Call("Identity", {ends[0]});
      },
      {Rounds(0), Rounds(1), Rounds(20)}, {"y"});
}

TEST_F(PartitionLoopTest, TwoLoopsOneAfterTheOther) {
  Check(
      [](const Scopes& on) {
        const Output n = Number(on[0], "n", kInt32);
        Output x = on[0].Constant(0);
        for (const int task : {1, 2}) {
          const std::string name = absl::StrCat("loop_", task);
          const Output limit = EnterLoop(on[0], name, n);
          const Values ends = AddLoop(
              on[0], name, {on[0].Constant(0), x},
              [&](const Values& v) {
                return on[0].Call("Less", {v[0], limit});
              },
              [&](const Values& v) -> Values {
                return {on[0].Call("AddV2", {v[0], 1}),
                        on[static_cast<size_t>(task)].Call("AddV2", {v[1], task})};
              });
          if (ends.empty()) return;
          x = ends[1];
        }
        on[2].WithOpName("y").Call("Identity", {x});
      },
      {Rounds(0), Rounds(10)}, {"y"});
}

TEST_F(PartitionLoopTest, AnErrorInARoundNamesItsNodeAndTask) {
  const Output n = EnterLoop(On(0), "loop", Number(On(0), "n", kInt32));
  const Values ends = AddLoop(
      On(0), "loop", {On(0).Constant(0)},
      [&](const Values& v) {
        return On(0).Call("Less", {v[0], n});
      },
      [&](const Values& v) -> Values {
        // Divides by zero in the fourth round.
        const Output left = On(1).Call("Sub", {3, v[0]});
        const Output quotient = On(1).WithOpName("quotient").Call("FloorDiv", {6, left});
        return {On(0).WithControlDependencies({quotient.node}).Call("AddV2", {v[0], 1})};
      });
  On(0).WithOpName("y").Call("Identity", {ends[0]});
  const std::vector<Partition> partitions = Cut();
  ASSERT_EQ(partitions.size(), 2u);
  Results results;
  EXPECT_TRUE(TryRunTogether(partitions, Rounds(3), {"y"}, &results).ok());
  const absl::Status status = TryRunTogether(partitions, Rounds(10), {"y"}, &results);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "quotient")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "task:1")) << status;
}

// Inside a task nothing is cut: one plan has all of its devices.
TEST(LoopOfOneTask, ItsBodyMayLieOnSeveralDevices) {
  Scope s = Scope::NewRoot();
  const Scope here = s.WithDevice("/device:CPU:0");
  const Scope there = s.WithDevice("/device:CPU:1");
  const Scope sim = s.WithDevice("/device:SIM:0");
  const Output n = EnterLoop(here, "loop", Number(here, "n", kInt32));
  const Values ends = AddLoop(
      here, "loop", {s.Constant(0), s.Constant(1.0f)},
      [&](const Values& v) {
        return there.Call("Less", {v[0], n});
      },
      [&](const Values& v) -> Values {
        return {there.Call("AddV2", {v[0], 1}),
                there.Call("Mul", {sim.Call("AddV2", {v[1], 1.0f}), 0.5f})};
      });
  ASSERT_TRUE(s.ok()) << s.status();
  s.WithOpName("y").Call("Identity", {ends[1]});
  SessionOptions options;
  const auto devices = DeviceSet::Create({{kCpu, 2}, {kSim, 1}});
  ASSERT_TRUE(devices.ok()) << devices.status();
  options.devices = *devices;
  const auto session = Session::Create(*s.graph(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  for (const int rounds : {0, 1, 40}) {
    const auto y = (*session)->Run({{"n", Tensor::Scalar<int32_t>(rounds)}}, {"y"});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ((*y)[0].ScalarValue<float>(), 1);
  }
}

}  // namespace
}  // namespace tandem
