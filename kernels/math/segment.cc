// SegmentSum, UnsortedSegmentSum: rows that belong to the same segment are added up.
//
// Rows are added in their order, columns in parallel: the result does not depend on threads.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/common/half.h"
#include "kernels/math/arithmetic.h"
#include "kernels/math/gradient_helpers.h"

namespace tandem::math {
namespace {

const std::vector<DataType>& Numbers() {
  static const auto& types = *new std::vector<DataType>(
      {kFloat32, kFloat64, kFloat16, kBfloat16, kComplex64, kComplex128, kInt8, kInt16, kInt32,
       kInt64, kUint8, kUint16, kUint32, kUint64});
  return types;
}

template <typename H>
void WidenRow(const char* from, float* to, int64_t n) {
  ToFloat(reinterpret_cast<const H*>(from), to, n);
}

// Adds row i of `data` to row ids[i] of `output`, both of `width` elements; negative ids are left
// out.
absl::Status AddRows(KernelContext& c, const Tensor& data, absl::Span<const int64_t> ids,
                     int64_t width, Tensor* output) {
  const DataType dtype = data.dtype();
  const bool half = dtype == kFloat16 || dtype == kBfloat16;
  const BinaryLoop add = AdditionLoop(half ? kFloat32 : dtype);
  const size_t size = DataTypeSize(dtype);
  const char* const from = static_cast<const char*>(data.data());
  // Half types are added up in float and rounded once.
  Tensor sums;
  if (half) {
    TANDEM_ASSIGN_OR_RETURN(sums, c.AllocateTemporary(kFloat32, output->shape()));
  }
  Tensor& target = half ? sums : *output;
  const size_t target_size = DataTypeSize(target.dtype());
  char* const to = static_cast<char*>(target.mutable_data());
  std::memset(to, 0, target.num_bytes());

  const double cost = 0.5 * static_cast<double>(ids.size());
  c.parallel().For(width, cost, [&](int64_t begin, int64_t end) {
    float row[kHalfBlock];
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0) continue;
      for (int64_t column = begin; column < end;) {
        const int64_t n = half ? std::min(kHalfBlock, end - column) : end - column;
        const void* x =
            from + (i * static_cast<size_t>(width) + static_cast<size_t>(column)) * size;
        if (half) {
          (dtype == kFloat16 ? WidenRow<Float16> : WidenRow<Bfloat16>)(static_cast<const char*>(x),
                                                                       row, n);
          x = row;
        }
        char* const sum = to + static_cast<size_t>(ids[i] * width + column) * target_size;
        add(sum, x, sum, n);
        column += n;
      }
    }
  });
  if (dtype == kFloat16) {
    FromFloat(sums.Elements<float>().data(), output->MutableElements<Float16>().data(),
              sums.num_elements());
  } else if (dtype == kBfloat16) {
    FromFloat(sums.Elements<float>().data(), output->MutableElements<Bfloat16>().data(),
              sums.num_elements());
  }
  return absl::OkStatus();
}

std::vector<int64_t> ReadIds(const Tensor& ids) {
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(ids.num_elements()));
  if (ids.dtype() == kInt32) {
    for (const int32_t id : ids.Elements<int32_t>()) values.push_back(id);
  } else if (ids.dtype() == kInt64) {
    for (const int64_t id : ids.Elements<int64_t>()) values.push_back(id);
  } else {
    for (const int16_t id : ids.Elements<int16_t>()) values.push_back(id);
  }
  return values;
}

// [rows, dims of `shape` after the first `skipped`].
absl::StatusOr<Shape> WithRows(int64_t rows, const Shape& shape, int skipped) {
  Shape::Dims dims = {rows};
  for (int d = skipped; d < shape.rank(); ++d) dims.push_back(shape.dim(d));
  return Shape::FromDims(dims);
}

// --- SegmentSum ----------------------------------------------------------------------------------

absl::Status ComputeSegmentSum(KernelContext& c) {
  const Tensor& data = c.input(0);
  const Tensor& segment_ids = c.input(1);
  if (data.shape().IsScalar()) return errors::InvalidArgument("data must not be a scalar");
  if (!segment_ids.shape().IsVector() || segment_ids.shape().dim(0) != data.shape().dim(0)) {
    return errors::InvalidArgument("segment_ids has shape ", segment_ids.shape().DebugString(),
                                   "; it must be a vector as long as data ",
                                   data.shape().DebugString(), " has rows");
  }
  const std::vector<int64_t> ids = ReadIds(segment_ids);
  int64_t previous = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < previous) {
      return errors::InvalidArgument("segment_ids[", i, "] is ", ids[i], " after ", previous,
                                     "; ids must be sorted and not negative");
    }
    previous = ids[i];
  }
  const int64_t rows = ids.empty() ? 0 : ids.back() + 1;
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, WithRows(rows, data.shape(), 1));
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
  if (ids.empty()) return absl::OkStatus();
  return AddRows(c, data, ids, shape.num_elements() / rows, output);
}

