// Conv3D, Conv3DBackpropInputV2, Conv3DBackpropFilterV2: convolution of volumes. Filters are
// [depth, height, width, input channels / groups, output channels].
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/convolution.h"
#include "kernels/nn/tensor_conversion.h"
#include "kernels/nn/volume.h"

namespace tandem {
namespace {

template <typename Context>
absl::StatusOr<VolumeAttrs> AttrsOf(const Context& c) {
  return VolumeAttrs::Parse(c.template Attr<std::string>("data_format"),
                            c.template Attr<std::string>("padding"),
                            c.template Attr<std::vector<int64_t>>("strides"),
                            &c.template Attr<std::vector<int64_t>>("dilations"), nullptr,
                            absl::StatusCode::kInvalidArgument);
}

absl::Status CheckChannels(int64_t in, int64_t filter_in, int64_t filter_out) {
  if (in < 0 || filter_in < 0) return absl::OkStatus();
  if (filter_in == 0 ? in != 0 : in % filter_in != 0) {
    return errors::InvalidArgument("an input of ", in, " channels is no multiple of a filter for ",
                                   filter_in);
  }
  if (in == 0 || filter_out < 0 || filter_out % (in / filter_in) == 0) return absl::OkStatus();
  return errors::InvalidArgument("a filter of ", filter_out,
                                 " output channels does not divide into the ", in / filter_in,
                                 " groups of ", in, " input channels, ", filter_in, " each");
}

Shape OutputShape(const Convolution& conv) {
  return Shape(
      absl::MakeConstSpan(VolumeDims(conv.format, conv.batch, conv.depth.output, conv.height.output,
                                     conv.width.output, conv.out_channels)));
}

absl::StatusOr<Convolution> MakeConvolution(const VolumeAttrs& attrs, const Shape& input,
                                            const Shape& filter) {
  if (input.rank() != 5 || filter.rank() != 5) {
    return errors::InvalidArgument(
        "a convolution wants volumes and a filter of rank 5, not shapes ", input.DebugString(),
        " and ", filter.DebugString());
  }
  Convolution conv;
  conv.is_volume = true;
  conv.format = attrs.format;
  conv.batch = input.dim(0);
  conv.in_channels = input.dim(VolumeChannelAxis(attrs.format));
  conv.out_channels = filter.dim(4);
  TANDEM_RETURN_IF_ERROR(CheckChannels(conv.in_channels, filter.dim(3), conv.out_channels));
  conv.groups = conv.in_channels == 0 ? 1 : conv.in_channels / filter.dim(3);
  WindowDim* const dims[] = {&conv.depth, &conv.height, &conv.width};
  for (int axis = 0; axis < 3; ++axis) {
    TANDEM_ASSIGN_OR_RETURN(
        *dims[axis],
        attrs.Along(axis, input.dim(VolumeAxis(attrs.format, axis)), filter.dim(axis)));
  }
  // The output must be a shape as well.
  TANDEM_RETURN_IF_ERROR(
      Shape::FromDims(VolumeDims(conv.format, conv.batch, conv.depth.output, conv.height.output,
                                 conv.width.output, conv.out_channels))
          .status());
  return conv;
}

class VolumeKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, AttrsOf(init));
    PackedWeightsOptions options;
    options.source = init.input_source(1);
    options.allocator = init.device().allocator;
    filters_ = NewFilterCache(options);
    return absl::OkStatus();
  }

 protected:
  // The output itself, or a temporary in float or with the channels last that Finish copies over.
  absl::StatusOr<Tensor> Result(KernelContext& c, const Tensor& output, bool volumes) {
    const Shape& s = output.shape();
    if (IsHalf(output.dtype())) return c.AllocateTemporary(kFloat32, s);
    if (volumes && output.dtype() == kFloat64 && attrs_.format == DataFormat::kNchw) {
      return c.AllocateTemporary(kFloat64,
                                 Shape({s.dim(0), s.dim(2), s.dim(3), s.dim(4), s.dim(1)}));
    }
    return output;
  }
  void Finish(KernelContext& c, const Tensor& result, bool volumes, Tensor& output) {
    if (result.dtype() != output.dtype()) {
      FromFloat(result, output, c.parallel());
    } else if (volumes && result.data() != output.data()) {
      FromChannelsLast(result, attrs_.format, output);
    }
  }
  static bool IsHalf(DataType type) { return type == kFloat16 || type == kBfloat16; }

  VolumeAttrs attrs_;
  std::shared_ptr<FilterCache> filters_;
};

