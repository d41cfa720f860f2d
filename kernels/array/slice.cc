// Ops that take a part of a tensor by position: Slice, StridedSlice; and StridedSliceGrad, which
// puts one back among zeros.
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/gradient_helpers.h"
#include "kernels/array/slice_spec.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// True when the grid's elements lie one after the other in the source.
bool IsRun(const LoopDims& dims) {
  int64_t expected = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].size == 1) continue;
    if (dims[i].from_stride != expected) return false;
    expected *= dims[i].size;
  }
  return true;
}

// Output 0, of shape `output`: the elements of `input` at begin + i·stride, i below `size`.
absl::Status TakePart(KernelContext& c, const Tensor& input, const Ints& begin, const Ints& stride,
                      const Shape& size, Shape output) {
  const auto from_strides = Strides(input.shape().dims());
  const auto to_strides = Strides(size.dims());
  LoopDims dims;
  int64_t at = 0;
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t step = stride.empty() ? 1 : stride[i];
    dims.push_back({size.dim(static_cast<int>(i)), to_strides[i], from_strides[i] * step});
    at += begin[i] * from_strides[i];
  }
  if (size.num_elements() > 0 && IsRun(dims)) {
    if (absl::optional<Tensor> view = AlignedView(input, at, output)) {
      c.SetOutput(0, *std::move(view));
      return absl::OkStatus();
    }
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * result, c.AllocateOutput(0, std::move(output)));
  if (result->num_elements() == 0) return absl::OkStatus();
  CopyStrided(c.parallel(), input.dtype(), result->mutable_data(),
              ElementAt(input.dtype(), input.data(), at), std::move(dims));
  return absl::OkStatus();
}

// --- Slice

absl::Status CheckPart(size_t dim, int64_t begin, int64_t size, int64_t whole) {
  if (begin < 0 || begin > whole) {
    return errors::InvalidArgument("begin[", dim, "] is ", begin, "; dimension ", dim, " has size ",
                                   whole);
  }
  if (size < 0 || size > whole - begin) {
    return errors::InvalidArgument("size[", dim, "] is ", size, " from begin[", dim, "] = ", begin,
                                   " on; dimension ", dim, " has size ", whole,
                                   " (a size of -1 takes the rest)");
  }
  return absl::OkStatus();
}

absl::Status SliceShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 1));
  int64_t rank = c.input(0).has_rank() ? c.input(0).rank() : kUnknown;
  for (const int i : {1, 2}) {
    if (!c.input(i).has_rank()) continue;
    absl::StatusOr<int64_t> merged = MergeSizes(rank, c.input(i).dim(0));
    if (!merged.ok()) {
      return errors::InvalidArgument(
          "'begin' ", c.input(1).DebugString(), " and 'size' ", c.input(2).DebugString(),
          " must have an element for each dimension of the input ", c.input(0).DebugString());
    }
    rank = *merged;
  }
  if (rank == kUnknown) return c.SetOutput(0, PartialShape::Unknown());
  if (rank > kMaxRank) return errors::InvalidArgument("'begin' has ", rank, " elements");
  const PartialShape input =
      c.input(0).has_rank() ? c.input(0) : PartialShape::UnknownOfRank(static_cast<int>(rank));
  const absl::optional<Ints> begin = KnownInts(c, 1);
  absl::optional<Ints> size = KnownInts(c, 2);
  PartialShape output = PartialShape::UnknownOfRank(static_cast<int>(rank));
  if (!size.has_value()) {
    // Sizes computed from shapes may be known in part.
    TANDEM_ASSIGN_OR_RETURN(PartialShape partial, c.InputAsShape(2));
    if (partial.has_rank() && partial.rank() == rank) output = std::move(partial);
    return c.SetOutput(0, std::move(output));
  }
  for (size_t i = 0; i < size->size(); ++i) {
    const int d = static_cast<int>(i);
    int64_t wanted = (*size)[i];
    if (wanted < -1) return CheckPart(i, begin ? (*begin)[i] : 0, wanted, input.dim(d));
    const bool whole_known = input.dim(d) != kUnknown;
    if (wanted == -1 && begin && whole_known && (*begin)[i] >= 0 && (*begin)[i] <= input.dim(d)) {
      wanted = input.dim(d) - (*begin)[i];
    }
    if (begin && whole_known) {
      TANDEM_RETURN_IF_ERROR(CheckPart(i, (*begin)[i], wanted, input.dim(d)));
    }
    output.SetDim(d, wanted);
  }
  return c.SetOutput(0, std::move(output));
}

