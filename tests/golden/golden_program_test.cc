// Runs every case that is a program, a graph and steps, on one session, and compares what the steps
// answer with what TensorFlow did.
//
// One test an op: `--test_arg=--gtest_filter='*/ApplyAdam'`. Single-op cases are golden_test's.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/graph/import.h"
#include "core/op/registry.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "tests/golden/golden_cases.h"

namespace tandem::testing {
namespace {

// The ops of a program that this binary does not know, of its graph and of its functions.
std::vector<std::string> MissingOps(const tensorflow::GraphDef& graph) {
  std::set<std::string> functions;
  for (const auto& function : graph.library().function()) {
    functions.insert(function.signature().name());
  }
  std::set<std::string> missing;
  const auto look = [&](const auto& nodes) {
    for (const tensorflow::NodeDef& node : nodes) {
      if (functions.count(node.op()) == 0 && OpRegistry::Global().Find(node.op()) == nullptr) {
        missing.insert(node.op());
      }
    }
  };
  look(graph.node());
  for (const auto& function : graph.library().function()) look(function.node_def());
  return {missing.begin(), missing.end()};
}

std::string Describe(const Step& step, int number) {
  std::string text = absl::StrCat("step ", number, ": fetches ", absl::StrJoin(step.fetch(), " "),
                                  ", targets ", absl::StrJoin(step.target(), " "));
  for (const NamedTensor& feed : step.feed()) {
    absl::StrAppend(&text, "\n  feed ", feed.name(), " = ", feed.tensor().ShortDebugString());
  }
  if (!step.note().empty()) absl::StrAppend(&text, "\n  note: ", step.note());
  return text;
}

// "", or how the answer differs from TensorFlow's.
std::string RunStep(Session& session, const Case& c, const Step& step) {
  Session::Feeds feeds;
  for (const NamedTensor& feed : step.feed()) {
    google::protobuf::RepeatedPtrField<tensorflow::TensorProto> protos;
    *protos.Add() = feed.tensor();
    const absl::StatusOr<std::vector<Tensor>> value = TensorsFromProtos(protos);
    if (!value.ok()) return value.status().ToString();
    feeds.emplace_back(feed.name(), (*value)[0]);
  }
  const std::vector<std::string> fetches(step.fetch().begin(), step.fetch().end());
  const std::vector<std::string> targets(step.target().begin(), step.target().end());
  RunOptions options;
  options.timeout = absl::Seconds(60);
  const absl::StatusOr<std::vector<Tensor>> found =
      session.Run(options, feeds, fetches, targets, nullptr);
  if (step.error_code() != 0) {
    if (static_cast<int>(found.status().code()) == step.error_code()) return "";
    return absl::StrCat("TensorFlow's error code is ", step.error_code(),
                        ", here: ", found.status().ToString());
  }
  if (!found.ok()) return found.status().ToString();
  const absl::StatusOr<std::vector<Tensor>> wanted = TensorsFromProtos(step.output());
  if (!wanted.ok()) return wanted.status().ToString();
  return Difference(*found, *wanted, step.unchecked_output(), c.rtol(), c.atol());
}

// "", or the first answer that differs from TensorFlow's: what follows depends on the state that
// the step should have left.
std::string RunProgram(const Case& c) {
  const absl::StatusOr<Graph> graph = ImportGraphDef(c.graph());
  if (c.error_code() != 0) {
    if (static_cast<int>(graph.status().code()) == c.error_code()) return "";
    return absl::StrCat("TensorFlow refuses the graph with code ", c.error_code(),
                        ", here: ", graph.status().ToString());
  }
  if (!graph.ok()) return graph.status().ToString();
  const absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*graph);
  if (!session.ok()) return session.status().ToString();
  for (int i = 0; i < c.step_size(); ++i) {
    const std::string difference = RunStep(**session, c, c.step(i));
    if (!difference.empty()) return absl::StrCat(difference, "\n", Describe(c.step(i), i));
  }
  return "";
}

class GoldenProgram : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenProgram, AnswersAsTensorFlow) {
  const absl::StatusOr<GoldenFile> file = LoadGoldenFile(GetParam());
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<std::string> not_yet = OpsNotYetImplemented();
  const auto awaited = [&not_yet](const std::string& op) {
    return std::find(not_yet.begin(), not_yet.end(), op) != not_yet.end();
  };
  const std::set<std::string> deviations = CasesThatDeviate(GetParam());
  for (const Case& c : file->case_()) {
    if (!c.has_graph()) continue;
    SCOPED_TRACE(absl::StrCat("case ", c.name(), c.note().empty() ? "" : ", note: ", c.note()));
    const std::vector<std::string> missing = MissingOps(c.graph());
    if (!missing.empty()) {
      // Excused when the file's op or one of the missing ones is still to be written.
      const bool excused =
          awaited(GetParam()) || std::any_of(missing.begin(), missing.end(), awaited);
      EXPECT_TRUE(excused) << "not registered in this program: " << absl::StrJoin(missing, ", ");
      continue;
    }
    const std::string difference = RunProgram(c);
    if (deviations.count(c.name()) > 0) {
      EXPECT_NE(difference, "") << "agrees with TensorFlow: take it off deviations.txt";
    } else {
      EXPECT_EQ(difference, "");
    }
  }
}

// The ops that have programs among their cases.
std::vector<std::string> OpsWithPrograms() {
  std::vector<std::string> ops;
  for (const std::string& op : GoldenOps()) {
    const absl::StatusOr<GoldenFile> file = LoadGoldenFile(op);
    // A file that does not load makes a test that says so.
    if (!file.ok() || std::any_of(file->case_().begin(), file->case_().end(),
                                  [](const Case& c) { return c.has_graph(); })) {
      ops.push_back(op);
    }
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, GoldenProgram, ::testing::ValuesIn(OpsWithPrograms()),
                         [](const auto& info) { return info.param; });

TEST(GoldenPrograms, AreThere) { EXPECT_FALSE(OpsWithPrograms().empty()); }

}  // namespace
}  // namespace tandem::testing
