// Gradients of loops. That they are right is checked against numeric differentiation in
// tests/gradients; here against what TensorFlow answers, and how they come about.
#include "kernels/control/loop_gradient.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "kernels/testing/functions.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

using testing::CountedLoop;
using testing::Define;
using testing::Loop;
using testing::Outputs;

Output Double(const Scope& scope, const std::string& name, PartialShape shape = PartialShape({})) {
  return scope.WithOpName(name).Call("Placeholder", {}, {{"dtype", kFloat64}, {"shape", shape}});
}

// Adds the gradients of `y` with respect to `xs`; empty after an error.
Outputs Gradients(const Scope& scope, const Output& y, const Outputs& xs) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  if (!scope.ok()) return {};
  const auto gradients = AddGradients(scope.graph(), {y}, xs);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  Outputs dense;
  if (!gradients.ok()) return dense;
  for (const Gradient& gradient : *gradients) {
    EXPECT_TRUE(gradient.exists());
    EXPECT_FALSE(gradient.is_sparse());
    if (gradient.exists()) dense.push_back(gradient.values);
  }
  return dense;
}

absl::Status GradientError(const Scope& scope, const Output& y, const Output& x) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  return AddGradients(scope.graph(), {y}, {x}).status();
}

std::vector<Tensor> Values(const Scope& scope, const Session::Feeds& feeds, const Outputs& outputs,
                           SessionOptions options = {}) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  const auto session = Session::Create(*scope.graph(), std::move(options));
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<std::string> names;
  for (const Output& output : outputs) names.push_back(output.name());
  if (!session.ok()) return {};
  const auto results = (*session)->Run(feeds, names);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? *results : std::vector<Tensor>();
}

SessionOptions OnSim() {
  SessionOptions options;
  auto devices = DeviceSet::Create({{"SIM", 1}});
  EXPECT_TRUE(devices.ok()) << devices.status();
  if (devices.ok()) options.devices = *std::move(devices);
  options.default_device = "/device:SIM:0";
  return options;
}

void ExpectNear(const std::vector<Tensor>& results,
                const std::vector<std::vector<double>>& wanted) {
  ASSERT_EQ(results.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(results[i].Elements<double>().size(), wanted[i].size()) << i;
    for (size_t k = 0; k < wanted[i].size(); ++k) {
      EXPECT_NEAR(results[i].Elements<double>()[k], wanted[i][k], 1e-7) << i << ", " << k;
    }
  }
}

// h ← tanh(w h + x[i]); y = Σ h², and its gradients.
struct Recurrence {
  explicit Recurrence(const Scope& scope) {
    const Output x = Double(scope, "x", PartialShape({3, 2}));
    const Output w = Double(scope, "w", PartialShape({2, 2}));
    const Output h = Double(scope, "h", PartialShape({2}));
    const Outputs results =
        CountedLoop(scope, "loop", 3, {x, w, h}, [](const Scope& s, const Outputs& args) {
          const Output column = s.Call("ExpandDims", {args[3], 1});
          const Output product = s.Call("Squeeze", {s.Call("MatMul", {args[2], column})},
                                        {{"squeeze_dims", std::vector<int64_t>{1}}});
          const Output row = s.Call("GatherV2", {args[1], args[0], 0});
          return Outputs{args[1], args[2], s.Call("Tanh", {s.Call("AddV2", {product, row})})};
        });
    const Output y = scope.Call("Sum", {scope.Call("Square", {results[2]}), 0});
    outputs = Gradients(scope, y, {x, w, h});
    outputs.insert(outputs.begin(), y);
  }

  const Session::Feeds feeds = {
      {"x", Tensor::FromValues<double>({3, 2}, {0.5, -0.2, 0.1, 0.4, -0.3, 0.8})},
      {"w", Tensor::FromValues<double>({2, 2}, {0.3, -0.6, 0.7, 0.2})},
      {"h", Tensor::Vector<double>({0.1, -0.4})}};
  Outputs outputs;
  const std::vector<std::vector<double>> wanted = {
      {0.9763992046093897},
      {0.142818531, -0.000794047, 0.103547785, 0.306495444, -0.760688764, 0.501357688},
      {-0.219553913, -0.588519063, 0.396469687, 0.272990215},
      {0.042289726, -0.085849928}};
};

