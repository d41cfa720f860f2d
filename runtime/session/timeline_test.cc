#include "runtime/session/timeline.h"

#include <map>
#include <utility>

#include "core/graph/scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/session/session.h"
#include "runtime/session/step_stats.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::Key;

StepTracer::Event Bar(const std::string& node, const std::string& device, int64_t start,
                      int64_t end, uint64_t thread, const std::string& thread_name = "") {
  StepTracer::Event event;
  event.node = node;
  event.op = "Op";
  event.device = device;
  event.start_nanoseconds = start;
  event.end_nanoseconds = end;
  event.thread = thread;
  event.thread_name = thread_name;
  return event;
}

// The names of processes or threads by their numbers, and of each bar where it lies.
struct Drawn {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  std::map<std::string, nlohmann::json> bars;

  explicit Drawn(const std::string& trace) {
    const nlohmann::json document = nlohmann::json::parse(trace);
    for (const nlohmann::json& record : document["traceEvents"]) {
      const int process = record["pid"];
      if (record["name"] == "process_name") {
        processes[process] = record["args"]["name"];
      } else if (record["name"] == "thread_name") {
        threads[{process, record["tid"]}] = record["args"]["name"];
      } else {
        bars[record["args"]["name"]] = record;
      }
    }
  }
  std::string RowOf(const std::string& bar) const {
    const nlohmann::json& record = bars.at(bar);
    return processes.at(record["pid"]) + ": " + threads.at({record["pid"], record["tid"]});
  }
};

TEST(ChromeTrace, HasARowForEachDeviceAndThread) {
  const Drawn drawn(
      ChromeTrace({Bar("a", "CPU:0", 1000, 3000, 4, "executor"), Bar("b", "CPU:0", 2000, 4000, 5),
                   Bar("c", "CPU:1", 3000, 4500, 4, "executor"),
                   Bar("d", "CPU:0", 3000, 3500, 4, "executor")}));
  EXPECT_EQ(drawn.RowOf("a"), "CPU:0: executor (thread 4)");
  EXPECT_EQ(drawn.RowOf("b"), "CPU:0: thread 5");
  EXPECT_EQ(drawn.RowOf("c"), "CPU:1: executor (thread 4)");
  EXPECT_EQ(drawn.RowOf("d"), drawn.RowOf("a"));
  EXPECT_EQ(drawn.threads.size(), 3u);
  EXPECT_EQ(drawn.bars.at("a")["ts"], 0.0);
  EXPECT_EQ(drawn.bars.at("c")["ts"], 2.0);
  EXPECT_EQ(drawn.bars.at("c")["dur"], 1.5);
}

TEST(ChromeTrace, BarsOfOneThreadThatOverlapLieInRowsOfTheirOwn) {
  // Receives that wait end on one thread, the later one first.
  const Drawn drawn(ChromeTrace(
      {Bar("b", "CPU:0", 20, 80, 1), Bar("a", "CPU:0", 10, 90, 1), Bar("c", "CPU:0", 85, 99, 1)}));
  EXPECT_EQ(drawn.RowOf("a"), "CPU:0: thread 1");
  EXPECT_EQ(drawn.RowOf("b"), "CPU:0: thread 1, overlapping 1");
  EXPECT_EQ(drawn.RowOf("c"), drawn.RowOf("b"));
}

TEST(ChromeTrace, OfNothingIsADocument) { EXPECT_TRUE(Drawn(ChromeTrace({})).bars.empty()); }

TEST(ChromeTrace, NamesOfAnyBytesMakeADocument) {
  EXPECT_EQ(Drawn(ChromeTrace({Bar("\xff\"", "CPU:0", 0, 1, 0)})).bars.size(), 1u);
}

TEST(Trace, TellsTheShapesOfInputsAndOutputs) {
  const Scope scope = Scope::NewRoot();
  const Output x = scope.WithOpName("x").Call(
      "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape::Unknown()}});
  scope.WithOpName("y").Call("MatMul", {x, x}, {{"transpose_b", true}});
  ASSERT_TRUE(scope.status().ok()) << scope.status();
  const auto session = Session::Create(*scope.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  RunOptions options;
  options.trace = true;
  RunMetadata metadata;
  ASSERT_TRUE((*session)
                  ->Run(options, {{"x", Tensor::Zeros(kFloat32, {2, 3})}}, {"y"}, {}, &metadata)
                  .ok());

  const Drawn drawn(ChromeTrace(metadata.events));
  ASSERT_THAT(drawn.bars, Contains(Key("y")));
  EXPECT_EQ(drawn.bars.at("y")["args"]["inputs"], "float32[2,3] float32[2,3]");
  EXPECT_EQ(drawn.bars.at("y")["args"]["outputs"], "float32[2,2]");

  tensorflow::StepStats stats;
  FillStepStats(metadata.events, &stats);
  ASSERT_EQ(stats.dev_stats_size(), 1);
  for (const tensorflow::NodeExecStats& node : stats.dev_stats(0).node_stats()) {
    EXPECT_EQ(stats.dev_stats(0).thread_names().count(node.thread_id()), 1u);
    if (node.node_name() != "y") continue;
    ASSERT_EQ(node.output_size(), 1);
    const tensorflow::TensorDescription& output = node.output(0).tensor_description();
    EXPECT_EQ(output.dtype(), tensorflow::DT_FLOAT);
    ASSERT_EQ(output.shape().dim_size(), 2);
    EXPECT_EQ(output.shape().dim(1).size(), 2);
  }
}

}  // namespace
}  // namespace tandem
