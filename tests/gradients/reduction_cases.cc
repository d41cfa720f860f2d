// Reductions along axes, running sums, sums of segments.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {

std::vector<GradientCase> ReductionCases() {
  GradientCases cases;
  struct Axes {
    const char* name;
    Tensor axes;
    bool keep_dims;
  };
  const std::vector<Axes> all_axes = {
      {"first", Ints({0}), false},
      {"middle_kept", Ints({1}), true},
      {"last", Ints({-1}), false},
      {"two", Ints({0, 2}), false},
      {"two_in_other_order", Ints({2, 0}), true},
      {"all", Ints({0, 1, 2}), false},
      {"none", Ints({}), false},
      {"scalar_axis", Int(1), false},
      {"int64", Tensor::Vector<int64_t>({-1, 0}), false},
  };
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min"}) {
    for (const Axes& axes : all_axes) {
      const bool compares = op[0] == 'M' && op[1] != 'e';
      cases.Op(op, axes.name,
               {compares ? Distinct({2, 3, 2}) : Spread({2, 3, 2}, 0.5, 1.5), axes.axes},
               {{"keep_dims", axes.keep_dims}});
    }
  }
  for (const char* op : {"Sum", "Mean", "Prod"}) {
    cases.Op(op, "complex", {Complex({2, 3}, 0.5, 1.5), Ints({1})});
    cases.Op(op, "empty", {Spread({0, 3}), Ints({1})});
  }
  cases.Op("Sum", "of_nothing", {Spread({0, 3}), Ints({0})});
  cases.Op("Sum", "of_a_scalar", {Spread({}), Ints({})});
  const Tensor with_zeros = Tensor::FromValues<double>({3, 3}, {1, 2, 3, 0, 2, 1, 0, 1, 0});
  cases.Op("Prod", "zeros", {with_zeros, Ints({1})}).WithTolerance(1e-4, 1e-7);
  cases.Op("Prod", "zeros_along_columns", {with_zeros, Ints({0})}).WithTolerance(1e-4, 1e-7);

  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      const std::string name =
          absl::StrCat(exclusive ? "exclusive" : "inclusive", reverse ? "_reversed" : "");
      const AttrMap attrs = {{"exclusive", exclusive}, {"reverse", reverse}};
      cases.Op("Cumsum", name, {Spread({2, 4}), Int(1)}, attrs);
      cases.Op("Cumsum", name + "_complex", {Complex({2, 4}), Int(0)}, attrs);
      cases.Op("Cumprod", name, {Spread({2, 4}, 0.5, 1.5), Int(1)}, attrs);
      cases.Op("Cumprod", name + "_negative_axis", {Spread({3, 2}, 0.5, 1.5), Int(-2)}, attrs);
      cases.Op("Cumprod", name + "_complex", {Complex({2, 3}, 0.5, 1.5), Int(1)}, attrs)
          .WithTolerance(1e-5, 1e-6);
    }
  }

  cases.Op("SegmentSum", "rows", {Spread({4, 2}), Ints({0, 0, 2, 2})});
  cases.Op("SegmentSum", "vector", {Spread({3}), Tensor::Vector<int64_t>({0, 1, 1})});
  cases.Op("SegmentSum", "empty", {Spread({0, 2}), Ints({})});
  cases.Op("UnsortedSegmentSum", "rows", {Spread({4, 2}), Ints({2, 0, 2, 1}), Int(4)});
  cases.Op("UnsortedSegmentSum", "dropped_rows", {Spread({4, 2}), Ints({2, -1, 0, -1}), Int(3)});
  cases.Op("UnsortedSegmentSum", "matrix_of_ids",
           {Spread({2, 2, 2}), Tensor::FromValues<int32_t>({2, 2}, {1, 0, 1, 1}), Int(2)});
  cases.Op("UnsortedSegmentSum", "complex", {Complex({3}), Ints({1, 0, 1}), Int(2)});
  // The place of the largest is no smooth function of anything.
  for (const char* op : {"ArgMax", "ArgMin"}) {
    cases.Program(op, "counts_as_constant", {Distinct({2, 3}), Int(1)},
                  [op](const Scope& scope, std::vector<Output>& xs) {
                    const Output place = scope.Call(op, {xs[0], xs[1]});
                    const Output number = scope.Call("Cast", {place}, {{"DstT", kFloat64}});
                    const Output sum = scope.Call("Sum", {xs[0], xs[1]});
                    return std::vector<Output>{scope.Call("Mul", {number, sum})};
                  });
  }
  return cases.Take();
}

}  // namespace tandem::testing
