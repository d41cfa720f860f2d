// Ops that look elements up by index, and those whose gradients are sparse.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

Tensor Indices(Shape shape, std::initializer_list<int32_t> values) {
  return Tensor::FromValues<int32_t>(std::move(shape), values);
}

void AddGathers(GradientCases& cases) {
  cases.Op("Gather", "rows", {Spread({4, 2}), Ints({3, 0, 3})}).WithSparse({0});
  cases
      .Op("Gather", "matrix_of_indices",
          {Spread({3, 2}), Tensor::FromValues<int64_t>({2, 2}, {0, 2, 2, 2})})
      .WithSparse({0});
  cases.Op("Gather", "vector", {Spread({4}), Ints({1, 1})}).WithSparse({0});
  cases.Op("GatherV2", "rows", {Spread({4, 2}), Ints({3, 0, 3}), Int(0)}).WithSparse({0});
  cases.Op("GatherV2", "scalar_index", {Spread({4, 2}), Int(2), Int(0)}).WithSparse({0});
  cases.Op("GatherV2", "no_indices", {Spread({4, 2}), Ints({}), Int(0)}).WithSparse({0});
  cases.Op("GatherV2", "columns", {Spread({2, 4}), Ints({3, 0, 3}), Int(1)});
  cases.Op("GatherV2", "negative_axis", {Spread({2, 3, 4}), Ints({3, 3}), Int(-1)});
  cases.Op("GatherV2", "middle_by_matrix",
           {Spread({2, 3, 2}), Indices({2, 2}, {0, 2, 2, 1}), Tensor::Scalar<int64_t>(1)});
  cases.Op("GatherV2", "batch", {Spread({2, 3, 2}), Indices({2, 2}, {0, 2, 1, 1}), Int(1)},
           {{"batch_dims", 1}});
  cases.Op("GatherV2", "batch_and_later_axis",
           {Spread({2, 2, 3}), Indices({2, 2}, {0, 2, 1, 1}), Int(2)}, {{"batch_dims", 1}});
  cases.Op("GatherNd", "elements", {Spread({3, 2}), Indices({3, 2}, {0, 1, 2, 0, 0, 1})});
  // Rows by one index each: as sparse as a gather.
  cases.Op("GatherNd", "rows", {Spread({3, 2}), Indices({2, 1}, {2, 2})}).WithSparse({0});
  cases.Op("GatherNd", "blocks", {Spread({2, 2, 2}), Indices({3, 2}, {1, 1, 0, 1, 1, 1})});
  cases.Op("ScatterNd", "elements",
           {Indices({3, 2}, {0, 1, 2, 0, 0, 1}), Spread({3}), Ints({3, 2})});
  cases.Op("ScatterNd", "rows", {Indices({2, 1}, {2, 0}), Spread({2, 3}), Ints({4, 3})});
}

// A lookup whose gradient meets others on its way.
void AddLookups(GradientCases& cases) {
  cases
      .Program("GatherV2", "two_lookups_stay_sparse", {Spread({4, 2}), Ints({1, 3})},
               [](const Scope& scope, std::vector<Output>& xs) {
                 const Output some = scope.Call("GatherV2", {xs[0], xs[1], 0});
                 const Output wide = scope.Call("Cast", {xs[1]}, {{"DstT", kInt64}});
                 const Output others = scope.Call("GatherV2", {xs[0], wide, 0});
                 return std::vector<Output>{scope.Call("Mul", {some, others})};
               })
      .WithSparse({0});
  cases.Program("GatherV2", "a_dense_use_makes_dense", {Spread({4, 2}), Ints({1, 3, 1})},
                [](const Scope& scope, std::vector<Output>& xs) {
                  const Output rows = scope.Call("GatherV2", {xs[0], xs[1], 0});
                  const Output sum = scope.Call("Sum", {xs[0], 0});
                  return std::vector<Output>{scope.Call("Mul", {rows, sum})};
                });
  cases.Program("GatherV2", "of_a_computed_table", {Spread({4, 2}), Ints({1, 3, 1})},
                [](const Scope& scope, std::vector<Output>& xs) {
                  const Output table = scope.Call("Square", {xs[0]});
                  return std::vector<Output>{scope.Call("GatherV2", {table, xs[1], 0})};
                });
}

// A variable that holds input 0; its handle takes the input's place.
Output Variable(const Scope& scope, std::vector<Output>& xs, PartialShape shape) {
  const Output handle =
      scope.WithOpName("variable").Call("VarHandleOp", {}, {{"dtype", kFloat64}, {"shape", shape}});
  scope.WithOpName("assign").AddNode("AssignVariableOp", {handle, xs[0]});
  xs[0] = handle;
  return handle;
}

void AddVariables(GradientCases& cases) {
  for (const bool known : {false, true}) {
    const PartialShape shape = known ? PartialShape({4, 2}) : PartialShape::Unknown();
    const std::string name = known ? "known_shape" : "unknown_shape";
    cases
        .Program("ReadVariableOp", name, {Spread({4, 2})},
                 [shape](const Scope& scope, std::vector<Output>& xs) {
                   const Output value = scope.Call("ReadVariableOp", {Variable(scope, xs, shape)},
                                                   {{"dtype", kFloat64}});
                   return std::vector<Output>{scope.Call("Square", {value})};
                 })
        .WithFirst({"assign"});
    cases
        .Program(
            "ResourceGather", name, {Spread({4, 2}), Ints({3, 1, 3})},
            [shape](const Scope& scope, std::vector<Output>& xs) {
              return std::vector<Output>{scope.Call(
                  "ResourceGather", {Variable(scope, xs, shape), xs[1]}, {{"dtype", kFloat64}})};
            })
        .WithFirst({"assign"})
        .WithSparse({0});
  }
  cases
      .Program("ResourceGather", "beside_a_read", {Spread({4, 2}), Ints({3, 1, 3})},
               [](const Scope& scope, std::vector<Output>& xs) {
                 const Output handle = Variable(scope, xs, PartialShape({4, 2}));
                 const Output rows =
                     scope.Call("ResourceGather", {handle, xs[1]}, {{"dtype", kFloat64}});
                 const Output all = scope.Call("ReadVariableOp", {handle}, {{"dtype", kFloat64}});
                 return std::vector<Output>{scope.Call("Mul", {rows, scope.Call("Sum", {all, 0})})};
               })
      .WithFirst({"assign"});
}

void AddOthers(GradientCases& cases) {
  cases.Op("DynamicPartition", "rows", {Spread({4, 2}), Ints({1, 0, 2, 1})},
           {{"num_partitions", 4}});
  cases.Op("DynamicPartition", "elements", {Spread({2, 2}), Indices({2, 2}, {1, 0, 1, 1})},
           {{"num_partitions", 2}});
  cases.Op("DynamicStitch", "rows",
           {Ints({0, 2}), Ints({1, 3, 4}), Spread({2, 2}), Spread({3, 2}, -1, 1, 2)}, {{"N", 2}});
  cases.Op("DynamicStitch", "permutation",
           {Int(1), Indices({2, 2}, {0, 2, 4, 3}), Spread({}), Spread({2, 2}, -1, 1, 2)},
           {{"N", 2}});
  cases.Op("TopKV2", "largest", {Distinct({2, 5}), Int(3)});
  cases.Op("TopKV2", "unsorted", {Distinct({6}), Int(2)}, {{"sorted", false}});
}

}  // namespace

std::vector<GradientCase> IndexCases() {
  GradientCases cases;
  AddGathers(cases);
  AddLookups(cases);
  AddVariables(cases);
  AddOthers(cases);
  return cases.Take();
}

}  // namespace tandem::testing
