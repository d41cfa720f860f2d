// DynamicPartition, which deals rows out to several tensors, and DynamicStitch, which brings rows
// of several tensors together.
#include <algorithm>
#include <vector>

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

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// True when `prefix` could be the first dimensions of `shape`.
bool IsPrefix(const PartialShape& prefix, const PartialShape& shape) {
  if (!prefix.has_rank() || !shape.has_rank()) return true;
  return prefix.rank() <= shape.rank() &&
         prefix.IsCompatibleWith(Subshape(shape, 0, prefix.rank()));
}

// --- DynamicPartition

absl::Status DynamicPartitionShape(ShapeContext& c) {
  const PartialShape& data = c.input(0);
  const PartialShape& partitions = c.input(1);
  if (!IsPrefix(partitions, data)) {
    return errors::InvalidArgument("'partitions' has shape ", partitions.DebugString(),
                                   ", which is not how the shape of 'data', ", data.DebugString(),
                                   ", begins");
  }
  PartialShape output;
  if (data.has_rank() && partitions.has_rank()) {
    output = Concatenate(PartialShape({kUnknown}), Subshape(data, partitions.rank(), data.rank()));
  }
  for (int i = 0; i < c.num_outputs(); ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, output));
  return absl::OkStatus();
}

absl::Status DynamicPartition(KernelContext& c) {
  const Tensor& data = c.input(0);
  const Tensor& partitions = c.input(1);
  const int prefix = partitions.shape().rank();
  if (!IsPrefix(partitions.shape(), data.shape())) {
    return errors::InvalidArgument("'partitions' has shape ", partitions.shape().DebugString(),
                                   ", which is not how the shape of 'data', ",
                                   data.shape().DebugString(), ", begins");
  }
  const int parts = c.num_outputs();
  const absl::Span<const int32_t> part_of = partitions.Elements<int32_t>();
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(parts));
  for (size_t i = 0; i < part_of.size(); ++i) {
    if (part_of[i] < 0 || part_of[i] >= parts) {
      return errors::InvalidArgument("partition ", part_of[i], " (number ", i,
                                     " of partitions of shape ", partitions.shape().DebugString(),
                                     ") lies outside [0, ", parts, ")");
    }
    rows[static_cast<size_t>(part_of[i])].push_back(static_cast<int64_t>(i));
  }
  const absl::Span<const int64_t> row_dims =
      data.shape().dims().subspan(static_cast<size_t>(prefix));
  const int64_t row = Product(data.shape().dims(), prefix, data.shape().rank());
  for (int i = 0; i < parts; ++i) {
    const std::vector<int64_t>& mine = rows[static_cast<size_t>(i)];
    Ints dims = {static_cast<int64_t>(mine.size())};
    dims.insert(dims.end(), row_dims.begin(), row_dims.end());
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(i, std::move(shape)));
    GatherRows(data.dtype(), output->mutable_data(), data.data(), row, mine.data(),
               static_cast<int64_t>(mine.size()));
  }
  return absl::OkStatus();
}

// The numbers of the rows, dealt out in the same way, say where the parts' gradients belong.
absl::Status DynamicPartitionGradient(GradientContext& g) {
  const Output partitions = g.input(1);
  const Output prefix = ShapeVector(g, partitions, kInt32);
  const Output numbers = g.Call(
      "Reshape",
      {g.Call("Range", {IntScalar(g, kInt32, 0), ProductOf(g, prefix), IntScalar(g, kInt32, 1)}),
       prefix});
  std::vector<Output> inputs =
      g.CallMulti("DynamicPartition", {numbers, partitions}, {{"num_partitions", g.num_outputs()}});
  for (int i = 0; i < g.num_outputs(); ++i) inputs.push_back(g.OutputGradient(i));
  const Output stitched = g.Call("DynamicStitch", inputs, {{"N", g.num_outputs()}});
  g.SetInputGradient(0, g.Call("Reshape", {stitched, g.Call("Shape", {g.input(0)})}));
  return absl::OkStatus();
}

// --- DynamicStitch

absl::Status MismatchError(int i, const PartialShape& indices, const PartialShape& data,
                           const PartialShape& row) {
  return errors::InvalidArgument("data[", i, "] has shape ", data.DebugString(), "; indices[", i,
                                 "] of shape ", indices.DebugString(), " and rows of shape ",
                                 row.DebugString(), " want the one followed by the other");
}

