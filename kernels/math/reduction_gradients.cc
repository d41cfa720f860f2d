#include "kernels/math/reduction_gradients.h"

#include <algorithm>
#include <vector>

#include "absl/types/optional.h"
#include "core/base/status.h"
#include "kernels/common/arguments.h"
#include "kernels/math/gradient_helpers.h"

namespace tandem::math {
namespace {

Output IntVector(GradientContext& g, const std::vector<int32_t>& values) {
  return g.Constant(Tensor::Vector<int32_t>(absl::MakeConstSpan(values)));
}

// The reduced axes in [0, rank) when they are a constant and the input's rank is known.
absl::optional<std::vector<int>> KnownAxes(GradientContext& g) {
  const Node& source = *g.input(1).node;
  const Tensor* const value = source.Attr<Tensor>("value");
  const PartialShape& shape = g.input(0).shape();
  if (!source.Is("Const") || value == nullptr || !shape.has_rank()) return absl::nullopt;
  const absl::StatusOr<SmallInts> axes = IntsArgument(*value, "reduction_indices");
  if (!axes.ok()) return absl::nullopt;
  std::vector<int> resolved;
  for (const int64_t axis : *axes) {
    const absl::StatusOr<int> each = ShapeContext::ResolveAxis(axis, shape.rank());
    if (!each.ok()) return absl::nullopt;
    resolved.push_back(*each);
  }
  return resolved;
}

// The reduced axes in [0, rank) as a vector, for axes and a rank that are known when the graph
// runs.
Output ResolvedAxes(GradientContext& g, Output rank) {
  const Output given =
      g.Call("Reshape", {g.Call("Cast", {g.input(1)}, {{"DstT", kInt32}}), IntVector(g, {-1})});
  return g.Call("FloorMod", {g.Call("AddV2", {given, rank}), rank});
}

// 0, 1, …, rank - 1
Output EveryAxis(GradientContext& g, Output rank) {
  return g.Call("Range", {g.Constant(Tensor::Scalar<int32_t>(0)), rank,
                          g.Constant(Tensor::Scalar<int32_t>(1))});
}

// The shape of the input with 1 for each reduced axis, as a vector.
Output KeptShape(GradientContext& g) {
  const PartialShape& input = g.input(0).shape();
  const absl::optional<std::vector<int>> axes = KnownAxes(g);
  if (axes.has_value() && input.IsFullyDefined()) {
    std::vector<int32_t> sizes;
    for (const int64_t size : input.dims()) sizes.push_back(static_cast<int32_t>(size));
    for (const int axis : *axes) sizes[static_cast<size_t>(axis)] = 1;
    return IntVector(g, sizes);
  }
  const Output shape = g.Call("Shape", {g.input(0)});
  const Output rank = g.Call("Size", {shape});
  const Output resolved = ResolvedAxes(g, rank);
  return g.Call("DynamicStitch",
                {EveryAxis(g, rank), resolved, shape, g.Call("OnesLike", {resolved})}, {{"N", 2}});
}

// A value with the output's shape made one that broadcasts against the input.
Output WithKeptDims(GradientContext& g, Output value, Output kept_shape) {
  return g.Attr<bool>("keep_dims") ? value : g.Call("Reshape", {value, kept_shape});
}

// The gradient repeated over what was summed.
Output Spread(GradientContext& g) {
  const Output dy = WithKeptDims(g, g.OutputGradient(0), KeptShape(g));
  return g.Call("BroadcastTo", {dy, g.Call("Shape", {g.input(0)})});
}

// An order of the input's axes.
struct FrontOrder {
  Output order;        // The reduced axes, then the others, both as they come.
  Output back;         // The order that undoes it.
  Output num_reduced;  // A vector of one element.
};

FrontOrder ReducedAxesFirst(GradientContext& g) {
  if (const absl::optional<std::vector<int>> axes = KnownAxes(g)) {
    const int rank = g.input(0).shape().rank();
    std::vector<bool> goes(static_cast<size_t>(rank), false);
    for (const int axis : *axes) goes[static_cast<size_t>(axis)] = true;
    std::vector<int32_t> order;
    for (const bool wanted : {true, false}) {
      for (int d = 0; d < rank; ++d) {
        if (goes[static_cast<size_t>(d)] == wanted) order.push_back(d);
      }
    }
    std::vector<int32_t> back(static_cast<size_t>(rank));
    for (int d = 0; d < rank; ++d) back[static_cast<size_t>(order[static_cast<size_t>(d)])] = d;
    const int32_t reduced = static_cast<int32_t>(std::count(goes.begin(), goes.end(), true));
    return {IntVector(g, order), IntVector(g, back), IntVector(g, {reduced})};
  }
  const Output rank = g.Call("Rank", {g.input(0)});
  const Output axes = ResolvedAxes(g, rank);
  const Output every = EveryAxis(g, rank);
  const Output size = g.Call("ExpandDims", {rank, g.Constant(Tensor::Scalar<int32_t>(0))});
  const auto scatter = [&](Output at, Output values) {
    const Output column = g.Call("ExpandDims", {at, g.Constant(Tensor::Scalar<int32_t>(1))});
    return g.Call("ScatterNd", {column, values, size});
  };
  // The largest come first: rank for a reduced axis, less its own number.
  const Output is_reduced = scatter(axes, g.Call("OnesLike", {axes}));
  const Output key = g.Call("Sub", {g.Call("Mul", {is_reduced, rank}), every});
  const std::vector<Output> sorted = g.CallMulti("TopKV2", {key, rank});
  if (sorted.size() != 2) return {};
  const Output num_reduced = g.Call("Sum", {is_reduced, IntVector(g, {0})}, {{"keep_dims", true}});
  return {sorted[1], scatter(sorted[1], every), num_reduced};
}

}  // namespace

absl::Status SumGradient(GradientContext& g) {
  g.SetInputGradient(0, Spread(g));
  return absl::OkStatus();
}

// As Sum's, divided by how many elements went into each.
absl::Status MeanGradient(GradientContext& g) {
  const Output in = g.Call("Size", {g.input(0)});
  const Output out =
      g.Call("Maximum", {g.Call("Size", {g.output(0)}), g.Constant(Tensor::Scalar<int32_t>(1))});
  const Output count = g.Call("FloorDiv", {in, out});
  const Output dy = g.OutputGradient(0);
  if (!dy.valid()) return absl::OkStatus();
  const Output divisor = g.Call("Cast", {count}, {{"DstT", RemoveReference(dy.dtype())}});
  const char* const divide = IsInteger(RemoveReference(dy.dtype())) ? "FloorDiv" : "RealDiv";
  g.SetInputGradient(0, g.Call(divide, {Spread(g), divisor}));
  return absl::OkStatus();
}

absl::Status ExtremeGradient(GradientContext& g) {
  const Output kept = KeptShape(g);
  const Output y = WithKeptDims(g, g.output(0), kept);
  const Output dy = WithKeptDims(g, g.OutputGradient(0), kept);
  if (!dy.valid()) return absl::OkStatus();
  const DataType dtype = RemoveReference(dy.dtype());
  const Output equal = g.Call("Cast", {g.Call("Equal", {y, g.input(0)})}, {{"DstT", dtype}});
  const Output count = g.Call("Sum", {equal, g.input(1)}, {{"keep_dims", true}});
  g.SetInputGradient(
      0, g.Call("Mul", {g.Call(IsInteger(dtype) ? "FloorDiv" : "RealDiv", {equal, count}), dy}));
  return absl::OkStatus();
}

// The derivative by an element is the product of all others, which has to be right when one or more
// are zero: the product of those before it times the product of those after it. The reduced axes go
// to the front, become one, and cumulative products run along it.
absl::Status ProdGradient(GradientContext& g) {
  const FrontOrder order = ReducedAxesFirst(g);
  const Output moved = g.Call("Transpose", {g.input(0), order.order});
  const Output moved_shape = g.Call("Shape", {moved});
  // [product of the reduced sizes, -1]: with explicit sizes, since -1 beside a 0 says nothing.
  const Output zero = g.Constant(Tensor::Vector<int32_t>({0}));
  const Output end = order.num_reduced;
  const Output front = g.Call("Slice", {moved_shape, zero, end});
  const Output rest =
      g.Call("Slice", {moved_shape, end, g.Constant(Tensor::Vector<int32_t>({-1}))});
  const Output first_axis = g.Constant(Tensor::Scalar<int32_t>(0));
  const Output flat_shape =
      g.Call("Pack", {g.Call("Prod", {front, first_axis}), g.Call("Prod", {rest, first_axis})},
             {{"N", 2}});
  const Output flat = g.Call("Reshape", {moved, flat_shape});
  const Output before = g.Call("Cumprod", {flat, first_axis}, {{"exclusive", true}});
  const Output after =
      g.Call("Cumprod", {flat, first_axis}, {{"exclusive", true}, {"reverse", true}});
  const Output others = g.Call("Reshape", {g.Call("Mul", {before, after}), moved_shape});
  const Output derivative = g.Call("Transpose", {others, order.back});
  g.SetInputGradient(0, g.Call("Mul", {Spread(g), g.Conjugate(derivative)}));
  return absl::OkStatus();
}

}  // namespace tandem::math
