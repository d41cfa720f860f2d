// Ragged tensors, and values at indices, as dense ones.
#include "tests/gradients/gradient_case.h"

namespace tandem::testing {
namespace {

using Types = std::vector<std::string>;

Tensor Longs(std::initializer_list<int64_t> values) { return Tensor::Vector<int64_t>(values); }
Tensor Long(int64_t value) { return Tensor::Scalar<int64_t>(value); }
Tensor Number(double value) { return Tensor::Scalar<double>(value); }

void AddToTensor(GradientCases& cases) {
  const Types splits = {"ROW_SPLITS"};
  const AttrMap rows = {{"row_partition_types", splits}};
  cases.Op("RaggedTensorToTensor", "padded",
           {Long(-1), Spread({5}), Number(0.5), Longs({0, 2, 2, 5})}, rows);
  cases.Op("RaggedTensorToTensor", "cut_and_wider",
           {Longs({2, 4}), Spread({5}), Number(0.5), Longs({0, 1, 1, 5})}, rows);
  cases.Op("RaggedTensorToTensor", "rows_of_values",
           {Long(-1), Spread({5, 2}), Spread({2}, -1, 1, 3), Longs({0, 2, 2, 5})}, rows);
  cases.Op("RaggedTensorToTensor", "default_of_one",
           {Long(-1), Spread({5, 2}), Spread({1}, -1, 1, 3), Longs({0, 2, 2, 5})}, rows);
  cases.Op("RaggedTensorToTensor", "row_ids",
           {Long(-1), Spread({4}), Number(0.5), Long(3), Longs({0, 2, 2, 2})},
           {{"row_partition_types", Types{"FIRST_DIM_SIZE", "VALUE_ROWIDS"}}});
  cases.Op("RaggedTensorToTensor", "two_ragged_dimensions",
           {Long(-1), Spread({5}), Number(0.5), Longs({0, 1, 3}), Longs({0, 2, 2, 5})},
           {{"row_partition_types", Types{"ROW_SPLITS", "ROW_SPLITS"}}});
}

void AddGathers(GradientCases& cases) {
  cases.Op("RaggedGather", "rows", {Longs({0, 2, 2, 5}), Spread({5}), Ints({2, 0, 2})},
           {{"OUTPUT_RAGGED_RANK", 1}});
  cases.Op("RaggedGather", "two_ragged_dimensions",
           {Longs({0, 1, 3}), Longs({0, 2, 2, 5}), Spread({5, 2}), Ints({1, 1})},
           {{"OUTPUT_RAGGED_RANK", 2}});
  cases.Op("RaggedTensorToSparse", "rows", {Longs({0, 2, 2, 5}), Spread({5})});
  cases.Op("RaggedTensorToSparse", "inner", {Longs({0, 2, 3}), Spread({3, 2})});
}

void AddToDense(GradientCases& cases) {
  const Tensor indices = Tensor::FromValues<int64_t>({2, 2}, {0, 1, 2, 0});
  cases.Op("SparseToDense", "matrix", {indices, Longs({3, 2}), Spread({2}), Number(0.5)});
  cases.Op("SparseToDense", "one_value", {indices, Longs({3, 2}), Number(-1), Number(0.5)});
  cases.Op("SparseToDense", "vector", {Ints({1, 3}), Ints({4}), Spread({2}), Number(0.5)});
  cases.Op("SparseToDense", "one_index", {Int(2), Ints({4}), Number(1.5), Number(0.5)});
}

}  // namespace

std::vector<GradientCase> RaggedCases() {
  GradientCases cases;
  AddToTensor(cases);
  AddGathers(cases);
  AddToDense(cases);
  return cases.Take();
}

}  // namespace tandem::testing
