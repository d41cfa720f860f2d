// Ops that put a margin around a tensor: Pad (zeros), PadV2 (a value), MirrorPad (its own elements,
// mirrored), and MirrorPadGrad, which folds such a margin back.
#include <string>

#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/add_elements.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/gradient_helpers.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// --- Shapes

absl::Status CheckPaddings(absl::Span<const int64_t> paddings) {
  for (size_t i = 0; i < paddings.size(); ++i) {
    if (paddings[i] < 0) {
      return errors::InvalidArgument("paddings[", i / 2, ",", i % 2, "] is ", paddings[i],
                                     "; paddings may not be negative");
    }
  }
  return absl::OkStatus();
}

// `sign` is 1 where margins are added, -1 where they are taken away.
absl::Status PaddedShape(ShapeContext& c, int sign) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 2));
  const PartialShape& paddings = c.input(1);
  PartialShape input = c.input(0);
  if (paddings.has_rank()) {
    if (paddings.dim(1) != kUnknown && paddings.dim(1) != 2) {
      return errors::InvalidArgument("'paddings' has shape ", paddings.DebugString(),
                                     "; two columns are wanted, before and after");
    }
    const int64_t rows = paddings.dim(0);
    if (rows != kUnknown && input.has_rank() && rows != input.rank()) {
      return errors::InvalidArgument("'paddings' has shape ", paddings.DebugString(),
                                     " for an input of shape ", input.DebugString(),
                                     "; a row for each dimension is wanted");
    }
    if (rows > kMaxRank) return errors::InvalidArgument("'paddings' has ", rows, " rows");
    if (rows != kUnknown && !input.has_rank()) {
      input = PartialShape::UnknownOfRank(static_cast<int>(rows));
    }
  }
  if (!input.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  const absl::optional<Ints> values = KnownInts(c, 1);
  PartialShape output = PartialShape::UnknownOfRank(input.rank());
  if (values.has_value()) {
    TANDEM_RETURN_IF_ERROR(CheckPaddings(*values));
    for (int i = 0; i < input.rank(); ++i) {
      const size_t d = static_cast<size_t>(i);
      TANDEM_ASSIGN_OR_RETURN(const int64_t margin,
                              AddSizes((*values)[2 * d], (*values)[2 * d + 1]));
      int64_t size = kUnknown;
      if (sign > 0) {
        TANDEM_ASSIGN_OR_RETURN(size, AddSizes(input.dim(i), margin));
      } else if (input.dim(i) != kUnknown) {
        size = input.dim(i) - margin;
        if (size < 0) {
          return errors::InvalidArgument("dimension ", i, " of a tensor of shape ",
                                         input.DebugString(), " has no margin of ", margin);
        }
      }
      output.SetDim(i, size);
    }
  }
  return c.SetOutput(0, std::move(output));
}

absl::Status PadShape(ShapeContext& c) {
  if (c.num_inputs() > 2) TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  return PaddedShape(c, 1);
}
absl::Status MirrorPadGradShape(ShapeContext& c) { return PaddedShape(c, -1); }

// The paddings of a tensor of this rank: before and after, for each dimension.
absl::StatusOr<Ints> ReadPaddings(const Tensor& paddings, const Shape& input) {
  const Shape& shape = paddings.shape();
  if (shape.rank() != 2 || shape.dim(0) != input.rank() || shape.dim(1) != 2) {
    return errors::InvalidArgument("'paddings' has shape ", shape.DebugString(),
                                   " for an input of shape ", input.DebugString(), "; [",
                                   input.rank(), ",2] is wanted");
  }
  TANDEM_ASSIGN_OR_RETURN(Ints values, IntsArgument(paddings, "paddings"));
  TANDEM_RETURN_IF_ERROR(CheckPaddings(values));
  return values;
}

absl::StatusOr<Shape> AddPaddings(const Shape& input, const Ints& paddings) {
  Ints dims;
  for (size_t d = 0; d < paddings.size() / 2; ++d) {
    TANDEM_ASSIGN_OR_RETURN(const int64_t margin, AddSizes(paddings[2 * d], paddings[2 * d + 1]));
    TANDEM_ASSIGN_OR_RETURN(const int64_t size, AddSizes(input.dim(static_cast<int>(d)), margin));
    dims.push_back(size);
  }
  return Shape::FromDims(dims);
}

