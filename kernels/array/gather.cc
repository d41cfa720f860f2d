// Gather and GatherV2: slices of a tensor along one axis, by index.
//
// Everything is seen in four dimensions: params [batch, outer, axis, inner], indices [batch,
// count], output [batch, outer, count, inner].
#include <algorithm>

#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/gradient_helpers.h"
#include "kernels/array/rows.h"

namespace tandem::array {
namespace {

// --- Shapes

absl::StatusOr<int> ResolveBatchDims(int64_t batch_dims, int indices_rank) {
  if (batch_dims < -indices_rank || batch_dims > indices_rank) {
    return errors::InvalidArgument("'batch_dims' is ", batch_dims, "; indices have rank ",
                                   indices_rank);
  }
  return static_cast<int>(batch_dims < 0 ? batch_dims + indices_rank : batch_dims);
}

// The output's shape for a known axis. InvalidArgument when the arguments do not fit.
absl::StatusOr<PartialShape> GatherShape(const PartialShape& params, const PartialShape& indices,
                                         int axis, int batch_dims) {
  if (batch_dims > axis) {
    return errors::InvalidArgument("'batch_dims' is ", batch_dims, " and the axis ", axis,
                                   "; batch dimensions must come before the axis");
  }
  PartialShape output({});
  for (int i = 0; i < axis; ++i) {
    int64_t size = params.dim(i);
    if (i < batch_dims) {
      absl::StatusOr<int64_t> merged = MergeSizes(size, indices.dim(i));
      if (!merged.ok()) {
        return errors::InvalidArgument("params of shape ", params.DebugString(),
                                       " and indices of shape ", indices.DebugString(),
                                       " differ in batch dimension ", i);
      }
      size = *merged;
    }
    output.AddDim(size);
  }
  for (int i = batch_dims; i < indices.rank(); ++i) output.AddDim(indices.dim(i));
  for (int i = axis + 1; i < params.rank(); ++i) output.AddDim(params.dim(i));
  return output;
}

absl::Status GatherV1Shape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  if (!c.input(0).has_rank() || !c.input(1).has_rank()) {
    return c.SetOutput(0, PartialShape::Unknown());
  }
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, GatherShape(c.input(0), c.input(1), 0, 0));
  return c.SetOutput(0, std::move(output));
}

absl::Status GatherV2Shape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  const PartialShape& params = c.input(0);
  const PartialShape& indices = c.input(1);
  const absl::optional<int64_t> known_axis = c.InputAsInt(2);
  if (known_axis.has_value() && params.has_rank()) {
    TANDEM_RETURN_IF_ERROR(ResolveAxis(*known_axis, params.rank()).status());
  }
  if (!params.has_rank() || !indices.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  TANDEM_ASSIGN_OR_RETURN(const int batch_dims,
                          ResolveBatchDims(c.Attr<int64_t>("batch_dims"), indices.rank()));
  if (!known_axis.has_value()) {
    const int rank = params.rank() - 1 + indices.rank() - batch_dims;
    if (rank < 0) return c.SetOutput(0, PartialShape::Unknown());
    return c.SetOutput(0, PartialShape::UnknownOfRank(rank));
  }
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(*known_axis, params.rank()));
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, GatherShape(params, indices, axis, batch_dims));
  return c.SetOutput(0, std::move(output));
}

// --- Kernel

