// Optimization passes do not change what a graph computes: the golden programs, and every golden
// case of a single op as a graph of constants, are run with passes switched on and off, and answer
// the same.
//
// What is compared with is the run without any pass; whether that is right is golden_test's matter.
// Passes that fuse kernels may round otherwise; with all others the answers are the same bits.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/attr_proto.h"
#include "core/graph/import.h"
#include "core/op/attr_value.h"
#include "core/op/registry.h"
#include "core/passes/optimize.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "tests/golden/golden_cases.h"

namespace tandem::testing {
namespace {

// A choice of passes.
struct Choice {
  std::string passes;  // As SwitchPasses takes it.
  bool may_round = false;
};

bool Fuses(const std::string& pass) { return absl::StartsWith(pass, "fuse_"); }

// Each pass alone, all but each, and all.
std::vector<Choice> Choices() {
  std::vector<Choice> choices = {{"all", true}, {"none,fold_constants,merge_common", false}};
  for (const std::string& pass : PassNames()) {
    choices.push_back({absl::StrCat("none,", pass), Fuses(pass)});
    choices.push_back({absl::StrCat("all,-", pass), true});
  }
  return choices;
}

// What the steps of a program, or the one run of an op, answered.
struct Answers {
  absl::Status made;  // Whether there was a session.
  std::vector<absl::StatusOr<std::vector<Tensor>>> steps;
};

// Sessions of their own state on the same devices.
std::shared_ptr<DeviceSet> Devices() {
  static const auto* devices = new std::shared_ptr<DeviceSet>(*DeviceSet::Create({{kCpu, 1}}));
  return *devices;
}

absl::StatusOr<std::unique_ptr<Session>> Open(const Graph& graph, const std::string& passes) {
  SessionOptions options;
  options.devices = Devices();
  TANDEM_RETURN_IF_ERROR(SwitchPasses(passes, &options.optimize));
  return Session::Create(graph, options);
}

Answers RunProgram(const Graph& graph, const Case& c, const std::string& passes) {
  Answers answers;
  const absl::StatusOr<std::unique_ptr<Session>> session = Open(graph, passes);
  answers.made = session.status();
  if (!session.ok()) return answers;
  for (const Step& step : c.step()) {
    Session::Feeds feeds;
    for (const NamedTensor& feed : step.feed()) {
      google::protobuf::RepeatedPtrField<tensorflow::TensorProto> protos;
      *protos.Add() = feed.tensor();
      const absl::StatusOr<std::vector<Tensor>> value = TensorsFromProtos(protos);
      if (!value.ok()) {
        answers.made = value.status();
        return answers;
      }
      feeds.emplace_back(feed.name(), (*value)[0]);
    }
    RunOptions options;
    options.timeout = absl::Seconds(60);
    answers.steps.push_back((*session)->Run(options, feeds,
                                            {step.fetch().begin(), step.fetch().end()},
                                            {step.target().begin(), step.target().end()}, nullptr));
  }
  return answers;
}

// "", or how `found` differs from `wanted`. Values in `unchecked` are chance.
std::string CompareValues(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted,
                          const google::protobuf::RepeatedField<int32_t>& unchecked, const Case& c,
                          bool may_round) {
  if (may_round) {
    return Difference(found, wanted, unchecked, std::max(c.rtol(), 1e-6), std::max(c.atol(), 1e-6));
  }
  if (found.size() != wanted.size()) return "another number of outputs";
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::count(unchecked.begin(), unchecked.end(), static_cast<int>(i)) > 0) continue;
    if (AttrValue(found[i]) != AttrValue(wanted[i])) {
      return absl::StrCat("output ", i, " is ", found[i].DebugString(), ", without passes ",
                          wanted[i].DebugString());
    }
  }
  return "";
}

std::string CompareStep(const absl::StatusOr<std::vector<Tensor>>& found,
                        const absl::StatusOr<std::vector<Tensor>>& wanted,
                        const google::protobuf::RepeatedField<int32_t>& unchecked, const Case& c,
                        bool may_round) {
  if (found.status().code() != wanted.status().code()) {
    return absl::StrCat("the status is ", found.status().ToString(), ", without passes ",
                        wanted.status().ToString());
  }
  return found.ok() ? CompareValues(*found, *wanted, unchecked, c, may_round) : "";
}

class Programs : public ::testing::TestWithParam<std::string> {};

