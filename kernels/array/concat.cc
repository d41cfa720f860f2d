// Ops that join tensors: ConcatV2 along a dimension that they have, Pack along a new one, and
// ConcatOffset, which says where ConcatV2 puts each input.
#include <vector>

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

// Copies `input`, seen as [outer, inner], into columns [at, at + inner) of an output whose rows
// have `row` elements.
void CopyColumns(KernelContext& c, const Tensor& input, int64_t outer, int64_t inner,
                 Tensor& output, int64_t row, int64_t at) {
  void* const to = ElementAt(output.dtype(), output.mutable_data(), at);
  constexpr int64_t kInline = 16384;  // Elements; more may be worth several threads.
  if (outer == 1 && inner <= kInline) {
    CopyElements(input.dtype(), to, input.data(), inner);
    return;
  }
  CopyStrided(c.parallel(), input.dtype(), to, input.data(), {{outer, row, inner}, {inner, 1, 1}});
}

// --- ConcatV2

absl::Status ConcatShape(ShapeContext& c) {
  const int n = c.num_inputs() - 1;
  TANDEM_RETURN_IF_ERROR(c.RequireRank(n, 0));
  int rank = -1;
  for (int i = 0; i < n; ++i) {
    if (!c.input(i).has_rank()) continue;
    if (c.input(i).rank() == 0) {
      return errors::InvalidArgument("input ", i,
                                     " is a scalar; scalars cannot be concatenated "
                                     "(Pack joins them)");
    }
    if (rank >= 0 && c.input(i).rank() != rank) {
      return errors::InvalidArgument("input ", i, " has shape ", c.input(i).DebugString(),
                                     "; others have rank ", rank);
    }
    rank = c.input(i).rank();
  }
  if (rank < 0) return c.SetOutput(0, PartialShape::Unknown());
  const absl::optional<int64_t> known_axis = c.InputAsInt(n);
  if (!known_axis.has_value()) return c.SetOutput(0, PartialShape::UnknownOfRank(rank));
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(*known_axis, rank));

  PartialShape output = PartialShape::UnknownOfRank(rank);
  int64_t size = 0;
  for (int i = 0; i < n; ++i) {
    if (!c.input(i).has_rank()) {
      size = kUnknown;
      continue;
    }
    PartialShape rest = c.input(i);
    TANDEM_ASSIGN_OR_RETURN(size, AddSizes(size, rest.dim(axis)));
    rest.SetDim(axis, kUnknown);
    absl::StatusOr<PartialShape> merged = output.MergeWith(rest);
    if (!merged.ok()) {
      return errors::InvalidArgument(
          "shapes ", c.input(i).DebugString(), " (input ", i, ") and ", c.input(0).DebugString(),
          " cannot be concatenated along axis ", axis, ": they differ in another dimension");
    }
    output = *std::move(merged);
  }
  output.SetDim(axis, size);
  return c.SetOutput(0, std::move(output));
}

absl::Status Concat(KernelContext& c) {
  const int n = c.num_inputs() - 1;
  TANDEM_ASSIGN_OR_RETURN(const int64_t given_axis, ScalarArgument(c.input(n), "axis"));
  const Shape& first = c.input(0).shape();
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(given_axis, first.rank()));
  int64_t size = 0;
  for (int i = 0; i < n; ++i) {
    const Shape& shape = c.input(i).shape();
    bool fits = shape.rank() == first.rank();
    for (int d = 0; fits && d < shape.rank(); ++d) {
      fits = d == axis || shape.dim(d) == first.dim(d);
    }
    if (!fits) {
      return errors::InvalidArgument("shapes ", shape.DebugString(), " (input ", i, ") and ",
                                     first.DebugString(), " cannot be concatenated along axis ",
                                     axis, ": all other dimensions must be equal");
    }
    TANDEM_ASSIGN_OR_RETURN(size, AddSizes(size, shape.dim(axis)));
  }
  Ints dims(first.dims().begin(), first.dims().end());
  dims[static_cast<size_t>(axis)] = size;
  TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
  if (output->num_elements() == 0) return absl::OkStatus();

  const int64_t outer = Product(dims, 0, axis);
  const int64_t below = Product(dims, axis + 1, first.rank());
  int64_t at = 0;
  for (int i = 0; i < n; ++i) {
    const int64_t inner = c.input(i).shape().dim(axis) * below;
    if (inner > 0) CopyColumns(c, c.input(i), outer, inner, *output, size * below, at);
    at += inner;
  }
  return absl::OkStatus();
}

