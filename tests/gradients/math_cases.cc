// Elementwise functions, products of matrices, sums of several tensors.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

// Functions of one argument, where they are smooth.
void AddUnary(GradientCases& cases) {
  struct Range {
    const char* op;
    double low;
    double high;
    bool is_complex = false;
  };
  const std::vector<Range> ranges = {
      {"Neg", -2, 2, true},     {"Square", -2, 2, true},  {"Sqrt", 0.5, 3, true},
      {"Rsqrt", 0.5, 3, true},  {"Exp", -2, 2, true},     {"Expm1", -1, 1, true},
      {"Log", 0.5, 3, true},    {"Log1p", -0.5, 2, true}, {"Sin", -3, 3, true},
      {"Cos", -3, 3, true},     {"Tan", -1, 1, true},     {"Tanh", -2, 2, true},
      {"Sigmoid", -3, 3, true}, {"Inv", 0.5, 2, true},    {"Reciprocal", 0.5, 2, true},
      {"Erf", -2, 2},           {"Softplus", -4, 4},      {"Softsign", 0.1, 3},
      {"Ceil", 0.2, 0.8},       {"Floor", 0.2, 0.8},      {"Rint", 0.6, 1.4},
      {"Round", 0.6, 1.4},
  };
  for (const Range& range : ranges) {
    cases.Op(range.op, "values", {Spread({2, 3}, range.low, range.high)});
    if (range.is_complex) {
      cases.Op(range.op, "complex", {Complex({2, 2}, range.low, range.high)})
          .WithTolerance(1e-5, 1e-6);
    }
  }
  cases.Op("Exp", "empty", {Spread({0, 3})});
  cases.Op("Exp", "scalar", {Spread({}, 0.2, 1)});
  for (const char* op : {"Abs", "Sign", "Relu", "Relu6", "LeakyRelu", "Elu", "Selu"}) {
    cases.Op(op, "both_sides_of_zero", {AwayFromZero({3, 4}, 0.2, 2)});
  }
  cases.Op("Relu6", "both_sides_of_six", {Spread({8}, 4, 8)});
  cases.Op("LeakyRelu", "slope", {AwayFromZero({6}, 0.2, 2)}, {{"alpha", 0.5f}});
  cases.Op("Softsign", "negative", {Spread({4}, -3, -0.1)});
  cases.Op("CheckNumerics", "values", {Spread({3})}, {{"message", "checked"}});
}

// Gradients are ops with gradients of their own.
void AddUnaryGradients(GradientCases& cases) {
  for (const char* op :
       {"TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad"}) {
    cases.Op(op, "values", {Spread({2, 3}, 0.4, 1.5), Spread({2, 3}, -1, 1, 2)});
    cases.Op(op, "complex", {Complex({3}, 0.4, 1.5), Complex({3}, -1, 1, 2)})
        .WithTolerance(1e-5, 1e-6);
  }
  for (const char* op : {"EluGrad", "SeluGrad"}) {
    cases.Op(op, "both_sides_of_zero", {Spread({8}), AwayFromZero({8}, 0.1, 0.9)});
  }
  cases.Op("SoftplusGrad", "values", {Spread({6}), Spread({6}, -3, 3, 2)});
  for (const char* op : {"ReluGrad", "Relu6Grad", "LeakyReluGrad"}) {
    cases.Op(op, "both_sides_of_zero", {Spread({8}), AwayFromZero({8}, 0.2, 2)});
  }
  cases.Op("Relu6Grad", "both_sides_of_six", {Spread({8}), Spread({8}, 4, 8, 2)});
  cases.Op("LeakyReluGrad", "slope", {Spread({8}), AwayFromZero({8}, 0.2, 2)}, {{"alpha", 0.5f}});
}