absl::Status GatherAlong(KernelContext& c, int64_t given_axis, int64_t given_batch_dims) {
  const Tensor& params = c.input(0);
  const Tensor& indices = c.input(1);
  if (params.shape().IsScalar()) {
    return errors::InvalidArgument("'params' is a scalar; it must have at least one dimension");
  }
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(given_axis, params.shape().rank()));
  TANDEM_ASSIGN_OR_RETURN(const int batch_dims,
                          ResolveBatchDims(given_batch_dims, indices.shape().rank()));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape known,
                          GatherShape(params.shape(), indices.shape(), axis, batch_dims));
  TANDEM_ASSIGN_OR_RETURN(Shape shape, known.ToShape());

  const absl::Span<const int64_t> sizes = params.shape().dims();
  const int64_t batch = Product(sizes, 0, batch_dims);
  const int64_t outer = Product(sizes, batch_dims, axis);
  const int64_t limit = sizes[static_cast<size_t>(axis)];
  const int64_t inner = Product(sizes, axis + 1, params.shape().rank());
  const int64_t count = Product(indices.shape().dims(), batch_dims, indices.shape().rank());

  const int64_t bad = FindOutOfRange(indices, limit);
  if (bad >= 0) {
    int64_t value = 0;
    ReadIndices(indices, bad, bad + 1, &value);
    return errors::InvalidArgument("index ", value, " (number ", bad, " of indices of shape ",
                                   indices.shape().DebugString(), ") lies outside [0, ", limit,
                                   "), dimension ", axis, " of params of shape ",
                                   params.shape().DebugString());
  }
  const DataType dtype = params.dtype();
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
  if (output->num_elements() == 0) return absl::OkStatus();
  // A unit of the loop is a row of the output; rows of one [batch, outer] lie together.
  const double cost = 5 + kNanosecondsPerByte * static_cast<double>(inner) *
                              static_cast<double>(DataTypeSize(dtype));
  c.parallel().For(batch * outer * count, cost, [&](int64_t begin, int64_t end) {
    int64_t rows[kIndexBlock];
    while (begin < end) {
      const int64_t group = begin / count;
      const int64_t first = begin % count;
      const int64_t n = std::min({count - first, end - begin, kIndexBlock});
      const int64_t in_batch = group / outer * count + first;
      ReadIndices(indices, in_batch, in_batch + n, rows);
      GatherRows(dtype, ElementAt(dtype, output->mutable_data(), begin * inner),
                 ElementAt(dtype, params.data(), group * limit * inner), inner, rows, n);
      begin += n;
    }
  });
  return absl::OkStatus();
}

absl::Status GatherV1(KernelContext& c) { return GatherAlong(c, 0, 0); }

class GatherV2Kernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    batch_dims_ = init.Attr<int64_t>("batch_dims");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const int64_t axis, ScalarArgument(c.input(2), "axis"));
    return GatherAlong(c, axis, batch_dims_);
  }

 private:
  int64_t batch_dims_ = 0;
};

// --- Gradients

// Along the first axis the gradient is sparse: a row for each index.
void SetSparseGradient(GradientContext& g) {
  const Output params = g.input(0);
  const DataType given = RemoveReference(g.input(1).dtype());
  const DataType index = given == kInt64 ? kInt64 : kInt32;
  const Output indices = CastTo(g, Flatten(g, g.input(1)), index);
  const Output dense_shape = ShapeVector(g, params, index);
  Output row_shape;
  if (params.shape().has_rank() && params.shape().rank() > 0 &&
      Subshape(params.shape(), 1, params.shape().rank()).IsFullyDefined()) {
    Ints sizes = {-1};
    bool infer = true;
    for (int i = 1; i < params.shape().rank(); ++i) {
      sizes.push_back(params.shape().dim(i));
      infer = infer && params.shape().dim(i) > 0;
    }
    // With an empty row the number of rows cannot be inferred.
    if (infer) row_shape = IntVector(g, kInt64, sizes);
  }
  if (!row_shape.valid()) {
    const Output count = g.Call(
        "Reshape", {g.Call("Size", {indices}, {{"out_type", index}}), IntVector(g, kInt32, {1})});
    row_shape = g.Call("ConcatV2", {count, SubVector(g, dense_shape, 1), IntScalar(g, kInt32, 0)});
  }
  const Output values = g.Call("Reshape", {g.OutputGradient(0), row_shape});
  g.SetInputGradient(0, Gradient(values, indices, dense_shape));
}

absl::Status GatherV1Gradient(GradientContext& g) {
  SetSparseGradient(g);
  return absl::OkStatus();
}