// Each input's gradient is its part of the output's.
absl::Status ConcatGradient(GradientContext& g) {
  const int n = g.num_inputs() - 1;
  const Output axis = g.input(n);
  const Output dy = g.OutputGradient(0);
  const absl::optional<Ints> known_axis = ConstantInts(axis);
  Ints sizes;
  if (known_axis.has_value() && known_axis->size() == 1) {
    for (int i = 0; i < n; ++i) {
      const PartialShape& shape = g.input(i).shape();
      if (!shape.has_rank()) break;
      TANDEM_ASSIGN_OR_RETURN(const int d, ResolveAxis((*known_axis)[0], shape.rank()));
      if (shape.dim(d) == kUnknown) break;
      sizes.push_back(shape.dim(d));
    }
  }
  const Output axis32 = CastTo(g, axis, kInt32);
  if (sizes.size() == static_cast<size_t>(n)) {
    const std::vector<Output> parts =
        g.CallMulti("SplitV", {dy, IntVector(g, kInt64, sizes), axis32}, {{"num_split", n}});
    for (size_t i = 0; i < parts.size(); ++i) g.SetInputGradient(static_cast<int>(i), parts[i]);
    return absl::OkStatus();
  }
  std::vector<Output> inputs;
  for (int i = 0; i < n; ++i) inputs.push_back(g.input(i));
  const std::vector<Output> shapes = g.CallMulti("ShapeN", inputs);
  std::vector<Output> offset_inputs = {axis32};
  offset_inputs.insert(offset_inputs.end(), shapes.begin(), shapes.end());
  const std::vector<Output> offsets = g.CallMulti("ConcatOffset", offset_inputs);
  for (size_t i = 0; i < offsets.size() && g.status().ok(); ++i) {
    g.SetInputGradient(static_cast<int>(i), g.Call("Slice", {dy, offsets[i], shapes[i]}));
  }
  return absl::OkStatus();
}

// --- ConcatOffset

absl::Status ConcatOffsetShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 0));
  for (int i = 1; i < c.num_inputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 1));
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i - 1, c.input(i)));
  }
  return absl::OkStatus();
}

absl::Status ConcatOffset(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t given_axis, ScalarArgument(c.input(0), "concat_dim"));
  TANDEM_ASSIGN_OR_RETURN(const Ints first, VectorArgument(c.input(1), "shape"));
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(given_axis, static_cast<int>(first.size())));
  int64_t offset = 0;
  for (int i = 1; i < c.num_inputs(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(const Ints shape, VectorArgument(c.input(i), "shape"));
    bool fits = shape.size() == first.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      fits = static_cast<int>(d) == axis || shape[d] == first[d];
    }
    if (!fits) {
      return errors::InvalidArgument("shape ", i - 1, ", ", c.input(i).DebugString(),
                                     ", and the first one, ", c.input(1).DebugString(),
                                     ", cannot be concatenated along axis ", axis);
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(i - 1, c.input(i).shape()));
    ZeroElements(output->dtype(), output->mutable_data(), output->num_elements());
    if (output->dtype() == kInt64) {
      output->MutableElements<int64_t>()[static_cast<size_t>(axis)] = offset;
    } else {
      output->MutableElements<int32_t>()[static_cast<size_t>(axis)] = static_cast<int32_t>(offset);
    }
    if (__builtin_add_overflow(offset, shape[static_cast<size_t>(axis)], &offset)) {
      return errors::InvalidArgument("the sizes along axis ", axis, " are too large to add");
    }
  }
  return absl::OkStatus();
}