absl::Status Slice(KernelContext& c) {
  const Tensor& input = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(const Ints begin, VectorArgument(c.input(1), "begin"));
  TANDEM_ASSIGN_OR_RETURN(Ints size, VectorArgument(c.input(2), "size"));
  const size_t rank = static_cast<size_t>(input.shape().rank());
  if (begin.size() != rank || size.size() != rank) {
    return errors::InvalidArgument("'begin' and 'size' have ", begin.size(), " and ", size.size(),
                                   " elements; the input of shape ", input.shape().DebugString(),
                                   " has ", rank, " dimensions");
  }
  bool whole = true;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t dim = input.shape().dim(static_cast<int>(i));
    if (size[i] == -1 && begin[i] >= 0 && begin[i] <= dim) size[i] = dim - begin[i];
    TANDEM_RETURN_IF_ERROR(CheckPart(i, begin[i], size[i], dim));
    whole = whole && size[i] == dim;
  }
  if (whole) {
    c.SetOutput(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(size));
  return TakePart(c, input, begin, {}, shape, shape);
}

// The gradient is the output's, padded with zeros to the input's shape.
absl::Status SliceGradient(GradientContext& g) {
  const DataType index = RemoveReference(g.input(1).dtype());
  const Output before = g.input(1);
  const absl::optional<Ints> begin = ConstantInts(before);
  const PartialShape& whole = g.input(0).shape();
  const PartialShape& part = g.output(0).shape();
  if (begin.has_value() && whole.IsFullyDefined() && part.IsFullyDefined()) {
    Ints paddings;
    for (size_t i = 0; i < begin->size(); ++i) {
      const int d = static_cast<int>(i);
      paddings.push_back((*begin)[i]);
      paddings.push_back(whole.dim(d) - (*begin)[i] - part.dim(d));
    }
    const Output matrix = IntMatrix(g, index, paddings, 2);
    g.SetInputGradient(0, g.Call("Pad", {g.OutputGradient(0), matrix}));
    return absl::OkStatus();
  }
  const Output rest =
      g.Call("Sub", {ShapeVector(g, g.input(0), index), ShapeVector(g, g.output(0), index)});
  const Output after = g.Call("Sub", {rest, before});
  const Output paddings = g.Call("Pack", {before, after}, {{"axis", 1}});
  g.SetInputGradient(0, g.Call("Pad", {g.OutputGradient(0), paddings}));
  return absl::OkStatus();
}

// --- StridedSlice

// Where begin, end and strides lie among the inputs, and how many entries they have: kUnknown when
// that is not known.
absl::StatusOr<int64_t> CountEntries(const ShapeContext& c, int first) {
  int64_t entries = kUnknown;
  for (int i = first; i < first + 3; ++i) {
    TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 1));
    if (!c.input(i).has_rank()) continue;
    absl::StatusOr<int64_t> merged = MergeSizes(entries, c.input(i).dim(0));
    if (!merged.ok()) return WithContext(merged.status(), "'begin', 'end' and 'strides'");
    entries = *merged;
  }
  return entries;
}

absl::StatusOr<SliceSpec> ResolveKnown(const PartialShape& input, const Tensor& begin,
                                       const Tensor& end, const Tensor& strides,
                                       const SliceMasks& masks) {
  TANDEM_ASSIGN_OR_RETURN(const Ints begins, VectorArgument(begin, "begin"));
  TANDEM_ASSIGN_OR_RETURN(const Ints ends, VectorArgument(end, "end"));
  TANDEM_ASSIGN_OR_RETURN(const Ints steps, VectorArgument(strides, "strides"));
  if (begins.size() != steps.size() || ends.size() != steps.size()) {
    return errors::InvalidArgument("'begin', 'end' and 'strides' have ", begins.size(), ", ",
                                   ends.size(), " and ", steps.size(),
                                   " elements; they must have the same number");
  }
  return ResolveSlice(input, static_cast<int64_t>(steps.size()), &begins, &ends, &steps, masks);
}

absl::Status StridedSliceShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t entries, CountEntries(c, 1));
  if (!c.input(0).has_rank() || entries == kUnknown) {
    return c.SetOutput(0, PartialShape::Unknown());
  }
  const absl::optional<Ints> begin = KnownInts(c, 1);
  const absl::optional<Ints> end = KnownInts(c, 2);
  const absl::optional<Ints> strides = KnownInts(c, 3);
  const auto pointer = [](const absl::optional<Ints>& ints) { return ints ? &*ints : nullptr; };
  TANDEM_ASSIGN_OR_RETURN(SliceSpec spec,
                          ResolveSlice(c.input(0), entries, pointer(begin), pointer(end),
                                       pointer(strides), SliceMasks::From(c)));
  return c.SetOutput(0, std::move(spec.output));
}

class StridedSliceKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    masks_ = SliceMasks::From(init);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const SliceSpec spec, ResolveKnown(input.shape(), c.input(1),
                                                               c.input(2), c.input(3), masks_));
    TANDEM_ASSIGN_OR_RETURN(const Shape size, spec.size.ToShape());
    TANDEM_ASSIGN_OR_RETURN(Shape output, spec.output.ToShape());
    return TakePart(c, input, spec.begin, spec.stride, size, std::move(output));
  }

 private:
  SliceMasks masks_;
};

AttrMap MaskAttrs(const GradientContext& g) {
  AttrMap attrs;
  for (const char* name :
       {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
    attrs.emplace(name, g.Attr<int64_t>(name));
  }
  return attrs;
}

absl::Status StridedSliceGradient(GradientContext& g) {
  // StridedSliceGrad takes no int16.
  const DataType given = RemoveReference(g.input(1).dtype());
  const DataType index = given == kInt64 ? kInt64 : kInt32;
  g.SetInputGradient(
      0, g.Call("StridedSliceGrad",
                {ShapeVector(g, g.input(0), index), CastTo(g, g.input(1), index),
                 CastTo(g, g.input(2), index), CastTo(g, g.input(3), index), g.OutputGradient(0)},
                MaskAttrs(g)));
  return absl::OkStatus();
}

// --- StridedSliceGrad

absl::Status StridedSliceGradShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CountEntries(c, 1).status());
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, c.InputAsShape(0));
  return c.SetOutput(0, std::move(shape));
}

class StridedSliceGradKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    masks_ = SliceMasks::From(init);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(0), "shape"));
    const Tensor& dy = c.input(4);
    TANDEM_ASSIGN_OR_RETURN(const SliceSpec spec,
                            ResolveKnown(shape, c.input(1), c.input(2), c.input(3), masks_));
    if (spec.output != PartialShape(dy.shape())) {
      return errors::InvalidArgument("'dy' has shape ", dy.shape().DebugString(),
                                     "; the slice has shape ", spec.output.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(const Shape size, spec.size.ToShape());
    const auto to_strides = Strides(shape.dims());
    const auto from_strides = Strides(size.dims());
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    ZeroElements(c.parallel(), output->dtype(), output->mutable_data(), output->num_elements());
    if (dy.num_elements() == 0) return absl::OkStatus();
    LoopDims dims;
    int64_t at = 0;
    for (size_t i = 0; i < spec.begin.size(); ++i) {
      dims.push_back(
          {size.dim(static_cast<int>(i)), to_strides[i] * spec.stride[i], from_strides[i]});
      at += spec.begin[i] * to_strides[i];
    }
    CopyStrided(c.parallel(), dy.dtype(), ElementAt(dy.dtype(), output->mutable_data(), at),
                dy.data(), std::move(dims));
    return absl::OkStatus();
  }

 private:
  SliceMasks masks_;
};

absl::Status StridedSliceGradGradient(GradientContext& g) {
  g.SetInputGradient(
      4, g.Call("StridedSlice", {g.OutputGradient(0), g.input(1), g.input(2), g.input(3)},
                MaskAttrs(g)));
  return absl::OkStatus();
}

TANDEM_OP("Slice")
    .Inputs("input:T, begin:Index, size:Index")
    .Outputs("output:T")
    .Attrs("T:type; Index:type{int32,int64}")
    .Shape(SliceShape)
    .Gradient(SliceGradient)
    .HostMemory({"begin", "size"})
    .Cpu(ForTypes("T", AllTypesBut({kResource, kVariant}), Function(Slice)));

TANDEM_OP("StridedSlice")
    .Inputs("input:T, begin:Index, end:Index, strides:Index")
    .Outputs("output:T")
    .Attrs(
        "T:type; Index:type{int16,int32,int64}; begin_mask:int=0; end_mask:int=0; "
        "ellipsis_mask:int=0; new_axis_mask:int=0; shrink_axis_mask:int=0")
    .Shape(StridedSliceShape)
    .Gradient(StridedSliceGradient)
    .HostMemory({"begin", "end", "strides"})
    .Cpu(Make<StridedSliceKernel>("T", AllTypes()));

TANDEM_OP("StridedSliceGrad")
    .Inputs("shape:Index, begin:Index, end:Index, strides:Index, dy:T")
    .Outputs("output:T")
    .Attrs(
        "T:type; Index:type{int32,int64}; begin_mask:int=0; end_mask:int=0; "
        "ellipsis_mask:int=0; new_axis_mask:int=0; shrink_axis_mask:int=0")
    .Shape(StridedSliceGradShape)
    .Gradient(StridedSliceGradGradient)
    .HostMemory({"shape", "begin", "end", "strides"})
    .Cpu(Make<StridedSliceGradKernel>("T", AllTypes()));

}  // namespace
}  // namespace tandem::array
