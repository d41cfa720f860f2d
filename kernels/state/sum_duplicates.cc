// _TandemSumDuplicates: a sparse gradient with each row named once. Rows with equal indices are
// added up in the order in which they occur; the sums come in the order of first occurrence.
//
// Optimizers whose rules are not linear in the gradient need it before they may look at a row.
// Usually no row is named twice; then both inputs pass through.
#include <algorithm>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/array/rows.h"
#include "kernels/common/half.h"
#include "kernels/state/combine.h"
#include "kernels/state/number_types.h"

namespace tandem::state {
namespace {

using array::ElementAt;

// Which rows belong together: group g has the rows order[begin[g]] … order[begin[g+1] - 1], in the
// order in which they occur.
struct Groups {
  std::vector<int64_t> order;
  std::vector<int64_t> begin;
  int64_t count() const { return static_cast<int64_t>(begin.size()) - 1; }
};

// Empty when all indices are distinct.
Groups FindGroups(const std::vector<int64_t>& indices) {
  Groups groups;
  if (std::adjacent_find(indices.begin(), indices.end(), std::greater_equal<int64_t>()) ==
      indices.end()) {
    return groups;  // They rise, as those of a gather from sorted ids do.
  }
  absl::flat_hash_map<int64_t, int64_t> group_of;
  group_of.reserve(indices.size());
  std::vector<int64_t> group(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    group[i] = group_of.emplace(indices[i], static_cast<int64_t>(group_of.size())).first->second;
  }
  if (group_of.size() == indices.size()) return groups;
  // Counting sort, which keeps the order within a group.
  groups.begin.assign(group_of.size() + 1, 0);
  for (const int64_t g : group) ++groups.begin[static_cast<size_t>(g) + 1];
  for (size_t g = 1; g < groups.begin.size(); ++g) groups.begin[g] += groups.begin[g - 1];
  std::vector<int64_t> next(groups.begin.begin(), groups.begin.end() - 1);
  groups.order.resize(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t place = static_cast<size_t>(next[static_cast<size_t>(group[i])]++);
    groups.order[place] = static_cast<int64_t>(i);
  }
  return groups;
}

// Adds rows in float and rounds once, block by block.
template <typename Half>
void SumHalfRows(const Half* values, absl::Span<const int64_t> rows, int64_t width, Half* sum) {
  float total[kHalfBlock];
  float term[kHalfBlock];
  for (int64_t column = 0; column < width; column += kHalfBlock) {
    const int64_t n = std::min(kHalfBlock, width - column);
    ToFloat(values + rows[0] * width + column, total, n);
    for (const int64_t row : rows.subspan(1)) {
      ToFloat(values + row * width + column, term, n);
      for (int64_t i = 0; i < n; ++i) total[i] += term[i];
    }
    FromFloat(total, sum + column, n);
  }
}

void SumRows(const Tensor& values, absl::Span<const int64_t> rows, int64_t width, void* sum) {
  const DataType dtype = values.dtype();
  if (dtype == kFloat16) {
    return SumHalfRows(static_cast<const Float16*>(values.data()), rows, width,
                       static_cast<Float16*>(sum));
  }
  if (dtype == kBfloat16) {
    return SumHalfRows(static_cast<const Bfloat16*>(values.data()), rows, width,
                       static_cast<Bfloat16*>(sum));
  }
  const CombineFunction add = FindCombineFunction(dtype, Combination::kAdd);
  array::CopyElements(dtype, sum, ElementAt(dtype, values.data(), rows[0] * width), width);
  for (const int64_t row : rows.subspan(1)) {
    add(sum, sum, ElementAt(dtype, values.data(), row * width), false, width);
  }
}

absl::Status SumDuplicates(KernelContext& c) {
  const Tensor& values = c.input(0);
  const Tensor& indices = c.input(1);
  if (!indices.shape().IsVector() || values.shape().rank() < 1 ||
      values.shape().dim(0) != indices.shape().dim(0)) {
    return errors::InvalidArgument("values have shape ", values.shape().DebugString(),
                                   " and indices ", indices.shape().DebugString(),
                                   "; there must be one index for each row of values");
  }
  std::vector<int64_t> numbers(static_cast<size_t>(indices.num_elements()));
  array::ReadIndices(indices, 0, indices.num_elements(), numbers.data());
  const Groups groups = FindGroups(numbers);
  if (groups.begin.empty()) {
    c.SetOutput(0, c.TakeInput(0));
    c.SetOutput(1, c.TakeInput(1));
    return absl::OkStatus();
  }
  Shape::Dims dims(values.shape().dims().begin(), values.shape().dims().end());
  dims[0] = groups.count();
  TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
  TANDEM_ASSIGN_OR_RETURN(Tensor * sums, c.AllocateOutput(0, std::move(shape)));
  TANDEM_ASSIGN_OR_RETURN(Tensor * rows, c.AllocateOutput(1, Shape({groups.count()})));
  const DataType dtype = values.dtype();
  const int64_t width = values.num_elements() / values.shape().dim(0);
  const double rows_a_group =
      static_cast<double>(numbers.size()) / static_cast<double>(groups.count());
  const double cost =
      10 + rows_a_group * array::kNanosecondsPerByte *
               static_cast<double>(width * static_cast<int64_t>(DataTypeSize(dtype)));
  char* const to = static_cast<char*>(sums->mutable_data());
  char* const numbers_to = static_cast<char*>(rows->mutable_data());
  const absl::Span<const int64_t> order(groups.order);
  c.parallel().For(groups.count(), cost, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const auto first = static_cast<size_t>(groups.begin[static_cast<size_t>(g)]);
      const auto last = static_cast<size_t>(groups.begin[static_cast<size_t>(g) + 1]);
      SumRows(values, order.subspan(first, last - first), width, ElementAt(dtype, to, g * width));
      array::CopyElements(indices.dtype(), ElementAt(indices.dtype(), numbers_to, g),
                          ElementAt(indices.dtype(), indices.data(), order[first]), 1);
    }
  });
  return absl::OkStatus();
}

absl::Status SumDuplicatesShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  PartialShape sums = c.input(0);
  if (sums.has_rank() && c.input(1).has_rank()) {
    TANDEM_RETURN_IF_ERROR(
        PartialShape({sums.dim(0)}).MergeWith(PartialShape({c.input(1).dim(0)})).status());
  }
  if (sums.has_rank()) sums.SetDim(0, PartialShape::kUnknownDim);
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, std::move(sums)));
  return c.SetOutput(1, PartialShape({PartialShape::kUnknownDim}));
}

TANDEM_OP("_TandemSumDuplicates")
    .Inputs("values:T, indices:Tindices")
    .Outputs("sums:T, rows:Tindices")
    .Attrs("T:type" TANDEM_NUMBER_TYPES "; Tindices:type{int32,int64}")
    .Shape(SumDuplicatesShape)
    .NotDifferentiable()
    .Cpu(array::ForTypes("T", array::NumberTypes(), Function(SumDuplicates)));

}  // namespace
}  // namespace tandem::state