// --- Pack

absl::Status PackShape(ShapeContext& c) {
  PartialShape shape;
  for (int i = 0; i < c.num_inputs(); ++i) {
    absl::StatusOr<PartialShape> merged = shape.MergeWith(c.input(i));
    if (!merged.ok()) {
      return errors::InvalidArgument("shapes ", c.input(0).DebugString(), " and ",
                                     c.input(i).DebugString(), " (input ", i,
                                     ") differ; all inputs must have one shape");
    }
    shape = *std::move(merged);
  }
  if (!shape.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(c.Attr<int64_t>("axis"), shape.rank() + 1));
  return c.SetOutput(0, WithDim(shape, axis, c.num_inputs()));
}

class PackKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    axis_ = init.Attr<int64_t>("axis");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Shape& each = c.input(0).shape();
    for (int i = 1; i < c.num_inputs(); ++i) {
      if (c.input(i).shape() != each) {
        return errors::InvalidArgument("shapes ", each.DebugString(), " and ",
                                       c.input(i).shape().DebugString(), " (input ", i,
                                       ") differ; all inputs must have one shape");
      }
    }
    TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, each.rank() + 1));
    Ints dims(each.dims().begin(), each.dims().end());
    dims.insert(dims.begin() + axis, c.num_inputs());
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    if (c.num_inputs() == 1) {
      TANDEM_ASSIGN_OR_RETURN(Tensor output, c.TakeInput(0).Reshaped(std::move(shape)));
      c.SetOutput(0, std::move(output));
      return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    if (output->num_elements() == 0) return absl::OkStatus();
    const int64_t outer = Product(dims, 0, axis);
    const int64_t inner = each.num_elements() / outer;
    for (int i = 0; i < c.num_inputs(); ++i) {
      CopyColumns(c, c.input(i), outer, inner, *output, c.num_inputs() * inner, i * inner);
    }
    return absl::OkStatus();
  }

 private:
  int64_t axis_ = 0;
};

absl::Status PackGradient(GradientContext& g) {
  const std::vector<Output> parts =
      g.CallMulti("Unpack", {g.OutputGradient(0)},
                  {{"num", g.num_inputs()}, {"axis", g.Attr<int64_t>("axis")}});
  if (!g.status().ok()) return absl::OkStatus();
  for (int i = 0; i < g.num_inputs(); ++i) g.SetInputGradient(i, parts[static_cast<size_t>(i)]);
  return absl::OkStatus();
}

TANDEM_OP("ConcatV2")
    .Inputs("values:N*T, axis:Tidx")
    .Outputs("output:T")
    .Attrs("N:int>=2; T:type; Tidx:type{int32,int64}=int32")
    .Shape(ConcatShape)
    .Gradient(ConcatGradient)
    .HostMemory({"axis"})
    .Cpu(ForTypes("T", AllTypesBut({kResource, kVariant}), Function(Concat)));

TANDEM_OP("ConcatOffset")
    .Inputs("concat_dim:int32, shape:N*shape_type")
    .Outputs("offset:N*shape_type")
    .Attrs("N:int>=2; shape_type:type{int32,int64}=int32")
    .Cheap()
    .Shape(ConcatOffsetShape)
    .NotDifferentiable()
    .HostMemory({"concat_dim", "shape", "offset"})
    .Cpu(Function(ConcatOffset));

TANDEM_OP("Pack")
    .Inputs("values:N*T")
    .Outputs("output:T")
    .Attrs("N:int>=1; T:type; axis:int=0")
    .Shape(PackShape)
    .Gradient(PackGradient)
    .Cpu(Make<PackKernel>("T", AllTypes()));

}  // namespace
}  // namespace tandem::array