class Conv3DKernel : public VolumeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& filter = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const Convolution conv,
                            MakeConvolution(attrs_, input.shape(), filter.shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, OutputShape(conv)));
    if (output->num_elements() == 0) return absl::OkStatus();
    if (input.num_elements() == 0) {
      SetZero(*output);
      return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor result, Result(c, *output, true));
    if (input.dtype() != kFloat64) {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, ToFloat(c, input));
      TANDEM_ASSIGN_OR_RETURN(const Tensor w, ToFloat(c, filter));
      TANDEM_RETURN_IF_ERROR(ConvolveFloat(
          conv, x.Elements<float>().data(), {w.Elements<float>().data(), filter, filters_.get()},
          nullptr, {}, result.MutableElements<float>().data(), c.parallel().parallelism()));
    } else {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, WithChannelsLast(c, input, attrs_.format));
      ConvolveDirect(conv, x.Elements<double>().data(), filter.Elements<double>().data(),
                     result.MutableElements<double>().data(), c.parallel());
    }
    Finish(c, result, true, *output);
    return absl::OkStatus();
  }
};

absl::Status CheckGradient(const Convolution& conv, const Tensor& output_gradient) {
  const Shape wanted = OutputShape(conv);
  if (output_gradient.shape() == wanted) return absl::OkStatus();
  return errors::InvalidArgument("out_backprop has shape ", output_gradient.shape().DebugString(),
                                 ", but the convolution's output has ", wanted.DebugString());
}

class Conv3DBackpropInputKernel : public VolumeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& filter = c.input(1);
    const Tensor& dy = c.input(2);
    TANDEM_ASSIGN_OR_RETURN(const Shape input_shape, VolumeSizes(c.input(0), "input_sizes"));
    TANDEM_ASSIGN_OR_RETURN(const Convolution conv,
                            MakeConvolution(attrs_, input_shape, filter.shape()));
    TANDEM_RETURN_IF_ERROR(CheckGradient(conv, dy));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, input_shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    if (dy.num_elements() == 0) {
      SetZero(*output);
      return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor result, Result(c, *output, true));
    if (dy.dtype() != kFloat64) {
      TANDEM_ASSIGN_OR_RETURN(const Tensor w, ToFloat(c, filter));
      TANDEM_ASSIGN_OR_RETURN(const Tensor g, ToFloat(c, dy));
      TANDEM_RETURN_IF_ERROR(ConvolveFloatToInput(
          conv, {w.Elements<float>().data(), filter, filters_.get()}, g.Elements<float>().data(),
          result.MutableElements<float>().data(), c.parallel().parallelism()));
    } else {
      TANDEM_ASSIGN_OR_RETURN(const Tensor g, WithChannelsLast(c, dy, attrs_.format));
      ConvolveDirectToInput(conv, filter.Elements<double>().data(), g.Elements<double>().data(),
                            result.MutableElements<double>().data(), c.parallel());
    }
    Finish(c, result, true, *output);
    return absl::OkStatus();
  }
};

class Conv3DBackpropFilterKernel : public VolumeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& dy = c.input(2);
    TANDEM_ASSIGN_OR_RETURN(const Shape filter_shape, VolumeSizes(c.input(1), "filter_sizes"));
    TANDEM_ASSIGN_OR_RETURN(const Convolution conv,
                            MakeConvolution(attrs_, input.shape(), filter_shape));
    TANDEM_RETURN_IF_ERROR(CheckGradient(conv, dy));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, filter_shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    if (dy.num_elements() == 0 || input.num_elements() == 0) {
      SetZero(*output);
      return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor result, Result(c, *output, false));
    if (dy.dtype() != kFloat64) {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, ToFloat(c, input));
      TANDEM_ASSIGN_OR_RETURN(const Tensor g, ToFloat(c, dy));
      TANDEM_RETURN_IF_ERROR(ConvolveFloatToFilter(
          conv, x.Elements<float>().data(), g.Elements<float>().data(),
          result.MutableElements<float>().data(), c.parallel().parallelism()));
    } else {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, WithChannelsLast(c, input, attrs_.format));
      TANDEM_ASSIGN_OR_RETURN(const Tensor g, WithChannelsLast(c, dy, attrs_.format));
      ConvolveDirectToFilter(conv, x.Elements<double>().data(), g.Elements<double>().data(),
                             result.MutableElements<double>().data(), c.parallel());
    }
    Finish(c, result, false, *output);
    return absl::OkStatus();
  }
};

// --- Shapes and gradients ------------------------------------------------------------------------

PartialShape OfRank5(const PartialShape& shape) {
  return shape.has_rank() ? shape : PartialShape::UnknownOfRank(5);
}