// In general: the output's gradient as [batch, outer, count, inner] is brought into the order
// [batch·count, outer·inner], its rows are added up by index, and the result goes back.
absl::Status GatherV2Gradient(GradientContext& g) {
  const Output params = g.input(0);
  const Output indices = g.input(1);
  const absl::optional<Ints> known_axis = ConstantInts(g.input(2));
  const int64_t given_batch_dims = g.Attr<int64_t>("batch_dims");
  if (given_batch_dims == 0 && known_axis.has_value() && known_axis->size() == 1 &&
      ((*known_axis)[0] == 0 ||
       (params.shape().has_rank() && (*known_axis)[0] == -params.shape().rank()))) {
    SetSparseGradient(g);
    return absl::OkStatus();
  }
  if (given_batch_dims < 0 && !indices.shape().has_rank()) {
    return errors::Unimplemented("'batch_dims' is ", given_batch_dims,
                                 " and the rank of the indices is not known; the gradient needs "
                                 "a batch_dims that is not negative");
  }
  const int64_t batch_dims =
      given_batch_dims < 0 ? given_batch_dims + indices.shape().rank() : given_batch_dims;

  // Sizes, as scalars of the graph.
  const Output shape = ShapeVector(g, params, kInt64);
  Output axis = CastTo(g, g.input(2), kInt32);
  if (!known_axis.has_value() || (*known_axis)[0] < 0) {
    axis = g.Call("FloorMod", {axis, g.Call("Rank", {params})});
  }
  const Output axis_vector = g.Call("Reshape", {axis, IntVector(g, kInt32, {1})});
  const Output after_axis = g.Call("Add", {axis_vector, IntVector(g, kInt32, {1})});
  const Output rank_vector =
      g.Call("Reshape", {g.Call("Rank", {params}), IntVector(g, kInt32, {1})});
  const Output batch_end = IntVector(g, kInt32, {batch_dims});
  const Output batch = ProductOf(g, SubVector(g, shape, IntVector(g, kInt32, {0}), batch_end));
  const Output outer = ProductOf(g, SubVector(g, shape, batch_end, axis_vector));
  const Output limit = ProductOf(g, SubVector(g, shape, axis_vector, after_axis));
  const Output inner = ProductOf(g, SubVector(g, shape, after_axis, rank_vector));
  const Output count = ProductOf(g, SubVector(g, ShapeVector(g, indices, kInt64), batch_dims));

  const Output perm = IntVector(g, kInt32, {0, 2, 1, 3});
  const Output swapped = g.Call(
      "Transpose",
      {g.Call("Reshape", {g.OutputGradient(0), g.Call("Pack", {batch, outer, count, inner})}),
       perm});
  const Output rows = g.Call(
      "Reshape",
      {swapped, g.Call("Pack", {g.Call("Mul", {batch, count}), g.Call("Mul", {outer, inner})})});
  // Batch b's rows are those from b·limit on.
  const Output ids =
      g.Call("Reshape", {CastTo(g, indices, kInt64), g.Call("Pack", {batch, count})});
  const Output one = IntScalar(g, kInt64, 1);
  const Output offsets =
      g.Call("Mul", {g.Call("Range", {IntScalar(g, kInt64, 0), batch, one}), limit});
  const Output offset_ids =
      Flatten(g, g.Call("Add", {ids, g.Call("ExpandDims", {offsets, IntScalar(g, kInt32, 1)})}));
  const Output sums =
      g.Call("UnsortedSegmentSum", {rows, offset_ids, g.Call("Mul", {batch, limit})});
  const Output back = g.Call(
      "Transpose", {g.Call("Reshape", {sums, g.Call("Pack", {batch, limit, outer, inner})}), perm});
  g.SetInputGradient(0, g.Call("Reshape", {back, shape}));
  return absl::OkStatus();
}

TANDEM_OP("Gather")
    .Inputs("params:Tparams, indices:Tindices")
    .Outputs("output:Tparams")
    .Attrs("validate_indices:bool=True; Tparams:type; Tindices:type{int32,int64}")
    .Shape(GatherV1Shape)
    .Gradient(GatherV1Gradient)
    .Cpu(ForTypes("Tparams", AllTypes(), Function(GatherV1)));

TANDEM_OP("GatherV2")
    .Inputs("params:Tparams, indices:Tindices, axis:Taxis")
    .Outputs("output:Tparams")
    .Attrs(
        "batch_dims:int=0; Tparams:type; Tindices:type{int16,int32,int64}; "
        "Taxis:type{int32,int64}")
    .Shape(GatherV2Shape)
    .Gradient(GatherV2Gradient)
    .HostMemory({"axis"})
    .Cpu(Make<GatherV2Kernel>("Tparams", AllTypes()));

}  // namespace
}  // namespace tandem::array