TEST(LoopGradient, OfARecurrenceIsTensorFlows) {
  const Scope scope = Scope::NewRoot();
  const Recurrence recurrence(scope);
  ExpectNear(Values(scope, recurrence.feeds, recurrence.outputs), recurrence.wanted);
}

TEST(LoopGradient, ComesOutTheSameOnADeviceWithItsOwnMemory) {
  const Scope scope = Scope::NewRoot();
  const Recurrence recurrence(scope);
  ExpectNear(Values(scope, recurrence.feeds, recurrence.outputs, OnSim()), recurrence.wanted);
}

// p goes i times through an inner loop whose turns differ, and is summed up squared.
void CompareNestedLoops(const SessionOptions& options) {
  const Scope scope = Scope::NewRoot();
  const Output a = Double(scope, "a");
  const Output b = Double(scope, "b");
  const std::vector<DataType> three = {kFloat64, kFloat64, kFloat64};
  const auto turn = [&](const Scope& s, const Outputs& args) {
    const FunctionRef even = Define(s, "even", three, [](const Scope& in, const Outputs& v) {
      return Outputs{in.Call("Mul", {v[0], v[1]})};
    });
    const FunctionRef odd = Define(s, "odd", three, [](const Scope& in, const Outputs& v) {
      return Outputs{in.Call("AddV2", {in.Call("Sin", {v[0]}), v[2]})};
    });
    const Output is_even = s.Call("Equal", {s.Call("FloorMod", {args[0], 2}), 0});
    const Output next = s.Call(
        "StatelessIf", {is_even, args[2], args[3], args[4]},
        {{"then_branch", even}, {"else_branch", odd}, {"Tout", std::vector<DataType>{kFloat64}}});
    return Outputs{s.Call("AddV2", {args[0], 1}), args[1], next, args[3], args[4]};
  };
  const Outputs results =
      CountedLoop(scope, "outer", 4, {scope.Constant(0.0), scope.Constant(1.0), a, b},
                  [&](const Scope& s, const Outputs& args) {
                    const Output limit = s.Call("AddV2", {args[0], 1});
                    const Outputs inner = Loop(
                        s, "inner", {s.Constant(0), limit, args[2], args[3], args[4]},
                        [](const Scope& in, const Outputs& v) {
                          return in.Call("Less", {v[0], v[1]});
                        },
                        turn);
                    const Output sum = s.Call("AddV2", {args[1], s.Call("Square", {inner[2]})});
                    return Outputs{sum, inner[2], args[3], args[4]};
                  });
  const Output y = scope.Call("AddV2", {results[0], results[1]});
  Outputs outputs = Gradients(scope, y, {a, b});
  outputs.insert(outputs.begin(), y);
  ExpectNear(
      Values(scope, {{"a", Tensor::Scalar<double>(1.3)}, {"b", Tensor::Scalar<double>(0.25)}},
             outputs, options),
      {{8.653851747828314}, {5.264436965762922}, {10.05095241434283}});
}

TEST(LoopGradient, OfNestedLoopsWithAConditionalIsTensorFlows) { CompareNestedLoops({}); }

TEST(LoopGradient, OfNestedLoopsIsTheSameOnADeviceWithItsOwnMemory) { CompareNestedLoops(OnSim()); }