absl::Status SegmentSumShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  const PartialShape& data = c.input(0);
  if (!data.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  if (c.input(1).has_rank()) {
    TANDEM_RETURN_IF_ERROR(
        PartialShape({data.dim(0)}).MergeWith(PartialShape({c.input(1).dim(0)})).status());
  }
  PartialShape shape = data;
  shape.SetDim(0, PartialShape::kUnknownDim);
  return c.SetOutput(0, std::move(shape));
}

absl::Status SegmentSumGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("GatherV2", {g.OutputGradient(0), g.input(1),
                                            g.Constant(Tensor::Scalar<int32_t>(0))}));
  return absl::OkStatus();
}

KernelDef SegmentKernel(KernelFunction function) {
  KernelDef def = Function(function);
  def.types = {{"T", Numbers()}};
  return def;
}

TANDEM_OP("SegmentSum")
    .Inputs("data:T, segment_ids:Tindices")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,"
        "bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64}; "
        "Tindices:type{int32,int64}")
    .Shape(SegmentSumShape)
    .Gradient(SegmentSumGradient)
    .Cpu(SegmentKernel(ComputeSegmentSum));

// --- UnsortedSegmentSum --------------------------------------------------------------------------

absl::Status ComputeUnsortedSegmentSum(KernelContext& c) {
  const Tensor& data = c.input(0);
  const Tensor& segment_ids = c.input(1);
  const Shape& prefix = segment_ids.shape();
  bool fits = prefix.rank() <= data.shape().rank();
  for (int d = 0; fits && d < prefix.rank(); ++d) fits = prefix.dim(d) == data.shape().dim(d);
  if (!fits) {
    return errors::InvalidArgument("data ", data.shape().DebugString(),
                                   " does not begin with the shape of segment_ids, ",
                                   prefix.DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(const int64_t rows, ScalarArgument(c.input(2), "num_segments"));
  if (rows < 0)
    return errors::InvalidArgument("num_segments is ", rows, "; it must not be negative");
  const std::vector<int64_t> ids = ReadIds(segment_ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < rows) continue;
    return errors::InvalidArgument("element ", i, " of segment_ids is ", ids[i],
                                   ", not below num_segments, ", rows);
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, WithRows(rows, data.shape(), prefix.rank()));
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  return AddRows(c, data, ids, shape.num_elements() / rows, output);
}

absl::Status UnsortedSegmentSumShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  const PartialShape& data = c.input(0);
  const PartialShape& ids = c.input(1);
  const absl::optional<int64_t> rows = c.InputAsInt(2);
  if (rows.has_value() && *rows < 0) {
    return errors::InvalidArgument("num_segments is ", *rows, "; it must not be negative");
  }
  if (!data.has_rank() || !ids.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  bool fits = ids.rank() <= data.rank();
  for (int d = 0; fits && d < ids.rank(); ++d) {
    fits = ids.dim(d) == data.dim(d) || ids.dim(d) < 0 || data.dim(d) < 0;
  }
  if (!fits) {
    return errors::InvalidArgument("data ", data.DebugString(),
                                   " does not begin with the shape of segment_ids, ",
                                   ids.DebugString());
  }
  PartialShape shape({rows.value_or(PartialShape::kUnknownDim)});
  for (int d = ids.rank(); d < data.rank(); ++d) shape.AddDim(data.dim(d));
  return c.SetOutput(0, std::move(shape));
}

// Row i gets the gradient of its segment; rows that were left out get zero.
absl::Status UnsortedSegmentSumGradient(GradientContext& g) {
  const Output ids = g.input(1);
  const DataType index = RemoveReference(ids.dtype());
  const Output zero = g.Scalar(index, 0);
  const Output rows = g.Call("GatherV2", {g.OutputGradient(0), g.Call("Maximum", {ids, zero}),
                                          g.Constant(Tensor::Scalar<int32_t>(0))});
  // [shape of ids, 1, …] so that it broadcasts against the rows.
  const Output missing = g.Call("Sub", {g.Call("Rank", {rows}), g.Call("Rank", {ids})});
  const Output ones =
      g.Call("Fill", {g.Call("Reshape", {missing, g.Constant(Tensor::Vector<int32_t>({1}))}),
                      g.Constant(Tensor::Scalar<int32_t>(1))});
  const Output shape =
      g.Call("ConcatV2", {g.Call("Shape", {ids}), ones, g.Constant(Tensor::Scalar<int32_t>(0))},
             {{"N", 2}});
  const Output taken = g.Call("Reshape", {g.Call("GreaterEqual", {ids, zero}), shape});
  g.SetInputGradient(0, g.Call("SelectV2", {taken, rows, g.Call("ZerosLike", {rows})}));
  return absl::OkStatus();
}

TANDEM_OP("UnsortedSegmentSum")
    .Inputs("data:T, segment_ids:Tindices, num_segments:Tnumsegments")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,"
        "bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64}; "
        "Tindices:type{int16,int32,int64}; Tnumsegments:type{int32,int64}=int32")
    .Shape(UnsortedSegmentSumShape)
    .Gradient(UnsortedSegmentSumGradient)
    .HostMemory({"num_segments"})
    .Cpu(SegmentKernel(ComputeUnsortedSegmentSum));

}  // namespace
}  // namespace tandem::math
