// Ops that take a tensor apart: Split into equal parts, SplitV into parts of given sizes, Unpack
// into slices without the dimension.
#include <vector>

#include "absl/strings/str_join.h"
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

// Output `i` becomes columns [at, at + inner) of `input`, seen as [outer, row]: a view where they
// lie together and are well aligned, else a copy.
absl::Status TakeColumns(KernelContext& c, const Tensor& input, int64_t outer, int64_t row,
                         int64_t at, int64_t inner, int i, Shape shape) {
  if (outer == 1 && inner > 0) {
    if (absl::optional<Tensor> view = AlignedView(input, at, shape)) {
      c.SetOutput(i, *std::move(view));
      return absl::OkStatus();
    }
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(i, std::move(shape)));
  CopyStrided(c.parallel(), input.dtype(), output->mutable_data(),
              ElementAt(input.dtype(), input.data(), at), {{outer, inner, row}, {inner, 1, 1}});
  return absl::OkStatus();
}

// Splits along `axis` into parts of these sizes, whose sum is the dimension's.
absl::Status SplitInto(KernelContext& c, const Tensor& input, int axis,
                       absl::Span<const int64_t> sizes) {
  const Shape& shape = input.shape();
  const int64_t outer = Product(shape.dims(), 0, axis);
  const int64_t below = Product(shape.dims(), axis + 1, shape.rank());
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Shape part = shape;
    part.SetDim(axis, sizes[i]);
    TANDEM_RETURN_IF_ERROR(TakeColumns(c, input, outer, shape.dim(axis) * below, at,
                                       sizes[i] * below, static_cast<int>(i), std::move(part)));
    at += sizes[i] * below;
  }
  return absl::OkStatus();
}

absl::Status JoinGradients(GradientContext& g, int input, Output axis) {
  std::vector<Output> parts;
  for (int i = 0; i < g.num_outputs(); ++i) parts.push_back(g.OutputGradient(i));
  if (parts.size() == 1) {
    g.SetInputGradient(input, parts[0]);
    return absl::OkStatus();
  }
  parts.push_back(axis);
  g.SetInputGradient(input, g.Call("ConcatV2", parts, {{"N", g.num_outputs()}}));
  return absl::OkStatus();
}

// --- Split

absl::Status SplitShape(ShapeContext& c) {
  const PartialShape& value = c.input(1);
  const int64_t parts = c.num_outputs();
  PartialShape output;
  const absl::optional<int64_t> known_axis = c.InputAsInt(0);
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 0));
  if (value.has_rank() && known_axis.has_value()) {
    TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(*known_axis, value.rank()));
    output = value;
    if (value.dim(axis) != kUnknown) {
      if (value.dim(axis) % parts != 0) {
        return errors::InvalidArgument("dimension ", axis, " of a tensor of shape ",
                                       value.DebugString(), " has size ", value.dim(axis),
                                       ", which cannot be split into ", parts, " equal parts");
      }
      output.SetDim(axis, value.dim(axis) / parts);
    }
  } else if (value.has_rank()) {
    output = PartialShape::UnknownOfRank(value.rank());
  }
  for (int i = 0; i < c.num_outputs(); ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, output));
  return absl::OkStatus();
}

absl::Status Split(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t given_axis, ScalarArgument(c.input(0), "split_dim"));
  const Tensor& value = c.input(1);
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(given_axis, value.shape().rank()));
  const int64_t size = value.shape().dim(axis);
  if (size % c.num_outputs() != 0) {
    return errors::InvalidArgument(
        "dimension ", axis, " of a tensor of shape ", value.shape().DebugString(), " has size ",
        size, ", which cannot be split into ", c.num_outputs(), " equal parts");
  }
  return SplitInto(c, value, axis,
                   Ints(static_cast<size_t>(c.num_outputs()), size / c.num_outputs()));
}

absl::Status SplitGradient(GradientContext& g) { return JoinGradients(g, 1, g.input(0)); }

// --- SplitV

// Replaces a size of -1 by what is left of `total` (unknown: stays) and checks that the sizes fit.
absl::Status CompleteSizes(Ints& sizes, int64_t total) {
  int64_t sum = 0;
  int64_t* inferred = nullptr;
  for (int64_t& size : sizes) {
    if (size == -1 && inferred == nullptr) {
      inferred = &size;
    } else if (size < 0) {
      return errors::InvalidArgument("'size_splits' is [", absl::StrJoin(sizes, ","),
                                     "]; sizes may not be negative, except for one -1 that stands "
                                     "for the rest");
    } else if (__builtin_add_overflow(sum, size, &sum)) {
      return errors::InvalidArgument("'size_splits' is [", absl::StrJoin(sizes, ","),
                                     "], which is too large to add");
    }
  }
  if (total == kUnknown) return absl::OkStatus();
  if (inferred == nullptr ? sum != total : sum > total) {
    return errors::InvalidArgument("'size_splits' is [", absl::StrJoin(sizes, ","),
                                   "] with the sum ", sum, "; the dimension has size ", total);
  }
  if (inferred != nullptr) *inferred = total - sum;
  return absl::OkStatus();
}

