#include "kernels/array/gradient_helpers.h"

#include <limits>

#include "core/graph/known_values.h"

namespace tandem::array {
namespace {

Tensor IntTensor(DataType dtype, absl::Span<const int64_t> values, Shape shape) {
  Tensor result(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == kInt64) {
      result.MutableElements<int64_t>()[i] = values[i];
    } else {
      result.MutableElements<int32_t>()[i] = static_cast<int32_t>(values[i]);
    }
  }
  return result;
}

}  // namespace

Output IntVector(GradientContext& g, DataType dtype, absl::Span<const int64_t> values) {
  return g.Constant(IntTensor(dtype, values, Shape({static_cast<int64_t>(values.size())})));
}

Output IntScalar(GradientContext& g, DataType dtype, int64_t value) {
  return g.Constant(IntTensor(dtype, {value}, Shape()));
}

Output IntMatrix(GradientContext& g, DataType dtype, absl::Span<const int64_t> values,
                 int64_t columns) {
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  return g.Constant(IntTensor(dtype, values, Shape({rows, columns})));
}

Output ShapeVector(GradientContext& g, Output x, DataType dtype) {
  if (x.valid() && x.shape().IsFullyDefined()) {
    bool fits = true;
    for (const int64_t size : x.shape().dims()) {
      fits = fits && (dtype == kInt64 || size <= std::numeric_limits<int32_t>::max());
    }
    if (fits) return IntVector(g, dtype, x.shape().dims());
  }
  return g.Call("Shape", {x}, {{"out_type", dtype}});
}

Output SubVector(GradientContext& g, Output vector, Output begin, Output end) {
  return g.Call("StridedSlice", {vector, begin, end, IntVector(g, kInt32, {1})});
}

Output SubVector(GradientContext& g, Output vector, int64_t begin) {
  return g.Call(
      "StridedSlice",
      {vector, IntVector(g, kInt32, {begin}), IntVector(g, kInt32, {0}), IntVector(g, kInt32, {1})},
      {{"end_mask", 1}});
}

Output ProductOf(GradientContext& g, Output vector) {
  return g.Call("Prod", {vector, IntVector(g, kInt32, {0})});
}

Output Flatten(GradientContext& g, Output x) {
  if (x.valid() && x.shape().has_rank() && x.shape().rank() == 1) return x;
  return g.Call("Reshape", {x, IntVector(g, kInt32, {-1})});
}

Output CastTo(GradientContext& g, Output x, DataType dtype) {
  if (!x.valid() || RemoveReference(x.dtype()) == dtype) return x;
  // A constant stays one, so that shapes can be told from it. (Only scalars and vectors come here.)
  if (x.node->Is("Const") && (dtype == kInt32 || dtype == kInt64)) {
    const absl::optional<Ints> values = ConstantInts(x);
    if (values.has_value() && x.shape().has_rank() && x.shape().rank() <= 1) {
      return x.shape().rank() == 1 ? IntVector(g, dtype, *values)
                                   : IntScalar(g, dtype, (*values)[0]);
    }
  }
  return g.Call("Cast", {x}, {{"DstT", dtype}});
}

absl::optional<Ints> ConstantInts(Output x) {
  const absl::optional<Tensor> value = KnownValue(x);
  if (!value.has_value()) return absl::nullopt;
  absl::StatusOr<Ints> ints = IntsArgument(*value, "");
  if (!ints.ok()) return absl::nullopt;
  return *std::move(ints);
}

}  // namespace tandem::array
