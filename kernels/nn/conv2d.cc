// Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter.
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/conv2d_common.h"

namespace tandem {
namespace {

constexpr absl::StatusCode kOtherStride = absl::StatusCode::kUnimplemented;

class ConvolutionKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, ConvolutionAttrs(init, kOtherStride));
    return absl::OkStatus();
  }

 protected:
  // A result of the kernel's type in memory that it may be computed in: the output itself, or a
  // temporary in float or in NHWC that Finish copies over.
  absl::StatusOr<Tensor> Result(KernelContext& c, const Tensor& output, bool images) {
    const bool half = output.dtype() == kFloat16 || output.dtype() == kBfloat16;
    if (half) return c.AllocateTemporary(kFloat32, output.shape());
    if (images && output.dtype() != kFloat32 && attrs_.format == DataFormat::kNchw) {
      const Shape& s = output.shape();
      return c.AllocateTemporary(output.dtype(), Shape({s.dim(0), s.dim(2), s.dim(3), s.dim(1)}));
    }
    return output;
  }
  void Finish(KernelContext& c, const Tensor& result, bool images, Tensor& output) {
    if (result.dtype() != output.dtype()) {
      FromFloat(result, output, c.parallel());
    } else if (images && result.data() != output.data()) {
      FromNhwc(result, attrs_.format, output);
    }
  }
  // Calls f.operator()<T>() for the types of the plain loops.
  template <typename F>
  static void WithDirectType(DataType type, F f) {
    if (type == kInt32) {
      f.template operator()<int32_t>();
    } else {
      f.template operator()<double>();
    }
  }
  static bool UsesFloat(DataType type) { return type != kFloat64 && type != kInt32; }

  WindowAttrs attrs_;
};

// A convolution whose input 1 is the filter.
class FilteringKernel : public ConvolutionKernel {
 public:
  absl::Status Init(KernelInit& init) {
    filters_ = NewFilterCache(FilterCacheOptions(init));
    return ConvolutionKernel::Init(init);
  }

 protected:
  std::shared_ptr<FilterCache> filters_;
};

class Conv2DKernel : public FilteringKernel {
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
    if (UsesFloat(input.dtype())) {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, ToFloat(c, input));
      TANDEM_ASSIGN_OR_RETURN(const Tensor w, ToFloat(c, filter));
      TANDEM_RETURN_IF_ERROR(ConvolveFloat(
          conv, x.Elements<float>().data(), {w.Elements<float>().data(), filter, filters_.get()},
          nullptr, {}, result.MutableElements<float>().data(), c.parallel().parallelism()));
    } else {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, ToNhwc(c, input, attrs_.format));
      WithDirectType(input.dtype(), [&]<typename T>() {
        ConvolveDirect(conv, x.Elements<T>().data(), filter.Elements<T>().data(),
                       result.MutableElements<T>().data(), c.parallel());
      });
    }
    Finish(c, result, true, *output);
    return absl::OkStatus();
  }
};

// The gradient of the output must have the output's shape.
absl::Status CheckGradient(const Convolution& conv, const Tensor& output_gradient) {
  const Shape wanted = OutputShape(conv);
  if (output_gradient.shape() == wanted) return absl::OkStatus();
  return errors::InvalidArgument("out_backprop has shape ", output_gradient.shape().DebugString(),
                                 ", but the convolution's output has ", wanted.DebugString());
}