TEST(LoopGradient, OfLookupsIsTensorFlows) {
  const Scope scope = Scope::NewRoot();
  const Output table = Double(scope, "table", PartialShape({3, 2}));
  const Output h = Double(scope, "h", PartialShape({2}));
  const Outputs results =
      CountedLoop(scope, "loop", 4, {table, h}, [](const Scope& s, const Outputs& args) {
        const Output row = s.Call("GatherV2", {s.Constant({2, 0, 2, 2}), args[0], 0});
        const Output product = s.Call("Mul", {args[2], s.Call("GatherV2", {args[1], row, 0})});
        return Outputs{args[1], s.Call("Sin", {s.Call("AddV2", {product, args[2]})})};
      });
  const Output y = scope.Call("Sum", {results[1], 0});
  Outputs outputs = Gradients(scope, y, {table, h});
  outputs.insert(outputs.begin(), y);
  ExpectNear(
      Values(scope,
             {{"table", Tensor::FromValues<double>({3, 2}, {0.2, 0.5, -0.4, 0.3, 0.6, -0.1})},
              {"h", Tensor::Vector<double>({0.1, -0.4})}},
             outputs),
      {{0.07653467650722617},
       {0.339062612, -0.204475813, 0, 0, 0.77524243, -1.10711361},
       {4.033971929, 0.733369436}});
}

// v ← 0.9 v² + sin v
Outputs SquareAndSine(const Scope& s, const Outputs& args) {
  const Output square = s.Call("Mul", {s.Call("Mul", {args[1], args[1]}), 0.9});
  return {s.Call("AddV2", {square, s.Call("Sin", {args[1]})})};
}

TEST(LoopGradient, SecondDerivativesAreTensorFlows) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output y = CountedLoop(scope, "loop", 3, {x}, SquareAndSine)[0];
  const Outputs first = Gradients(scope, y, {x});
  ASSERT_EQ(first.size(), 1u);
  const Outputs second = Gradients(scope, first[0], {x});
  ASSERT_EQ(second.size(), 1u);
  ExpectNear(Values(scope, {{"x", Tensor::Scalar<double>(0.7)}}, {y, first[0], second[0]}),
             {{4.3334294582636295}, {15.362035729019158}, {41.4034116574459}});
}

TEST(LoopGradient, ALoopWhoseGradientNeedsNothingStaysAsItIs) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output y = CountedLoop(scope, "loop", 3, {x}, [](const Scope& s, const Outputs& args) {
    return Outputs{s.Call("Mul", {args[1], 2.0})};
  })[0];
  const int outputs = y.node->num_outputs();
  const Outputs dx = Gradients(scope, y, {x});
  EXPECT_EQ(y.node->num_outputs(), outputs);
  ExpectNear(Values(scope, {{"x", Tensor::Scalar<double>(1)}}, dx), {{8}});
}

TEST(LoopGradient, HistoryIsKeptOnceForSeveralGradients) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output y = CountedLoop(scope, "loop", 3, {x}, SquareAndSine)[0];
  const int plain = y.node->num_outputs();
  const Outputs once = Gradients(scope, y, {x});
  const int grown = y.node->num_outputs();
  EXPECT_EQ(grown, plain + 1);  // v alone: the loop counts its turns itself.
  const Outputs again = Gradients(scope, y, {x});
  EXPECT_EQ(y.node->num_outputs(), grown);
  ExpectNear(Values(scope, {{"x", Tensor::Scalar<double>(0.7)}}, {y, once[0], again[0]}),
             {{4.3334294582636295}, {15.362035729019158}, {15.362035729019158}});
}

TEST(LoopGradient, MayBeAddedToASessionThatHasRunTheLoop) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output y = CountedLoop(scope, "loop", 3, {x}, SquareAndSine, "While")[0];
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto session = Session::Create(*scope.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  const Session::Feeds feeds = {{"x", Tensor::Scalar<double>(0.7)}};
  const auto alone = (*session)->Run(feeds, {y.name()});
  ASSERT_TRUE(alone.ok()) << alone.status();
  std::string dx;
  const absl::Status extended = (*session)->Extend([&](Graph& graph) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(const Output own_x, graph.GetOutput("x"));
    TANDEM_ASSIGN_OR_RETURN(const Output own_y, graph.GetOutput(y.name()));
    TANDEM_ASSIGN_OR_RETURN(const auto gradients, AddGradients(&graph, {own_y}, {own_x}));
    dx = gradients[0].values.name();
    return absl::OkStatus();
  });
  ASSERT_TRUE(extended.ok()) << extended;
  const auto both = (*session)->Run(feeds, {y.name(), dx});
  ASSERT_TRUE(both.ok()) << both.status();
  ExpectNear(*both, {{4.3334294582636295}, {15.362035729019158}});
}