absl::Status DynamicStitchShape(ShapeContext& c) {
  const int n = c.num_inputs() / 2;
  PartialShape row;
  int64_t rows = 0;
  for (int i = 0; i < n; ++i) {
    const PartialShape& indices = c.input(i);
    const PartialShape& data = c.input(n + i);
    if (!IsPrefix(indices, data)) return MismatchError(i, indices, data, row);
    if (indices.has_rank() && data.has_rank()) {
      absl::StatusOr<PartialShape> merged =
          row.MergeWith(Subshape(data, indices.rank(), data.rank()));
      if (!merged.ok()) return MismatchError(i, indices, data, row);
      row = *std::move(merged);
    }
    const absl::optional<Tensor> values = c.InputValue(i);
    if (!values.has_value() || values->dtype() != kInt32) {
      rows = kUnknown;
    } else if (rows != kUnknown) {
      for (const int32_t index : values->Elements<int32_t>()) {
        rows = std::max<int64_t>(rows, int64_t{index} + 1);
      }
    }
  }
  return c.SetOutput(0, Concatenate(PartialShape({rows}), row));
}

absl::Status DynamicStitch(KernelContext& c) {
  const int n = c.num_inputs() / 2;
  int64_t rows = 0;   // Of the output: the greatest index and one more.
  int64_t given = 0;  // Among the inputs.
  const Shape& first = c.input(n).shape();
  const int first_prefix = c.input(0).shape().rank();
  if (first_prefix > first.rank()) {
    return MismatchError(0, c.input(0).shape(), first, PartialShape::Unknown());
  }
  const PartialShape row_shape = Subshape(first, first_prefix, first.rank());
  for (int i = 0; i < n; ++i) {
    const Tensor& indices = c.input(i);
    if (PartialShape(c.input(n + i).shape()) != Concatenate(indices.shape(), row_shape)) {
      return MismatchError(i, indices.shape(), c.input(n + i).shape(), row_shape);
    }
    given += indices.num_elements();
    for (const int32_t index : indices.Elements<int32_t>()) {
      if (index < 0) {
        return errors::InvalidArgument("indices[", i, "] holds ", index,
                                       "; indices may not be negative");
      }
      rows = std::max<int64_t>(rows, int64_t{index} + 1);
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape,
                          Concatenate(PartialShape({rows}), row_shape).ToShape());
  TANDEM_RETURN_IF_ERROR(Shape::FromDims(shape.dims()).status());
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
  const DataType dtype = output->dtype();
  const int64_t row = Product(shape.dims(), 1, shape.rank());

  // Rows that nobody names are zero. There are some for sure when there are too few indices; else
  // they are looked for.
  bool missing = given < rows;
  if (!missing) {
    std::vector<bool> named(static_cast<size_t>(rows), false);
    for (int i = 0; i < n; ++i) {
      for (const int32_t index : c.input(i).Elements<int32_t>()) {
        named[static_cast<size_t>(index)] = true;
      }
    }
    missing = std::find(named.begin(), named.end(), false) != named.end();
  }
  if (missing) ZeroElements(c.parallel(), dtype, output->mutable_data(), output->num_elements());
  // In order, since the last to name a row wins.
  for (int i = 0; i < n; ++i) {
    const absl::Span<const int32_t> indices = c.input(i).Elements<int32_t>();
    for (size_t j = 0; j < indices.size(); ++j) {
      CopyElements(dtype, ElementAt(dtype, output->mutable_data(), indices[j] * row),
                   ElementAt(dtype, c.input(n + i).data(), static_cast<int64_t>(j) * row), row);
    }
  }
  return absl::OkStatus();
}

absl::Status DynamicStitchGradient(GradientContext& g) {
  const int n = g.num_inputs() / 2;
  for (int i = 0; i < n; ++i) {
    g.SetInputGradient(
        n + i, g.Call("GatherV2", {g.OutputGradient(0), g.input(i), IntScalar(g, kInt32, 0)}));
  }
  return absl::OkStatus();
}

TANDEM_OP("DynamicPartition")
    .Inputs("data:T, partitions:int32")
    .Outputs("outputs:num_partitions*T")
    .Attrs("num_partitions:int>=1; T:type")
    .Shape(DynamicPartitionShape)
    .Gradient(DynamicPartitionGradient)
    .Cpu(ForTypes("T", AllTypes(), Function(DynamicPartition)));

TANDEM_OP("DynamicStitch")
    .Inputs("indices:N*int32, data:N*T")
    .Outputs("merged:T")
    .Attrs("N:int>=1; T:type")
    .Shape(DynamicStitchShape)
    .Gradient(DynamicStitchGradient)
    .Cpu(ForTypes("T", AllTypesBut({kResource}), Function(DynamicStitch)));

}  // namespace
}  // namespace tandem::array