void AddBinary(GradientCases& cases) {
  struct Shapes {
    const char* name;
    Shape x;
    Shape y;
  };
  const std::vector<Shapes> all_shapes = {
      {"same", {2, 3}, {2, 3}}, {"scalar_y", {2, 3}, {}},    {"scalar_x", {}, {2, 3}},
      {"rows", {2, 3}, {3}},    {"columns", {2, 3}, {2, 1}}, {"both", {2, 1, 3}, {4, 1}},
      {"ones", {1}, {1, 1}},    {"empty", {0, 3}, {3}},      {"empty_y", {1, 3}, {0, 3}},
  };
  for (const char* op :
       {"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "Pow", "SquaredDifference"}) {
    for (const Shapes& shapes : all_shapes) {
      cases.Op(op, shapes.name, {Spread(shapes.x, 0.5, 2), Spread(shapes.y, 0.5, 2, 2)});
    }
    cases.Op(op, "complex", {Complex({2, 2}, 0.5, 2), Complex({2}, 0.5, 2, 2)})
        .WithTolerance(1e-5, 1e-6);
    cases.Op(op, "complex_scalar", {Complex({}, 0.5, 2), Complex({3}, 0.5, 2, 2)})
        .WithTolerance(1e-5, 1e-6);
  }
  for (const char* op : {"Maximum", "Minimum"}) {
    for (const Shapes& shapes : all_shapes) {
      // The values of the two lie 0.05 apart at least.
      cases.Op(op, shapes.name, {Distinct(shapes.x), Spread(shapes.y, -0.02, 0.02, 2)});
    }
  }
  // Of the first argument only: the second one lies where there is nothing to differentiate.
  const auto of_first = [](const char* op) {
    return [op](const Scope& scope, std::vector<Output>& xs) {
      const Output second = scope.Call("StopGradient", {xs[1]});
      return std::vector<Output>{scope.Call(op, {xs[0], second})};
    };
  };
  const auto numbers = [](std::initializer_list<double> values) {
    return Tensor::Vector<double>(values);
  };
  cases.Program("DivNoNan", "by_zero", {Spread({3}), numbers({2, 3, 0})}, of_first("DivNoNan"))
      .WithConstants({1});
  cases
      .Program("Pow", "negative_base", {Spread({4}, -2, -0.5), numbers({2, 3, -1, 0})},
               of_first("Pow"))
      .WithConstants({1});
  cases.Program("Pow", "zero_base", {numbers({0, 0, 0}), numbers({1, 2, 3})}, of_first("Pow"))
      .WithConstants({1});
  // Steps: the gradient is zero, or that of the first argument.
  cases.Op("FloorDiv", "values", {Spread({4}, 2.2, 2.8), Spread({4}, 0.95, 1.05, 2)});
  cases.Op("TruncateDiv", "values",
           {Tensor::Vector<double>({2.4, -2.4}), Tensor::Vector<double>({1.05, 1.02})});
  cases.Op("FloorMod", "values",
           {Tensor::Vector<double>({5.3, -5.3, 5.3, -5.3}),
            Tensor::Vector<double>({2.1, 2.1, -2.1, -2.1})});
  cases.Op(
      "FloorMod", "broadcast",
      {Tensor::FromValues<double>({2, 2}, {5.3, -5.3, 3.2, 0.4}), Tensor::Scalar<double>(2.1)});
}

void AddComplexParts(GradientCases& cases) {
  cases.Op("Complex", "parts", {Spread({2, 2}), Spread({2, 2}, -1, 1, 2)}, {{"Tout", kComplex128}});
  cases.Op("Complex", "broadcast", {Spread({2, 2}), Spread({2}, -1, 1, 2)},
           {{"Tout", kComplex128}});
  cases.Op("Real", "part", {Complex({3})}, {{"Tout", kFloat64}});
  cases.Op("Imag", "part", {Complex({3})}, {{"Tout", kFloat64}});
  cases.Op("Conj", "values", {Complex({3})});
  cases.Op("ComplexAbs", "values", {Complex({3}, 0.5, 2)}, {{"Tout", kFloat64}});
  cases.Op("Angle", "values", {Complex({4}, 0.5, 2)}, {{"Tout", kFloat64}});
  cases.Op("Cast", "to_single", {Spread({3}, -1, 1, 1, kFloat64)}, {{"DstT", kFloat32}})
      .WithTolerance(1e-2, 1e-4);
  cases.Op("Cast", "to_double", {Spread({3}, -1, 1, 1, kFloat32)}, {{"DstT", kFloat64}});
  cases.Op("Cast", "to_complex", {Spread({3})}, {{"DstT", kComplex128}});
  cases.Op("Cast", "from_complex", {Complex({3})}, {{"DstT", kFloat64}});
}

void AddProducts(GradientCases& cases) {
  const Shape a({2, 3});
  const Shape a_transposed({3, 2});
  const Shape b({3, 4});
  const Shape b_transposed({4, 3});
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const std::string name =
          absl::StrCat(ta ? "transposed" : "plain", "_times_", tb ? "transposed" : "plain");
      const Shape& sa = ta ? a_transposed : a;
      const Shape& sb = tb ? b_transposed : b;
      const AttrMap transposes = {{"transpose_a", ta}, {"transpose_b", tb}};
      cases.Op("MatMul", name, {Spread(sa), Spread(sb, -1, 1, 2)}, transposes);
      cases.Op("MatMul", name + "_complex", {Complex(sa), Complex(sb, -1, 1, 2)}, transposes);
      const AttrMap adjoints = {{"adj_x", ta}, {"adj_y", tb}};
      const auto batched = [](const Shape& s, std::initializer_list<int64_t> batch) {
        Shape::Dims dims(batch.begin(), batch.end());
        dims.insert(dims.end(), s.dims().begin(), s.dims().end());
        return *Shape::FromDims(dims);
      };
      for (const char* op : {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}) {
        AttrMap attrs = adjoints;
        if (std::string(op) == "BatchMatMulV3") attrs["Tout"] = kFloat64;
        cases.Op(op, name, {Spread(batched(sa, {2})), Spread(batched(sb, {2}), -1, 1, 2)}, attrs);
        if (std::string(op) == "BatchMatMulV3") attrs["Tout"] = kComplex128;
        cases.Op(op, name + "_complex",
                 {Complex(batched(sa, {2})), Complex(batched(sb, {2}), -1, 1, 2)}, attrs);
      }
      for (const char* op : {"BatchMatMulV2", "BatchMatMulV3"}) {
        AttrMap attrs = adjoints;
        if (std::string(op) == "BatchMatMulV3") attrs["Tout"] = kFloat64;
        cases.Op(op, name + "_broadcast",
                 {Spread(batched(sa, {2, 1})), Spread(batched(sb, {3}), -1, 1, 2)}, attrs);
        cases.Op(op, name + "_one_matrix", {Spread(sa), Spread(batched(sb, {2}), -1, 1, 2)}, attrs);
      }
    }
  }
  cases.Op("MatMul", "empty_inner", {Spread({2, 0}), Spread({0, 3})});
  cases.Op("MatMul", "empty_outer", {Spread({0, 2}), Spread({2, 3})});
  cases.Op("BatchMatMulV2", "empty_batch", {Spread({0, 2, 3}), Spread({3, 2})});
}