// --- The margin, taken apart
//
// A padded tensor is its interior and, for each dimension d, two slabs: before and after the
// interior along d, within the interior along the dimensions before d and as wide as the whole
// tensor along those after it. So each element lies in exactly one of them.

struct Padded {
  Padded(const Shape& inner, const Shape& outer, const Ints& paddings)
      : inner(inner), outer(outer), paddings(paddings), strides(Strides(outer.dims())) {}

  int rank() const { return outer.rank(); }
  int64_t before(int d) const { return paddings[2 * static_cast<size_t>(d)]; }
  int64_t after(int d) const { return paddings[2 * static_cast<size_t>(d) + 1]; }
  int64_t stride(int d) const { return strides[static_cast<size_t>(d)]; }

  // The index of the interior's first element along dimensions before `d`.
  int64_t Corner(int d) const {
    int64_t corner = 0;
    for (int i = 0; i < d; ++i) corner += before(i) * stride(i);
    return corner;
  }
  // The grid of a slab along `d` with `size` rows, where the source strides as the target does,
  // except along `d`.
  LoopDims Slab(int d, int64_t size, int64_t from_stride) const {
    LoopDims dims;
    for (int i = 0; i < rank(); ++i) {
      if (i == d) {
        dims.push_back({size, stride(i), from_stride});
      } else {
        dims.push_back({i < d ? inner.dim(i) : outer.dim(i), stride(i), stride(i)});
      }
    }
    return dims;
  }

  const Shape& inner;
  const Shape& outer;
  const Ints& paddings;
  const absl::InlinedVector<int64_t, 6> strides;
};

void CopyInterior(KernelContext& c, const Tensor& input, const Padded& padded, Tensor& output) {
  const auto from_strides = Strides(input.shape().dims());
  LoopDims dims;
  for (int i = 0; i < padded.rank(); ++i) {
    dims.push_back({input.shape().dim(i), padded.stride(i), from_strides[static_cast<size_t>(i)]});
  }
  CopyStrided(c.parallel(), input.dtype(),
              ElementAt(input.dtype(), output.mutable_data(), padded.Corner(padded.rank())),
              input.data(), std::move(dims));
}

// --- Pad, PadV2

absl::Status Pad(KernelContext& c) {
  const Tensor& input = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(const Ints paddings, ReadPaddings(c.input(1), input.shape()));
  const DataType dtype = input.dtype();
  alignas(16) static const char kZero[16] = {};
  static const std::string* const kEmpty = new std::string;
  const void* value = dtype == kString ? static_cast<const void*>(kEmpty) : kZero;
  if (c.num_inputs() > 2) {
    if (!c.input(2).shape().IsScalar()) {
      return errors::InvalidArgument("'constant_values' has shape ",
                                     c.input(2).shape().DebugString(), "; a scalar is wanted");
    }
    value = c.input(2).data();
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, AddPaddings(input.shape(), paddings));
  if (shape == input.shape()) {
    c.SetOutput(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
  if (input.num_elements() == 0) {
    FillElements(c.parallel(), dtype, output->mutable_data(), value, output->num_elements());
    return absl::OkStatus();
  }
  const Padded padded(input.shape(), shape, paddings);
  for (int d = 0; d < padded.rank(); ++d) {
    for (const bool behind : {false, true}) {
      LoopDims dims = padded.Slab(d, behind ? padded.after(d) : padded.before(d), 0);
      for (LoopDim& dim : dims) dim.from_stride = 0;
      const int64_t first = behind ? padded.before(d) + input.shape().dim(d) : 0;
      CopyStrided(
          c.parallel(), dtype,
          ElementAt(dtype, output->mutable_data(), padded.Corner(d) + first * padded.stride(d)),
          value, std::move(dims));
    }
  }
  CopyInterior(c, input, padded, *output);
  return absl::OkStatus();
}

// The gradient is the interior of the output's.
absl::Status PadGradient(GradientContext& g) {
  const Output paddings = g.input(1);
  const DataType index = RemoveReference(paddings.dtype());
  const Output before = g.Call("Unpack", {paddings}, {{"num", 2}, {"axis", 1}});
  const Output dy = g.OutputGradient(0);
  const Output inner = g.Call("Slice", {dy, before, ShapeVector(g, g.input(0), index)});
  g.SetInputGradient(0, inner);
  if (g.num_inputs() < 3) return absl::OkStatus();
  // The constant is all that is not the interior.
  const auto total = [&g](Output values) {
    const Output flat = g.Call("Reshape", {values, g.Constant(Tensor::Vector<int32_t>({-1}))});
    return g.Call("Sum", {flat, g.Constant(Tensor::Scalar<int32_t>(0))});
  };
  g.SetInputGradient(2, g.Call("Sub", {total(dy), total(inner)}));
  return absl::OkStatus();
}

// --- MirrorPad, MirrorPadGrad

class MirrorKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    offset_ = init.Attr<std::string>("mode") == "REFLECT" ? 1 : 0;
    return absl::OkStatus();
  }

 protected:
  // A margin cannot mirror more than there is; REFLECT leaves out the element at the edge.
  absl::Status CheckMirror(const Shape& inner, const Ints& paddings) const {
    for (size_t i = 0; i < paddings.size(); ++i) {
      const int64_t size = inner.dim(static_cast<int>(i / 2));
      if (paddings[i] > size - offset_) {
        return errors::InvalidArgument("paddings[", i / 2, ",", i % 2, "] is ", paddings[i],
                                       "; dimension ", i / 2, " of size ", size, " mirrored ",
                                       offset_ == 1 ? "without" : "with",
                                       " its edge allows at most ", size - offset_);
      }
    }
    return absl::OkStatus();
  }

  // The margin before (or behind) the interior along `d`, row by row from the interior outwards.
  struct Edge {
    int64_t margin;  // Row of the margin next to the interior.
    int64_t mirror;  // Row of the interior that it shows.
    int64_t step;    // Outwards along the margin; along the interior the other way.
    int64_t size;
  };
  Edge EdgeOf(const Padded& padded, int d, bool behind) const {
    const int64_t before = padded.before(d);
    const int64_t last = before + padded.inner.dim(d) - 1;
    if (behind) return {last + 1, last - offset_, 1, padded.after(d)};
    return {before - 1, before + offset_, -1, before};
  }

  int64_t offset_ = 0;
};

