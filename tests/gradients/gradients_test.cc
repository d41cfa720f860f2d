// Every differentiable op against numeric differentiation; and that every one has a case.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/op/registry.h"
#include "gtest/gtest.h"
#include "tests/gradients/gradient_case.h"
#include "tests/gradients/gradient_check.h"

namespace tandem::testing {
namespace {

const std::vector<GradientCase>& AllCases() {
  static const auto* const cases = [] {
    auto* const all = new std::vector<GradientCase>;
    for (auto* family : {MathCases, ReductionCases, ArrayCases, IndexCases, NnCases, WindowCases,
                         ControlCases, LoopCases, DataCases, EinsumCases, SpecialFunctionCases,
                         ImageCases, RaggedCases, VolumeCases, SpaceCases, TransformCases}) {
      for (GradientCase& c : family()) all->push_back(std::move(c));
    }
    return all;
  }();
  return *cases;
}

std::string CaseName(const ::testing::TestParamInfo<GradientCase>& info) {
  std::string name = info.param.op + "_" + info.param.name;
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

class GradientTest : public ::testing::TestWithParam<GradientCase> {};

TEST_P(GradientTest, AgreesWithDifferencesWhenNoShapeIsKnown) {
  const absl::Status status = CheckGradients(GetParam(), Knowledge::kNothing);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(GradientTest, AgreesWithDifferencesWhenShapesAndSizesAreKnown) {
  const absl::Status status = CheckGradients(GetParam(), Knowledge::kShapes);
  EXPECT_TRUE(status.ok()) << status;
}

// Where gradients are made of functions, those of gradients are, too.
class SecondGradientTest : public ::testing::TestWithParam<GradientCase> {};

TEST_P(SecondGradientTest, AgreesWithDifferences) {
  const absl::Status status = CheckGradients(GetParam(), Knowledge::kShapes, Order::kSecond);
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Control, SecondGradientTest, ::testing::ValuesIn(ControlCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Loops, SecondGradientTest, ::testing::ValuesIn(LoopCases()), CaseName);

INSTANTIATE_TEST_SUITE_P(All, GradientTest, ::testing::ValuesIn(AllCases()), CaseName);

// Differentiable ops without a case, and why.
std::map<std::string, std::string> Exceptions() {
  return {
      {"PreventGradient", "it is an error to differentiate it"},
      {"Enter", "loops of frames are not differentiated"},
      {"Exit", "loops of frames are not differentiated"},
      {"NextIteration", "loops of frames are not differentiated"},
      {"LoopCond", "loops of frames are not differentiated"},
      {"RefEnter", "loops of frames are not differentiated"},
      {"RefExit", "loops of frames are not differentiated"},
      {"RefNextIteration", "loops of frames are not differentiated"},
      {"_TandemAllReduce", "needs replicas; tested with the strategies"},
  };
}

TEST(Gradients, EveryDifferentiableOpHasACase) {
  std::set<std::string> with_case;
  for (const GradientCase& c : AllCases()) with_case.insert(c.op);
  const std::map<std::string, std::string> exceptions = Exceptions();
  for (const OpDef* op : OpRegistry::Global().List()) {
    if (op->differentiability != Differentiability::kDifferentiable) continue;
    EXPECT_NE(with_case.count(op->name) == 1, exceptions.count(op->name) == 1)
        << op->name
        << (exceptions.count(op->name) == 1 ? " has a case and is an exception" : " has no case");
  }
  for (const auto& [name, reason] : exceptions) {
    EXPECT_NE(OpRegistry::Global().Find(name), nullptr) << name << " is no op";
  }
}

}  // namespace
}  // namespace tandem::testing