void AddOthers(GradientCases& cases) {
  cases.Op("AddN", "three", {Spread({2, 2}), Spread({2, 2}, -1, 1, 2), Spread({2, 2}, -1, 1, 3)});
  cases.Op("AccumulateNV2", "two", {Spread({2}), Spread({2}, -1, 1, 2)},
           {{"shape", PartialShape({2})}});
  cases.Op("L2Loss", "values", {Spread({2, 3})});
  cases.Op("ClipByValue", "both_ends",
           {Distinct({12}), Tensor::Scalar<double>(-0.3), Tensor::Scalar<double>(0.4)});
  cases.Op("ClipByValue", "bounds_of_the_same_shape",
           {Distinct({6}), Spread({6}, -0.22, -0.18), Spread({6}, 0.18, 0.22)});
  const Tensor condition = Tensor::Vector<bool>({true, false, true});
  for (const char* op : {"Select", "SelectV2"}) {
    cases.Op(op, "same_shape", {condition, Spread({3}), Spread({3}, -1, 1, 2)});
    cases.Op(op, "scalar_condition",
             {Tensor::Scalar<bool>(false), Spread({2, 2}), Spread({2, 2}, -1, 1, 2)});
  }
  cases.Op("Select", "rows", {condition, Spread({3, 2}), Spread({3, 2}, -1, 1, 2)});
  cases.Op("SelectV2", "broadcast", {condition, Spread({2, 1}), Spread({}, -1, 1, 2)});
  cases.Op("SelectV2", "broadcast_condition",
           {Tensor::FromValues<bool>({2, 1}, {true, false}), Spread({3}), Spread({2, 3})});
}

}  // namespace

std::vector<GradientCase> MathCases() {
  GradientCases cases;
  AddUnary(cases);
  AddUnaryGradients(cases);
  AddBinary(cases);
  AddComplexParts(cases);
  AddProducts(cases);
  AddOthers(cases);
  return cases.Take();
}

}  // namespace tandem::testing
