// Functions beyond the elementary ones, and products that know zero.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {

std::vector<GradientCase> SpecialFunctionCases() {
  GradientCases cases;
  struct Range {
    const char* op;
    double low;
    double high;
    bool is_complex = false;
  };
  const std::vector<Range> ranges = {
      {"Sinh", -2, 2, true},     {"Cosh", -2, 2, true},      {"Asin", -0.8, 0.8, true},
      {"Acos", -0.8, 0.8, true}, {"Atan", -0.8, 0.8, true},  {"Asinh", -0.8, 0.8, true},
      {"Acosh", 1.2, 3, true},   {"Atanh", -0.8, 0.8, true}, {"Erfc", -2, 2},
      {"Erfinv", -0.9, 0.9},     {"Ndtri", 0.05, 0.95},      {"Lgamma", 0.5, 4},
      {"Digamma", 0.5, 4},
  };
  for (const Range& range : ranges) {
    cases.Op(range.op, "values", {Spread({2, 3}, range.low, range.high)}).WithTolerance(1e-5, 1e-6);
    if (range.is_complex) {
      cases.Op(range.op, "complex", {Complex({2, 2}, range.low, range.high)})
          .WithTolerance(1e-5, 1e-6);
    }
  }
  for (const char* op : {"Xlogy", "Xlog1py", "Xdivy", "MulNoNan", "Atan2"}) {
    cases.Op(op, "same", {Spread({2, 3}, 0.5, 2), Spread({2, 3}, 0.5, 2, 2)});
    cases.Op(op, "rows", {Spread({2, 3}, 0.5, 2), Spread({3}, 0.5, 2, 2)});
    cases.Op(op, "columns", {Spread({2, 1}, 0.5, 2), Spread({2, 3}, 0.5, 2, 2)});
    if (std::string(op) == "Atan2") continue;
    cases.Op(op, "complex", {Complex({2, 2}, 0.5, 2), Complex({2}, 0.5, 2, 2)})
        .WithTolerance(1e-5, 1e-6);
  }
  cases.Op("Polygamma", "orders", {Tensor::FromValues<double>({3}, {1, 2, 3}), Spread({3}, 1, 3)})
      .WithConstants({0})
      .WithTolerance(1e-5, 1e-6);
  cases.Op("Zeta", "values", {Spread({3}, 2, 4), Spread({2, 3}, 1, 3, 2)})
      .WithConstants({0})
      .WithTolerance(1e-5, 1e-6);
  for (const char* op : {"Igamma", "Igammac"}) {
    cases.Op(op, "values", {Spread({2, 3}, 0.5, 3), Spread({3}, 0.5, 3, 2)})
        .WithTolerance(1e-5, 1e-6);
  }
  return cases.Take();
}

}  // namespace tandem::testing