class Conv2DBackpropInputKernel : public FilteringKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& filter = c.input(1);
    const Tensor& dy = c.input(2);
    TANDEM_ASSIGN_OR_RETURN(const Shape input_shape, InputShape(c.input(0), filter, dy));
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
    if (UsesFloat(dy.dtype())) {
      TANDEM_ASSIGN_OR_RETURN(const Tensor w, ToFloat(c, filter));
      TANDEM_ASSIGN_OR_RETURN(const Tensor g, ToFloat(c, dy));
      TANDEM_RETURN_IF_ERROR(ConvolveFloatToInput(
          conv, {w.Elements<float>().data(), filter, filters_.get()}, g.Elements<float>().data(),
          result.MutableElements<float>().data(), c.parallel().parallelism()));
    } else {
      TANDEM_ASSIGN_OR_RETURN(const Tensor g, ToNhwc(c, dy, attrs_.format));
      WithDirectType(dy.dtype(), [&]<typename T>() {
        ConvolveDirectToInput(conv, filter.Elements<T>().data(), g.Elements<T>().data(),
                              result.MutableElements<T>().data(), c.parallel());
      });
    }
    Finish(c, result, true, *output);
    return absl::OkStatus();
  }

 private:
  // TensorFlow also takes height and width alone; the rest then follows from the others.
  absl::StatusOr<Shape> InputShape(const Tensor& sizes, const Tensor& filter, const Tensor& dy) {
    if (!sizes.shape().IsVector() || sizes.num_elements() != 2 || filter.shape().rank() != 4 ||
        dy.shape().rank() != 4) {
      return ShapeFromSizes(sizes, "input_sizes");
    }
    const absl::Span<const int32_t> size = sizes.Elements<int32_t>();
    return Shape::FromDims(
        ImageDims(attrs_.format, dy.shape().dim(0), size[0], size[1], filter.shape().dim(2)));
  }
};

class Conv2DBackpropFilterKernel : public ConvolutionKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& dy = c.input(2);
    TANDEM_ASSIGN_OR_RETURN(const Shape filter_shape, ShapeFromSizes(c.input(1), "filter_sizes"));
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
    if (UsesFloat(dy.dtype())) {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, ToFloat(c, input));
      TANDEM_ASSIGN_OR_RETURN(const Tensor g, ToFloat(c, dy));
      TANDEM_RETURN_IF_ERROR(ConvolveFloatToFilter(
          conv, x.Elements<float>().data(), g.Elements<float>().data(),
          result.MutableElements<float>().data(), c.parallel().parallelism()));
    } else {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, ToNhwc(c, input, attrs_.format));
      TANDEM_ASSIGN_OR_RETURN(const Tensor g, ToNhwc(c, dy, attrs_.format));
      WithDirectType(dy.dtype(), [&]<typename T>() {
        ConvolveDirectToFilter(conv, x.Elements<T>().data(), g.Elements<T>().data(),
                               result.MutableElements<T>().data(), c.parallel());
      });
    }
    Finish(c, result, false, *output);
    return absl::OkStatus();
  }
};

absl::Status BackpropInputShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const WindowAttrs attrs, ConvolutionAttrs(c, kOtherStride));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 4));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 4));
  const PartialShape& filter = c.input(1);
  const PartialShape& dy = c.input(2);
  const int channels = ChannelAxis(attrs.format);
  if (filter.has_rank() && dy.has_rank() && filter.dim(3) >= 0 && dy.dim(channels) >= 0 &&
      filter.dim(3) != dy.dim(channels)) {
    return errors::InvalidArgument("out_backprop of shape ", dy.DebugString(), " has ",
                                   dy.dim(channels), " channels, the filter of shape ",
                                   filter.DebugString(), " makes ", filter.dim(3));
  }
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, c.InputAsShape(0));
  if (!output.has_rank()) return c.SetOutput(0, PartialShape::UnknownOfRank(4));
  if (output.rank() == 2) {
    output = PartialShape(absl::MakeConstSpan(ImageDims(
        attrs.format, dy.has_rank() ? dy.dim(0) : PartialShape::kUnknownDim, output.dim(0),
        output.dim(1), filter.has_rank() ? filter.dim(2) : PartialShape::kUnknownDim)));
  }
  if (output.rank() != 4) {
    return errors::InvalidArgument("input_sizes ", output.DebugString(), " must be 4 sizes");
  }
  if (dy.has_rank()) {
    PartialShape batch = output;
    for (int i = 1; i < 4; ++i) batch.SetDim(i, PartialShape::kUnknownDim);
    if (!batch.IsCompatibleWith(PartialShape({dy.dim(0), -1, -1, -1}))) {
      return errors::InvalidArgument("input_sizes ", output.DebugString(),
                                     " and out_backprop of shape ", dy.DebugString(),
                                     " differ in the size of the batch");
    }
  }
  return c.SetOutput(0, std::move(output));
}