TEST(LoopGradient, ValuesThatStayTheSameAreNotKept) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output w = Double(scope, "w");
  const Output y = CountedLoop(scope, "loop", 3, {x, w}, [](const Scope& s, const Outputs& args) {
    return Outputs{s.Call("Mul", {args[1], args[2]}), s.Call("Identity", {args[2]})};
  })[0];
  const int plain = y.node->num_outputs();
  const Outputs dx = Gradients(scope, y, {x});
  EXPECT_EQ(y.node->num_outputs(), plain + 1);  // x, for the gradient of w.
  ExpectNear(
      Values(scope, {{"x", Tensor::Scalar<double>(1)}, {"w", Tensor::Scalar<double>(5)}}, dx),
      {{125}});
}

TEST(LoopGradient, RandomNumbersAreDrawnOnce) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output y = CountedLoop(
      scope, "loop", 5, {x},
      [](const Scope& s, const Outputs& args) {
        const Output noise =
            s.Call("RandomUniform", {s.Call("Shape", {args[1]})}, {{"dtype", kFloat64}});
        return Outputs{s.Call("Mul", {args[1], noise})};
      },
      "While")[0];
  const Outputs dx = Gradients(scope, y, {x});
  ASSERT_EQ(dx.size(), 1u);
  const std::vector<Tensor> results = Values(scope, {{"x", Tensor::Scalar<double>(2)}}, {y, dx[0]});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NE(results[1].ScalarValue<double>(), 0);
  EXPECT_NEAR(results[0].ScalarValue<double>(), 2 * results[1].ScalarValue<double>(), 1e-15);
}

TEST(LoopGradient, AThousandTurns) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output y = CountedLoop(scope, "loop", 1000, {x}, [](const Scope& s, const Outputs& args) {
    const Output square = s.Call("Square", {args[1]});
    return Outputs{s.Call("AddV2", {args[1], s.Call("Mul", {square, 0.0})})};
  })[0];
  ExpectNear(Values(scope, {{"x", Tensor::Scalar<double>(3)}}, Gradients(scope, y, {x})), {{1}});
}

TEST(LoopGradient, IntegersHaveNone) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Outputs results = Loop(
      scope, "loop", {scope.Constant(0), x},
      [](const Scope& s, const Outputs& args) {
        return s.Call("Less", {args[0], 3});
      },
      [](const Scope& s, const Outputs& args) {
        return Outputs{s.Call("AddV2", {args[0], 1}), s.Call("Exp", {args[1]})};
      });
  const Output y = scope.Call("Cast", {results[0]}, {{"DstT", kFloat64}});
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto gradients = AddGradients(scope.graph(), {y}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_FALSE((*gradients)[0].exists());
}

TEST(LoopGradient, NamesTheNodeThatHasNone) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output y = CountedLoop(scope, "loop", 3, {x}, [](const Scope& s, const Outputs& args) {
    return Outputs{s.WithOpName("stop_here").Call("PreventGradient", {args[1]})};
  })[0];
  const absl::Status status = GradientError(scope, y, x);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(absl::StrContains(status.message(), "'stop_here'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "'loop_body'")) << status;
}

TEST(LoopGradient, LoopsOfFramesHaveNone) {
  const Scope scope = Scope::NewRoot();
  const Output x = Double(scope, "x");
  const Output in = scope.WithOpName("into_the_loop").Call("Enter", {x}, {{"frame_name", "frame"}});
  const Output out = scope.Call("Exit", {in});
  const absl::Status status = GradientError(scope, out, x);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "'Exit'")) << status;
}

