// Ops that repeat a tensor: BroadcastTo along dimensions of size 1 and new ones, Tile along any.
#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/gradient_helpers.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// --- BroadcastTo

// InvalidArgument when `input` does not broadcast to `output`.
absl::Status CheckBroadcast(const PartialShape& input, const PartialShape& output) {
  if (!input.has_rank() || !output.has_rank()) return absl::OkStatus();
  const int more = output.rank() - input.rank();
  bool fits = more >= 0;
  for (int i = 0; fits && i < input.rank(); ++i) {
    const int64_t from = input.dim(i);
    const int64_t to = output.dim(i + more);
    fits = from == 1 || from == to || from == kUnknown || to == kUnknown;
  }
  if (fits) return absl::OkStatus();
  return errors::InvalidArgument("a tensor of shape ", input.DebugString(),
                                 " cannot be broadcast to shape ", output.DebugString());
}

absl::Status BroadcastToShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, c.InputAsShape(1));
  TANDEM_RETURN_IF_ERROR(CheckBroadcast(c.input(0), output));
  return c.SetOutput(0, std::move(output));
}

absl::Status BroadcastTo(KernelContext& c) {
  const Tensor& input = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, ShapeArgument(c.input(1), "shape"));
  TANDEM_RETURN_IF_ERROR(CheckBroadcast(input.shape(), shape));
  if (input.num_elements() == shape.num_elements()) {
    TANDEM_ASSIGN_OR_RETURN(Tensor same, c.TakeInput(0).Reshaped(shape));
    c.SetOutput(0, std::move(same));
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
  const auto to_strides = Strides(shape.dims());
  const auto from_strides = Strides(input.shape().dims());
  const int more = shape.rank() - input.shape().rank();
  LoopDims dims;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool repeats = i < more || input.shape().dim(i - more) == 1;
    dims.push_back({shape.dim(i), to_strides[static_cast<size_t>(i)],
                    repeats ? 0 : from_strides[static_cast<size_t>(i - more)]});
  }
  CopyStrided(c.parallel(), input.dtype(), output->mutable_data(), input.data(), std::move(dims));
  return absl::OkStatus();
}

// The sum over what was repeated.
absl::Status BroadcastToGradient(GradientContext& g) {
  const DataType index = RemoveReference(g.input(1).dtype());
  const Output dy = g.OutputGradient(0);
  const Output input_shape = ShapeVector(g, g.input(0), index);
  const Output axes = g.Call("BroadcastGradientArgs", {input_shape, g.input(1)});
  g.SetInputGradient(0, g.Call("Reshape", {g.Call("Sum", {dy, axes}), input_shape}));
  return absl::OkStatus();
}

// --- Tile

absl::Status TileShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  PartialShape input = c.input(0);
  const int64_t length = c.input(1).has_rank() ? c.input(1).dim(0) : kUnknown;
  if (input.has_rank() && length != kUnknown && length != input.rank()) {
    return errors::InvalidArgument("'multiples' has ", length, " elements for an input of shape ",
                                   input.DebugString(), " of rank ", input.rank());
  }
  if (length > kMaxRank) return errors::InvalidArgument("'multiples' has ", length, " elements");
  if (!input.has_rank()) {
    if (length == kUnknown) return c.SetOutput(0, PartialShape::Unknown());
    input = PartialShape::UnknownOfRank(static_cast<int>(length));
  }
  const absl::optional<Ints> multiples = KnownInts(c, 1);
  PartialShape output = PartialShape::UnknownOfRank(input.rank());
  for (int i = 0; multiples.has_value() && i < input.rank(); ++i) {
    const int64_t times = (*multiples)[static_cast<size_t>(i)];
    if (times < 0) {
      return errors::InvalidArgument("multiples[", i, "] is ", times, "; it may not be negative");
    }
    output.SetDim(i, MultiplySizes(input.dim(i), times));
  }
  return c.SetOutput(0, std::move(output));
}

absl::Status Tile(KernelContext& c) {
  const Tensor& input = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(const Ints multiples, VectorArgument(c.input(1), "multiples"));
  const int rank = input.shape().rank();
  if (multiples.size() != static_cast<size_t>(rank)) {
    return errors::InvalidArgument("'multiples' has ", multiples.size(),
                                   " elements for an input of shape ", input.shape().DebugString(),
                                   " of rank ", rank);
  }
  Ints sizes;
  for (int i = 0; i < rank; ++i) {
    const int64_t times = multiples[static_cast<size_t>(i)];
    if (times < 0) {
      return errors::InvalidArgument("multiples[", i, "] is ", times, "; it may not be negative");
    }
    const int64_t size = MultiplySizes(input.shape().dim(i), times);
    if (size < 0) {
      return errors::InvalidArgument("dimension ", i, " of a tensor of shape ",
                                     input.shape().DebugString(), " is too large ", times,
                                     " times");
    }
    sizes.push_back(size);
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(sizes));
  if (shape == input.shape()) {
    c.SetOutput(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const auto to_strides = Strides(sizes);
  const auto from_strides = Strides(input.shape().dims());
  LoopDims dims;
  for (int i = 0; i < rank; ++i) {
    const size_t d = static_cast<size_t>(i);
    dims.push_back({multiples[d], input.shape().dim(i) * to_strides[d], 0});
    dims.push_back({input.shape().dim(i), to_strides[d], from_strides[d]});
  }
  CopyStrided(c.parallel(), input.dtype(), output->mutable_data(), input.data(), std::move(dims));
  return absl::OkStatus();
}

// The output's gradient, seen as [multiple, size, multiple, size, …], summed over the multiples.
absl::Status TileGradient(GradientContext& g) {
  const Output multiples = g.input(1);
  const DataType index = RemoveReference(multiples.dtype());
  const Output shape = ShapeVector(g, g.input(0), index);
  const Output split = Flatten(g, g.Call("Pack", {multiples, shape}, {{"axis", 1}}));
  Output axes;
  if (g.input(0).shape().has_rank()) {
    Ints even;
    for (int i = 0; i < g.input(0).shape().rank(); ++i) even.push_back(2 * i);
    axes = IntVector(g, kInt32, even);
  } else {
    axes = g.Call("Range",
                  {IntScalar(g, kInt32, 0), g.Call("Size", {split}), IntScalar(g, kInt32, 2)});
  }
  const Output parts = g.Call("Reshape", {g.OutputGradient(0), split});
  g.SetInputGradient(0, g.Call("Reshape", {g.Call("Sum", {parts, axes}), shape}));
  return absl::OkStatus();
}

TANDEM_OP("BroadcastTo")
    .Inputs("input:T, shape:Tidx")
    .Outputs("output:T")
    .Attrs("T:type; Tidx:type{int32,int64}=int32")
    .Shape(BroadcastToShape)
    .Gradient(BroadcastToGradient)
    .HostMemory({"shape"})
    .Cpu(ForTypes("T", AllTypes(), Function(BroadcastTo)));

TANDEM_OP("Tile")
    .Inputs("input:T, multiples:Tmultiples")
    .Outputs("output:T")
    .Attrs("T:type; Tmultiples:type{int32,int64}=int32")
    .Shape(TileShape)
    .Gradient(TileGradient)
    .HostMemory({"multiples"})
    .Cpu(ForTypes("T", AllTypes(), Function(Tile)));

}  // namespace
}  // namespace tandem::array
