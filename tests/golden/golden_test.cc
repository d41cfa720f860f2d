// Runs every case that is a single op and compares the answer with TensorFlow's.
//
// One test an op: `--test_arg=--gtest_filter='*/AddV2'`. Each case runs twice, with inputs that
// shape inference sees (constants) and with inputs of which it knows nothing, so that shape
// functions and the kernels' own checks are both met. Cases that are programs (a graph and steps)
// need a session; they are not of this test, which only checks that a case is one or the other.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/attr_proto.h"
#include "core/op/registry.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"
#include "tests/golden/golden_cases.h"

namespace tandem::testing {
namespace {

absl::StatusOr<AttrMap> AttrsFromNode(const tensorflow::NodeDef& node) {
  AttrMap attrs;
  for (const auto& [name, proto] : node.attr()) {
    TANDEM_ASSIGN_OR_RETURN(AttrValue value, AttrFromProto(proto));
    attrs.emplace(name, std::move(value));
  }
  return attrs;
}

std::string Describe(const Case& c, const AttrMap& attrs, bool constant_inputs) {
  std::string text = absl::StrCat("op ", c.node().op(), ", case ", c.name(), ", attributes {");
  for (const auto& [name, value] : attrs) {
    absl::StrAppend(&text, name, "=", value.DebugString(), " ");
  }
  if (text.back() == ' ') text.pop_back();
  absl::StrAppend(&text, "}, inputs ", constant_inputs ? "known" : "unknown", " to the shapes");
  if (!c.note().empty()) absl::StrAppend(&text, "\nnote: ", c.note());
  return text;
}

void RunCase(const Case& c, bool constant_inputs, bool deviates) {
  const absl::StatusOr<AttrMap> attrs = AttrsFromNode(c.node());
  ASSERT_TRUE(attrs.ok()) << c.name() << ": " << attrs.status();
  SCOPED_TRACE(Describe(c, *attrs, constant_inputs));
  const absl::StatusOr<std::vector<Tensor>> inputs = TensorsFromProtos(c.input());
  const absl::StatusOr<std::vector<Tensor>> wanted = TensorsFromProtos(c.output());
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  ASSERT_TRUE(wanted.ok()) << wanted.status();

  const absl::StatusOr<std::vector<Tensor>> found =
      RunOp(c.node().op(), *inputs, *attrs, constant_inputs);
  if (c.error_code() != 0) {
    ASSERT_FALSE(found.ok()) << "no error; TensorFlow's code is " << c.error_code();
    if (c.rejected_by_shapes() && absl::IsInvalidArgument(found.status())) return;
    EXPECT_EQ(static_cast<int>(found.status().code()), c.error_code()) << found.status();
    return;
  }
  ASSERT_TRUE(found.ok()) << found.status();
  if (deviates) {
    EXPECT_NE(Difference(*found, *wanted, c.unchecked_output(), c.rtol(), c.atol()), "")
        << "agrees with TensorFlow: take it off deviations.txt";
    return;
  }
  std::string in;
  for (const Tensor& input : *inputs) absl::StrAppend(&in, "\n  ", input.DebugString());
  EXPECT_EQ(Difference(*found, *wanted, c.unchecked_output(), c.rtol(), c.atol()), "")
      << "inputs:" << in;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, AnswersAsTensorFlow) {
  const std::string op = GetParam();
  const absl::StatusOr<GoldenFile> file = LoadGoldenFile(op);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<std::string> missing = OpsNotYetImplemented();
  const bool excused = std::find(missing.begin(), missing.end(), op) != missing.end();
  if (OpRegistry::Global().Find(op) == nullptr) {
    EXPECT_TRUE(excused) << "op " << op << " is not registered in this program";
    return;
  }
  EXPECT_FALSE(excused) << "op " << op << " exists: take it off not_yet.txt";
  std::set<std::string> deviations = CasesThatDeviate(op);
  for (const Case& c : file->case_()) {
    ASSERT_NE(c.has_node(), c.has_graph()) << c.name() << ": neither an op nor a program, or both";
    if (!c.has_node()) {
      deviations.erase(c.name());  // Of golden_program_test.
      continue;
    }
    ASSERT_EQ(c.node().op(), op) << c.name();
    const bool deviates = deviations.erase(c.name()) > 0;
    RunCase(c, /*constant_inputs=*/true, deviates);
    RunCase(c, /*constant_inputs=*/false, deviates);
  }
  for (const std::string& name : deviations) {
    ADD_FAILURE() << "deviations.txt names case " << name << ", which is not there";
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Golden, ::testing::ValuesIn(GoldenOps()),
                         [](const auto& info) { return info.param; });

TEST(NotYetList, NamesOnlyOpsWithAFile) {
  const std::vector<std::string> ops = GoldenOps();
  const std::set<std::string> known(ops.begin(), ops.end());
  ASSERT_FALSE(known.empty());
  std::set<std::string> seen;
  for (const std::string& op : OpsNotYetImplemented()) {
    EXPECT_EQ(known.count(op), 1u) << op << " has no golden file";
    EXPECT_TRUE(seen.insert(op).second) << op << " stands twice in the list";
  }
}

// The comparison itself: a test of the test.
TEST(Difference, SaysWhichElementAndBothValues) {
  const Tensor a = Tensor::FromValues<float>({2, 2}, {1, 2, 3, 4});
  const Tensor b = Tensor::FromValues<float>({2, 2}, {1, 2, 3.5, 4});
  EXPECT_EQ(Difference(a, a, 0, 0), "");
  EXPECT_EQ(Difference(a, b, 0, 0), "element [1,0] is 3, not 3.5 (1 of 4 differ)");
  EXPECT_EQ(Difference(a, b, 0, 0.5), "");
  EXPECT_EQ(Difference(a, Tensor::Scalar(1.f), 0, 0), "shape is [2,2], not []");
  EXPECT_EQ(Difference(Tensor::Scalar(1), Tensor::Scalar(1.f), 0, 0), "type is int32, not float32");
  EXPECT_NE(Difference(Tensor::Scalar(1), Tensor::Scalar(2), 9, 9), "")
      << "integers have no tolerance";
  EXPECT_EQ(Difference(Tensor::Scalar(NAN), Tensor::Scalar(NAN), 0, 0), "");
  EXPECT_NE(Difference(Tensor::Scalar(INFINITY), Tensor::Scalar(1.f), 1, 1), "");
}

}  // namespace
}  // namespace tandem::testing