TEST(LoopGradient, RecursionHasNone) {
  const Scope scope = Scope::NewRoot();
  const std::vector<DataType> one = {kFloat64};
  Define(scope, "endless", one, [&](const Scope& s, const Outputs& args) {
    return Outputs{s.Call("PartitionedCall", {s.Call("Sin", {args[0]})},
                          {{"f", FunctionRef{"endless", {}}}, {"Tout", one}})};
  });
  const Output x = Double(scope, "x");
  const Output y =
      scope.Call("PartitionedCall", {x}, {{"f", FunctionRef{"endless", {}}}, {"Tout", one}});
  const absl::Status status = GradientError(scope, y, x);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "'endless'")) << status;
}

// Doubles the number of calls with each of its levels.
TEST(LoopGradient, CallsInCallsEndBeforeTheMemoryDoes) {
  const Scope scope = Scope::NewRoot();
  const std::vector<DataType> one = {kFloat64};
  const auto call = [&](const Scope& s, const Output& x, const std::string& f) {
    return s.Call("PartitionedCall", {x}, {{"f", FunctionRef{f, {}}}, {"Tout", one}});
  };
  constexpr int kLevels = 30;
  for (int i = 0; i < kLevels; ++i) {
    Define(scope, absl::StrCat("f", i), one, [&](const Scope& s, const Outputs& args) {
      const std::string next = absl::StrCat("f", i + 1);
      return Outputs{call(s, call(s, args[0], next), next)};
    });
  }
  Define(scope, absl::StrCat("f", kLevels), one,
         [](const Scope& s, const Outputs& args) { return Outputs{s.Call("Neg", {args[0]})}; });
  const Output x = Double(scope, "x");
  const absl::Status status = GradientError(scope, call(scope, x, "f0"), x);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST(CallGradient, SecondDerivativesOfAConditional) {
  const Scope scope = Scope::NewRoot();
  const std::vector<DataType> one = {kFloat64};
  const FunctionRef cube = Define(scope, "cube", one, [](const Scope& s, const Outputs& args) {
    return Outputs{s.Call("Mul", {s.Call("Square", {args[0]}), args[0]})};
  });
  const FunctionRef sine = Define(scope, "sine", one, [](const Scope& s, const Outputs& args) {
    return Outputs{s.Call("Sin", {args[0]})};
  });
  const Output x = Double(scope, "x");
  const Output is_large = scope.Call("Greater", {x, 1.0});
  const Output y = scope.Call("StatelessIf", {is_large, x},
                              {{"then_branch", cube}, {"else_branch", sine}, {"Tout", one}});
  const Outputs first = Gradients(scope, y, {x});
  ASSERT_EQ(first.size(), 1u);
  const Outputs second = Gradients(scope, first[0], {x});
  ASSERT_EQ(second.size(), 1u);
  const auto expect = [&](double at, double dy, double ddy) {
    ExpectNear(Values(scope, {{"x", Tensor::Scalar<double>(at)}}, {first[0], second[0]}),
               {{dy}, {ddy}});
  };
  expect(2, 12, 12);
  expect(0.5, std::cos(0.5), -std::sin(0.5));
}

TEST(LoopGradient, HandlesMustStayTheSame) {
  const Scope scope = Scope::NewRoot();
  const auto variable = [&](const std::string& name) {
    return scope.WithOpName(name).Call("VarHandleOp", {},
                                       {{"dtype", kFloat64}, {"shape", PartialShape({})}});
  };
  const Output a = variable("a");
  const Output y = CountedLoop(
      scope, "loop", 3, {a, variable("b"), Double(scope, "x")},
      [](const Scope& s, const Outputs& args) {
        const Output w = s.Call("ReadVariableOp", {args[1]}, {{"dtype", kFloat64}});
        return Outputs{args[2], args[1], s.Call("Mul", {args[3], w})};
      },
      "While")[2];
  const absl::Status status = GradientError(scope, y, a);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

}  // namespace
}  // namespace tandem