absl::Status Conv3DShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const VolumeAttrs attrs, AttrsOf(c));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 5));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 5));
  const PartialShape input = OfRank5(c.input(0));
  const PartialShape filter = OfRank5(c.input(1));
  TANDEM_RETURN_IF_ERROR(
      CheckChannels(input.dim(VolumeChannelAxis(attrs.format)), filter.dim(3), filter.dim(4)));
  int64_t sizes[3];
  for (int axis = 0; axis < 3; ++axis) {
    TANDEM_ASSIGN_OR_RETURN(
        sizes[axis],
        attrs.OutputSize(axis, input.dim(VolumeAxis(attrs.format, axis)), filter.dim(axis)));
  }
  return c.SetOutput(
      0, PartialShape(absl::MakeConstSpan(
             VolumeDims(attrs.format, input.dim(0), sizes[0], sizes[1], sizes[2], filter.dim(4)))));
}

// The output's shape is the value of input `sizes`.
absl::Status ShapeOfSizes(ShapeContext& c, int sizes) {
  TANDEM_RETURN_IF_ERROR(AttrsOf(c).status());
  for (int i = 0; i < 3; ++i) TANDEM_RETURN_IF_ERROR(c.RequireRank(i, i == sizes ? 1 : 5));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape output, c.InputAsShape(sizes));
  TANDEM_ASSIGN_OR_RETURN(PartialShape of_rank_5, output.MergeWith(PartialShape::UnknownOfRank(5)));
  return c.SetOutput(0, std::move(of_rank_5));
}

AttrMap SameAttrs(const GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"strides", "padding", "data_format", "dilations"}) {
    attrs.emplace(name, g.node().attrs().find(name)->second);
  }
  return attrs;
}

// All three are one trilinear form in input, filter and output gradient, so the derivatives of each
// are the others.
Output ToInput(GradientContext& g, Output input, Output filter, Output dy) {
  return g.Call("Conv3DBackpropInputV2", {g.Call("Shape", {input}), filter, dy}, SameAttrs(g));
}
Output ToFilter(GradientContext& g, Output input, Output filter, Output dy) {
  return g.Call("Conv3DBackpropFilterV2", {input, g.Call("Shape", {filter}), dy}, SameAttrs(g));
}
absl::Status Conv3DGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  g.SetInputGradient(0, ToInput(g, g.input(0), g.input(1), dy));
  g.SetInputGradient(1, ToFilter(g, g.input(0), g.input(1), dy));
  return absl::OkStatus();
}
absl::Status BackpropInputGradient(GradientContext& g) {
  const Output d = g.OutputGradient(0);  // Shaped like the convolution's input.
  g.SetInputGradient(1, ToFilter(g, d, g.input(1), g.input(2)));
  g.SetInputGradient(2, g.Call("Conv3D", {d, g.input(1)}, SameAttrs(g)));
  return absl::OkStatus();
}
absl::Status BackpropFilterGradient(GradientContext& g) {
  const Output d = g.OutputGradient(0);  // Shaped like the filter.
  g.SetInputGradient(0, ToInput(g, g.input(0), d, g.input(2)));
  g.SetInputGradient(2, g.Call("Conv3D", {g.input(0), d}, SameAttrs(g)));
  return absl::OkStatus();
}

template <typename K>
KernelDef ForFloats() {
  return Make<K>("T", {kFloat16, kBfloat16, kFloat32, kFloat64});
}

TANDEM_OP("Conv3D")
    .Inputs("input:T, filter:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float16,bfloat16,float32,float64}; strides:list(int)>=5; "
        "padding:string{SAME,VALID}; data_format:string{NDHWC,NCDHW}=NDHWC; "
        "dilations:list(int)=[1,1,1,1,1]")
    .Shape(Conv3DShape)
    .Gradient(Conv3DGradient)
    .Cpu(ForFloats<Conv3DKernel>());

TANDEM_OP("Conv3DBackpropInputV2")
    .Inputs("input_sizes:Tshape, filter:T, out_backprop:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float16,bfloat16,float32,float64}; strides:list(int)>=5; "
        "padding:string{SAME,VALID}; data_format:string{NDHWC,NCDHW}=NDHWC; "
        "dilations:list(int)=[1,1,1,1,1]; Tshape:type{int32,int64}=int32")
    .HostMemory({"input_sizes"})
    .Shape([](ShapeContext& c) { return ShapeOfSizes(c, 0); })
    .Gradient(BackpropInputGradient)
    .Cpu(ForFloats<Conv3DBackpropInputKernel>());

TANDEM_OP("Conv3DBackpropFilterV2")
    .Inputs("input:T, filter_sizes:int32, out_backprop:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float16,bfloat16,float32,float64}; strides:list(int)>=5; "
        "padding:string{SAME,VALID}; data_format:string{NDHWC,NCDHW}=NDHWC; "
        "dilations:list(int)=[1,1,1,1,1]")
    .HostMemory({"filter_sizes"})
    .Shape([](ShapeContext& c) { return ShapeOfSizes(c, 1); })
    .Gradient(BackpropFilterGradient)
    .Cpu(ForFloats<Conv3DBackpropFilterKernel>());

}  // namespace
}  // namespace tandem