absl::Status SplitVShape(ShapeContext& c) {
  const PartialShape& value = c.input(0);
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  if (c.input(1).has_rank() && c.input(1).dim(0) != kUnknown &&
      c.input(1).dim(0) != c.num_outputs()) {
    return errors::InvalidArgument("'size_splits' has ", c.input(1).dim(0), " sizes for ",
                                   c.num_outputs(), " outputs");
  }
  const absl::optional<int64_t> known_axis = c.InputAsInt(2);
  absl::optional<Ints> sizes = KnownInts(c, 1);
  if (!value.has_rank() || !known_axis.has_value()) {
    PartialShape output;
    if (value.has_rank()) output = PartialShape::UnknownOfRank(value.rank());
    // With one output it is the input.
    if (c.num_outputs() == 1) output = value;
    for (int i = 0; i < c.num_outputs(); ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, output));
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(*known_axis, value.rank()));
  if (sizes.has_value()) TANDEM_RETURN_IF_ERROR(CompleteSizes(*sizes, value.dim(axis)));
  for (int i = 0; i < c.num_outputs(); ++i) {
    PartialShape output = value;
    if (c.num_outputs() > 1)
      output.SetDim(axis, sizes ? (*sizes)[static_cast<size_t>(i)] : kUnknown);
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, std::move(output)));
  }
  return absl::OkStatus();
}

absl::Status SplitV(KernelContext& c) {
  const Tensor& value = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(Ints sizes, VectorArgument(c.input(1), "size_splits"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t given_axis, ScalarArgument(c.input(2), "split_dim"));
  if (sizes.size() != static_cast<size_t>(c.num_outputs())) {
    return errors::InvalidArgument("'size_splits' has ", sizes.size(), " sizes for ",
                                   c.num_outputs(), " outputs");
  }
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(given_axis, value.shape().rank()));
  TANDEM_RETURN_IF_ERROR(CompleteSizes(sizes, value.shape().dim(axis)));
  return SplitInto(c, value, axis, sizes);
}

absl::Status SplitVGradient(GradientContext& g) { return JoinGradients(g, 0, g.input(2)); }

// --- Unpack

absl::Status UnpackShape(ShapeContext& c) {
  const PartialShape& value = c.input(0);
  PartialShape output;
  if (value.has_rank()) {
    TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(c.Attr<int64_t>("axis"), value.rank()));
    if (value.dim(axis) != kUnknown && value.dim(axis) != c.Attr<int64_t>("num")) {
      return errors::InvalidArgument("dimension ", axis, " of a tensor of shape ",
                                     value.DebugString(), " has size ", value.dim(axis),
                                     "; attribute 'num' is ", c.Attr<int64_t>("num"));
    }
    output = WithoutDim(value, axis);
  }
  for (int i = 0; i < c.num_outputs(); ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, output));
  return absl::OkStatus();
}

class UnpackKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    axis_ = init.Attr<int64_t>("axis");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& value = c.input(0);
    const Shape& shape = value.shape();
    TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, shape.rank()));
    if (shape.dim(axis) != c.num_outputs()) {
      return errors::InvalidArgument("dimension ", axis, " of a tensor of shape ",
                                     shape.DebugString(), " has size ", shape.dim(axis),
                                     "; attribute 'num' is ", c.num_outputs());
    }
    Ints dims(shape.dims().begin(), shape.dims().end());
    dims.erase(dims.begin() + axis);
    TANDEM_ASSIGN_OR_RETURN(const Shape part, Shape::FromDims(dims));
    const int64_t outer = Product(shape.dims(), 0, axis);
    const int64_t inner = Product(shape.dims(), axis + 1, shape.rank());
    for (int i = 0; i < c.num_outputs(); ++i) {
      TANDEM_RETURN_IF_ERROR(
          TakeColumns(c, value, outer, inner * c.num_outputs(), i * inner, inner, i, part));
    }
    return absl::OkStatus();
  }

 private:
  int64_t axis_ = 0;
};

absl::Status UnpackGradient(GradientContext& g) {
  if (g.num_outputs() == 0) return absl::OkStatus();
  std::vector<Output> parts;
  for (int i = 0; i < g.num_outputs(); ++i) parts.push_back(g.OutputGradient(i));
  g.SetInputGradient(0, g.Call("Pack", parts, {{"axis", g.Attr<int64_t>("axis")}}));
  return absl::OkStatus();
}

TANDEM_OP("Split")
    .Inputs("split_dim:int32, value:T")
    .Outputs("output:num_split*T")
    .Attrs("num_split:int>=1; T:type")
    .Shape(SplitShape)
    .Gradient(SplitGradient)
    .HostMemory({"split_dim"})
    .Cpu(ForTypes("T", AllTypes(), Function(Split)));

TANDEM_OP("SplitV")
    .Inputs("value:T, size_splits:Tlen, split_dim:int32")
    .Outputs("output:num_split*T")
    .Attrs("num_split:int>=1; T:type; Tlen:type{int8,int32,int64}=int64")
    .Shape(SplitVShape)
    .Gradient(SplitVGradient)
    .HostMemory({"size_splits", "split_dim"})
    .Cpu(ForTypes("T", AllTypes(), Function(SplitV)));

TANDEM_OP("Unpack")
    .Inputs("value:T")
    .Outputs("output:num*T")
    .Attrs("num:int>=0; T:type; axis:int=0")
    .Shape(UnpackShape)
    .Gradient(UnpackGradient)
    .Cpu(Make<UnpackKernel>("T", AllTypes()));

}  // namespace
}  // namespace tandem::array