class MirrorPadKernel : public MirrorKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Ints paddings, ReadPaddings(c.input(1), input.shape()));
    TANDEM_RETURN_IF_ERROR(CheckMirror(input.shape(), paddings));
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, AddPaddings(input.shape(), paddings));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    const Padded padded(input.shape(), shape, paddings);
    CopyInterior(c, input, padded, *output);
    // From the last dimension on, since a slab mirrors what is already as wide as it is itself.
    for (int d = padded.rank() - 1; d >= 0; --d) {
      for (const bool behind : {false, true}) {
        const Edge edge = EdgeOf(padded, d, behind);
        LoopDims dims = padded.Slab(d, edge.size, -edge.step * padded.stride(d));
        dims[static_cast<size_t>(d)].to_stride *= edge.step;
        const int64_t corner = padded.Corner(d);
        char* const data = static_cast<char*>(output->mutable_data());
        CopyStrided(c.parallel(), input.dtype(),
                    ElementAt(input.dtype(), data, corner + edge.margin * padded.stride(d)),
                    ElementAt(input.dtype(), data, corner + edge.mirror * padded.stride(d)),
                    std::move(dims));
      }
    }
    return absl::OkStatus();
  }
};

// to[…] += from[…] over a grid.
void AddGrid(DataType dtype, char* to, const char* from, const LoopDims& dims) {
  int64_t positions = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) positions *= dims[i].size;
  if (positions <= 0 || dims.back().size <= 0) return;
  Odometer odometer(absl::MakeConstSpan(dims.data(), dims.size() - 1), 0);
  for (int64_t i = 0; i < positions; ++i, odometer.Next()) {
    AddElements(dtype, ElementAt(dtype, to, odometer.to()), dims.back().to_stride,
                ElementAt(dtype, from, odometer.from()), dims.back().from_stride, dims.back().size);
  }
}