absl::Status BackpropFilterShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(ConvolutionAttrs(c, kOtherStride).status());
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 4));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 4));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape output, c.InputAsShape(1));
  TANDEM_ASSIGN_OR_RETURN(PartialShape of_rank_4, output.MergeWith(PartialShape::UnknownOfRank(4)));
  return c.SetOutput(0, std::move(of_rank_4));
}

// The attributes that a gradient's convolution has from the forward one.
AttrMap SameAttrs(const GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations",
                           "use_cudnn_on_gpu"}) {
    attrs.emplace(name, g.node().attrs().find(name)->second);
  }
  return attrs;
}

absl::Status Conv2DGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output input = g.input(0);
  const Output filter = g.input(1);
  g.SetInputGradient(
      0, g.Call("Conv2DBackpropInput", {g.Call("Shape", {input}), filter, dy}, SameAttrs(g)));
  g.SetInputGradient(
      1, g.Call("Conv2DBackpropFilter", {input, g.Call("Shape", {filter}), dy}, SameAttrs(g)));
  return absl::OkStatus();
}

// All three are one trilinear form in input, filter and output gradient, so the derivatives of each
// are the others.
absl::Status BackpropInputGradient(GradientContext& g) {
  const Output d = g.OutputGradient(0);  // Shaped like the convolution's input.
  const Output filter = g.input(1);
  const Output dy = g.input(2);
  g.SetInputGradient(
      1, g.Call("Conv2DBackpropFilter", {d, g.Call("Shape", {filter}), dy}, SameAttrs(g)));
  g.SetInputGradient(2, g.Call("Conv2D", {d, filter}, SameAttrs(g)));
  return absl::OkStatus();
}
absl::Status BackpropFilterGradient(GradientContext& g) {
  const Output d = g.OutputGradient(0);  // Shaped like the filter.
  const Output input = g.input(0);
  const Output dy = g.input(2);
  g.SetInputGradient(
      0, g.Call("Conv2DBackpropInput", {g.Call("Shape", {input}), d, dy}, SameAttrs(g)));
  g.SetInputGradient(2, g.Call("Conv2D", {input, d}, SameAttrs(g)));
  return absl::OkStatus();
}

TANDEM_OP("Conv2D")
    .Inputs("input:T, filter:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float16,bfloat16,float32,float64,int32}; strides:list(int); "
        "use_cudnn_on_gpu:bool=True; padding:string{SAME,VALID,EXPLICIT}; "
        "explicit_paddings:list(int)=[]; data_format:string{NHWC,NCHW}=NHWC; "
        "dilations:list(int)=[1,1,1,1]")
    .Shape(Conv2DShape)
    .Gradient(Conv2DGradient)
    .Cpu(Make<Conv2DKernel>("T", {kFloat16, kBfloat16, kFloat32, kFloat64, kInt32}));

TANDEM_OP("Conv2DBackpropInput")
    .Inputs("input_sizes:int32, filter:T, out_backprop:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float16,bfloat16,float32,float64,int32}; strides:list(int); "
        "use_cudnn_on_gpu:bool=True; padding:string{SAME,VALID,EXPLICIT}; "
        "explicit_paddings:list(int)=[]; data_format:string{NHWC,NCHW}=NHWC; "
        "dilations:list(int)=[1,1,1,1]")
    .HostMemory({"input_sizes"})
    .Shape(BackpropInputShape)
    .Gradient(BackpropInputGradient)
    .Cpu(Make<Conv2DBackpropInputKernel>("T", {kFloat16, kBfloat16, kFloat32, kFloat64, kInt32}));

TANDEM_OP("Conv2DBackpropFilter")
    .Inputs("input:T, filter_sizes:int32, out_backprop:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float16,bfloat16,float32,float64}; strides:list(int); "
        "use_cudnn_on_gpu:bool=True; padding:string{SAME,VALID,EXPLICIT}; "
        "explicit_paddings:list(int)=[]; data_format:string{NHWC,NCHW}=NHWC; "
        "dilations:list(int)=[1,1,1,1]")
    .HostMemory({"filter_sizes"})
    .Shape(BackpropFilterShape)
    .Gradient(BackpropFilterGradient)
    .Cpu(Make<Conv2DBackpropFilterKernel>("T", {kFloat16, kBfloat16, kFloat32, kFloat64}));

}  // namespace
}  // namespace tandem