TEST_P(Programs, AnswerTheSameWithAndWithoutPasses) {
  const absl::StatusOr<GoldenFile> file = LoadGoldenFile(GetParam());
  ASSERT_TRUE(file.ok()) << file.status();
  for (const Case& c : file->case_()) {
    if (!c.has_graph()) continue;
    const absl::StatusOr<Graph> graph = ImportGraphDef(c.graph());
    if (!graph.ok()) continue;  // An op that is not there yet, or a graph that is to be refused.
    const Answers wanted = RunProgram(*graph, c, "none");
    for (const Choice& choice : Choices()) {
      SCOPED_TRACE(absl::StrCat("case ", c.name(), ", passes ", choice.passes));
      const Answers found = RunProgram(*graph, c, choice.passes);
      ASSERT_EQ(found.made, wanted.made);
      ASSERT_EQ(found.steps.size(), wanted.steps.size());
      for (size_t i = 0; i < found.steps.size(); ++i) {
        EXPECT_EQ(CompareStep(found.steps[i], wanted.steps[i],
                              c.step(static_cast<int>(i)).unchecked_output(), c, choice.may_round),
                  "")
            << "step " << i;
      }
    }
  }
}

// The op of a case with its inputs as constants, all outputs fetched. An error when that makes no
// graph: the case is one that TensorFlow refuses, too.
absl::StatusOr<std::vector<Tensor>> RunOnConstants(const Case& c, const std::string& passes) {
  Graph graph;
  NodeSpec spec;
  spec.name = "op";
  spec.op = c.node().op();
  for (const auto& [name, proto] : c.node().attr()) {
    TANDEM_ASSIGN_OR_RETURN(AttrValue value, AttrFromProto(proto));
    spec.attrs.emplace(name, std::move(value));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, TensorsFromProtos(c.input()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    NodeSpec constant;
    constant.name = absl::StrCat("input_", i);
    constant.op = "Const";
    constant.attrs = {{"dtype", inputs[i].dtype()}, {"value", inputs[i]}};
    TANDEM_ASSIGN_OR_RETURN(Node * node, graph.AddNode(std::move(constant)));
    spec.inputs.push_back(node->output(0));
  }
  TANDEM_ASSIGN_OR_RETURN(const Node* op, graph.AddNode(std::move(spec)));
  std::vector<std::string> fetches;
  for (int i = 0; i < op->num_outputs(); ++i) fetches.push_back(absl::StrCat("op:", i));
  if (fetches.empty()) return errors::InvalidArgument("no outputs");
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Open(graph, passes));
  return session->Run({}, fetches);
}

class SingleOps : public ::testing::TestWithParam<std::string> {};

TEST_P(SingleOps, AnswerTheSameWhenTheyAreFolded) {
  const absl::StatusOr<GoldenFile> file = LoadGoldenFile(GetParam());
  ASSERT_TRUE(file.ok()) << file.status();
  if (OpRegistry::Global().Find(GetParam()) == nullptr) return;
  for (const Case& c : file->case_()) {
    if (!c.has_node()) continue;
    SCOPED_TRACE(absl::StrCat("case ", c.name()));
    EXPECT_EQ(CompareStep(RunOnConstants(c, "all"), RunOnConstants(c, "none"), c.unchecked_output(),
                          c, /*may_round=*/false),
              "");
  }
}

std::vector<std::string> OpsWith(bool (Case::*part)() const) {
  std::vector<std::string> ops;
  for (const std::string& op : GoldenOps()) {
    const absl::StatusOr<GoldenFile> file = LoadGoldenFile(op);
    // A file that does not load makes a test that says so.
    if (!file.ok() || std::any_of(file->case_().begin(), file->case_().end(),
                                  [&](const Case& c) { return (c.*part)(); })) {
      ops.push_back(op);
    }
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, Programs, ::testing::ValuesIn(OpsWith(&Case::has_graph)),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Ops, SingleOps, ::testing::ValuesIn(OpsWith(&Case::has_node)),
                         [](const auto& info) { return info.param; });

// The environment would switch passes on top of what the tests ask for.
class NoEnvironment : public ::testing::Environment {
 public:
  void SetUp() override { unsetenv("TANDEM_PASSES"); }
};
const ::testing::Environment* const no_environment =
    ::testing::AddGlobalTestEnvironment(new NoEnvironment);

}  // namespace
}  // namespace tandem::testing