class MirrorPadGradKernel : public MirrorKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Shape& outer = input.shape();
    TANDEM_ASSIGN_OR_RETURN(const Ints paddings, ReadPaddings(c.input(1), outer));
    Ints dims;
    for (size_t d = 0; d < paddings.size() / 2; ++d) {
      const int64_t size = outer.dim(static_cast<int>(d));
      if (paddings[2 * d] > size || paddings[2 * d + 1] > size - paddings[2 * d]) {
        return errors::InvalidArgument("dimension ", d, " of a tensor of shape ",
                                       outer.DebugString(), " has no margins of ", paddings[2 * d],
                                       " and ", paddings[2 * d + 1]);
      }
      dims.push_back(size - paddings[2 * d] - paddings[2 * d + 1]);
    }
    TANDEM_ASSIGN_OR_RETURN(const Shape inner, Shape::FromDims(dims));
    TANDEM_RETURN_IF_ERROR(CheckMirror(inner, paddings));
    if (inner == outer) {
      c.SetOutput(0, c.TakeInput(0));
      return absl::OkStatus();
    }
    // The margins are added to a copy of the whole, in the reverse order of MirrorPad.
    TANDEM_ASSIGN_OR_RETURN(Tensor whole, c.AllocateTemporary(input.dtype(), outer));
    CopyElements(input.dtype(), whole.mutable_data(), input.data(), input.num_elements());
    char* const data = static_cast<char*>(whole.mutable_data());
    const Padded padded(inner, outer, paddings);
    for (int d = 0; d < padded.rank(); ++d) {
      for (const bool behind : {false, true}) {
        const Edge edge = EdgeOf(padded, d, behind);
        LoopDims slab = padded.Slab(d, edge.size, edge.step * padded.stride(d));
        slab[static_cast<size_t>(d)].to_stride *= -edge.step;
        const int64_t corner = padded.Corner(d);
        AddGrid(input.dtype(),
                ElementAt(input.dtype(), data, corner + edge.mirror * padded.stride(d)),
                ElementAt(input.dtype(), data, corner + edge.margin * padded.stride(d)), slab);
      }
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, inner));
    const auto to_strides = Strides(inner.dims());
    LoopDims interior;
    for (int i = 0; i < padded.rank(); ++i) {
      interior.push_back({inner.dim(i), to_strides[static_cast<size_t>(i)], padded.stride(i)});
    }
    CopyStrided(c.parallel(), input.dtype(), output->mutable_data(),
                ElementAt(input.dtype(), data, padded.Corner(padded.rank())), std::move(interior));
    return absl::OkStatus();
  }
};

absl::Status MirrorPadGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("MirrorPadGrad", {g.OutputGradient(0), g.input(1)},
                               {{"mode", g.Attr<std::string>("mode")}}));
  return absl::OkStatus();
}

absl::Status MirrorPadGradGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("MirrorPad", {g.OutputGradient(0), g.input(1)},
                               {{"mode", g.Attr<std::string>("mode")}}));
  return absl::OkStatus();
}

TANDEM_OP("Pad")
    .Inputs("input:T, paddings:Tpaddings")
    .Outputs("output:T")
    .Attrs("T:type; Tpaddings:type{int32,int64}=int32")
    .Shape(PadShape)
    .Gradient(PadGradient)
    .HostMemory({"paddings"})
    .Cpu(ForTypes("T", AllTypesBut({kResource, kVariant}), Function(Pad)));

TANDEM_OP("PadV2")
    .Inputs("input:T, paddings:Tpaddings, constant_values:T")
    .Outputs("output:T")
    .Attrs("T:type; Tpaddings:type{int32,int64}=int32")
    .Shape(PadShape)
    .Gradient(PadGradient)
    .HostMemory({"paddings"})
    .Cpu(ForTypes("T", AllTypesBut({kResource, kVariant}), Function(Pad)));

TANDEM_OP("MirrorPad")
    .Inputs("input:T, paddings:Tpaddings")
    .Outputs("output:T")
    .Attrs("T:type; Tpaddings:type{int32,int64}=int32; mode:string{REFLECT,SYMMETRIC}")
    .Shape(PadShape)
    .Gradient(MirrorPadGradient)
    .HostMemory({"paddings"})
    .Cpu(Make<MirrorPadKernel>("T", AllTypesBut({kResource, kVariant})));

TANDEM_OP("MirrorPadGrad")
    .Inputs("input:T, paddings:Tpaddings")
    .Outputs("output:T")
    .Attrs("T:type; Tpaddings:type{int32,int64}=int32; mode:string{REFLECT,SYMMETRIC}")
    .Shape(MirrorPadGradShape)
    .Gradient(MirrorPadGradGradient)
    .HostMemory({"paddings"})
    .Cpu(Make<MirrorPadGradKernel>("T", NumberTypes()));

}  // namespace
}  // namespace tandem::array
