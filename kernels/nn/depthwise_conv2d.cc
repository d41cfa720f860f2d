// DepthwiseConv2dNative and its gradients: every channel is convolved with filters of its own.
//
// Filters are [height, width, channels, multiplier]; output channel c * multiplier + m belongs to
// input channel c. Plain loops, vectorized over channels (MobileNet's case: images in NHWC,
// multiplier 1); halves are computed in float.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/column_sums.h"
#include "kernels/nn/conv2d_common.h"

namespace tandem {
namespace {

constexpr absl::StatusCode kOtherStride = absl::StatusCode::kInvalidArgument;

struct Depthwise {
  DataFormat format = DataFormat::kNhwc;
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t multiplier = 1;
  WindowDim height;
  WindowDim width;

  int64_t OutChannels() const { return channels * multiplier; }
  Shape OutputShape() const {
    return Shape(
        absl::MakeConstSpan(ImageDims(format, batch, height.output, width.output, OutChannels())));
  }
};

absl::StatusOr<Depthwise> MakeDepthwise(const WindowAttrs& attrs, const Shape& input,
                                        const Shape& filter) {
  if (input.rank() != 4 || filter.rank() != 4) {
    return errors::InvalidArgument("a convolution wants images and a filter of rank 4, not shapes ",
                                   input.DebugString(), " and ", filter.DebugString());
  }
  Depthwise d;
  d.format = attrs.format;
  d.batch = input.dim(0);
  d.channels = input.dim(ChannelAxis(attrs.format));
  if (filter.dim(2) != d.channels) {
    return errors::InvalidArgument("an input of ", d.channels, " channels and a filter for ",
                                   filter.dim(2), " do not fit");
  }
  d.multiplier = filter.dim(3);
  TANDEM_ASSIGN_OR_RETURN(d.height,
                          attrs.Along(0, input.dim(HeightAxis(attrs.format)), filter.dim(0)));
  TANDEM_ASSIGN_OR_RETURN(d.width,
                          attrs.Along(1, input.dim(WidthAxis(attrs.format)), filter.dim(1)));
  TANDEM_ASSIGN_OR_RETURN(const Shape out_channels, Shape::FromDims({d.channels, d.multiplier}));
  TANDEM_RETURN_IF_ERROR(Shape::FromDims(ImageDims(d.format, d.batch, d.height.output,
                                                   d.width.output, out_channels.num_elements()))
                             .status());
  return d;
}

// Calls f(input pixel, filter tap) for the taps of one output pixel that are inside the image;
// pixels count within the image.
template <typename F>
void ForEachTap(const Depthwise& d, int64_t out_row, int64_t out_column, F f) {
  for (int64_t i = 0; i < d.height.window; ++i) {
    const int64_t row = out_row * d.height.stride - d.height.pad_before + i * d.height.dilation;
    if (row < 0 || row >= d.height.input) continue;
    for (int64_t j = 0; j < d.width.window; ++j) {
      const int64_t column =
          out_column * d.width.stride - d.width.pad_before + j * d.width.dilation;
      if (column < 0 || column >= d.width.input) continue;
      f(row * d.width.input + column, i * d.width.window + j);
    }
  }
}

double CostOfRow(const Depthwise& d) {
  return 0.3 * static_cast<double>(d.width.output * d.OutChannels()) *
         static_cast<double>(d.height.window * d.width.window);
}

// to[c m] += x[c] w[c m]
template <typename T>
void MultiplyAdd(const Depthwise& d, const T* __restrict x, const T* __restrict w,
                 T* __restrict to) {
  if (d.multiplier == 1) {
    for (int64_t c = 0; c < d.channels; ++c) to[c] += x[c] * w[c];
    return;
  }
  for (int64_t c = 0; c < d.channels; ++c) {
    for (int64_t m = 0; m < d.multiplier; ++m) {
      to[c * d.multiplier + m] += x[c] * w[c * d.multiplier + m];
    }
  }
}

template <typename T>
void Forward(const Depthwise& d, const T* x, const T* filter, T* y, ParallelRunner& parallel) {
  const int64_t out = d.OutChannels();
  parallel.For(d.batch * d.height.output, CostOfRow(d), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const image =
          x + row / d.height.output * d.height.input * d.width.input * d.channels;
      for (int64_t column = 0; column < d.width.output; ++column) {
        T* const to = y + (row * d.width.output + column) * out;
        std::fill_n(to, out, T(0));
        ForEachTap(d, row % d.height.output, column, [&](int64_t pixel, int64_t tap) {
          MultiplyAdd(d, image + pixel * d.channels, filter + tap * out, to);
        });
      }
    }
  });
}

template <typename T>
void ToInput(const Depthwise& d, const T* filter, const T* dy, T* dx, ParallelRunner& parallel) {
  const int64_t out = d.OutChannels();
  const int64_t image_size = d.height.input * d.width.input * d.channels;
  parallel.For(d.batch, CostOfRow(d) * static_cast<double>(d.height.output),
               [&](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n) {
                   T* const image = dx + n * image_size;
                   std::fill_n(image, image_size, T(0));
                   const T* g = dy + n * d.height.output * d.width.output * out;
                   for (int64_t row = 0; row < d.height.output; ++row) {
                     for (int64_t column = 0; column < d.width.output; ++column, g += out) {
                       ForEachTap(d, row, column, [&](int64_t pixel, int64_t tap) {
                         T* const to = image + pixel * d.channels;
                         const T* const w = filter + tap * out;
                         if (d.multiplier == 1) {
                           for (int64_t c = 0; c < d.channels; ++c) to[c] += g[c] * w[c];
                           return;
                         }
                         for (int64_t c = 0; c < d.channels; ++c) {
                           T sum = 0;
                           for (int64_t m = 0; m < d.multiplier; ++m) {
                             sum += g[c * d.multiplier + m] * w[c * d.multiplier + m];
                           }
                           to[c] += sum;
                         }
                       });
                     }
                   }
                 }
               });
}

template <typename T>
void ToFilter(const Depthwise& d, const T* x, const T* dy, T* filter, ParallelRunner& parallel) {
  const int64_t out = d.OutChannels();
  const int64_t size = d.height.window * d.width.window * out;
  ColumnSums<1>(d.batch * d.height.output, size, CostOfRow(d), parallel, filter,
                [&](int64_t row, T* sums) {
                  const T* const image =
                      x + row / d.height.output * d.height.input * d.width.input * d.channels;
                  for (int64_t column = 0; column < d.width.output; ++column) {
                    const T* const g = dy + (row * d.width.output + column) * out;
                    ForEachTap(d, row % d.height.output, column, [&](int64_t pixel, int64_t tap) {
                      const T* const from = image + pixel * d.channels;
                      T* const to = sums + tap * out;
                      if (d.multiplier == 1) {
                        for (int64_t c = 0; c < d.channels; ++c) to[c] += from[c] * g[c];
                        return;
                      }
                      for (int64_t c = 0; c < d.channels; ++c) {
                        for (int64_t m = 0; m < d.multiplier; ++m) {
                          to[c * d.multiplier + m] += from[c] * g[c * d.multiplier + m];
                        }
                      }
                    });
                  }
                });
}

enum class Direction { kForward, kToInput, kToFilter };

template <Direction kDirection>
class DepthwiseKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, ConvolutionAttrs(init, kOtherStride));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    // The arguments of the forward op, and the two tensors to compute from.
    Shape input_shape;
    Shape filter_shape;
    if constexpr (kDirection == Direction::kToInput) {
      TANDEM_ASSIGN_OR_RETURN(input_shape, ShapeFromSizes(c.input(0), "input_sizes"));
    } else {
      input_shape = c.input(0).shape();
    }
    if constexpr (kDirection == Direction::kToFilter) {
      TANDEM_ASSIGN_OR_RETURN(filter_shape, ShapeFromSizes(c.input(1), "filter_sizes"));
    } else {
      filter_shape = c.input(1).shape();
    }
    TANDEM_ASSIGN_OR_RETURN(const Depthwise d, MakeDepthwise(attrs_, input_shape, filter_shape));
    const Shape y_shape = d.OutputShape();
    if (kDirection != Direction::kForward && c.input(2).shape() != y_shape) {
      return errors::InvalidArgument("out_backprop has shape ", c.input(2).shape().DebugString(),
                                     ", but the convolution's output has ", y_shape.DebugString());
    }
    const Shape& result_shape = kDirection == Direction::kForward   ? y_shape
                                : kDirection == Direction::kToInput ? input_shape
                                                                    : filter_shape;
    const Tensor& first = c.input(kDirection == Direction::kToInput ? 1 : 0);
    const Tensor& second = c.input(kDirection == Direction::kForward ? 1 : 2);
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, result_shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    if (first.num_elements() == 0 || second.num_elements() == 0) {
      SetZero(*output);
      return absl::OkStatus();
    }
    // In float or double, and NHWC.
    const bool images[] = {kDirection != Direction::kToInput, kDirection != Direction::kForward};
    TANDEM_ASSIGN_OR_RETURN(const Tensor a, Prepared(c, first, images[0]));
    TANDEM_ASSIGN_OR_RETURN(const Tensor b, Prepared(c, second, images[1]));
    const bool image_result = kDirection != Direction::kToFilter;
    Tensor nhwc = *output;
    if (a.dtype() != output->dtype() || (image_result && d.format == DataFormat::kNchw)) {
      Shape shape = result_shape;
      if (image_result && d.format == DataFormat::kNchw) {
        shape = Shape({shape.dim(0), shape.dim(2), shape.dim(3), shape.dim(1)});
      }
      TANDEM_ASSIGN_OR_RETURN(nhwc, c.AllocateTemporary(a.dtype(), shape));
    }
    if (a.dtype() == kFloat64) {
      Run<double>(d, a, b, nhwc, c.parallel());
    } else {
      Run<float>(d, a, b, nhwc, c.parallel());
    }
    if (nhwc.dtype() != output->dtype()) {
      TANDEM_ASSIGN_OR_RETURN(Tensor rounded, c.AllocateTemporary(output->dtype(), nhwc.shape()));
      Tensor& to = image_result && d.format == DataFormat::kNchw ? rounded : *output;
      FromFloat(nhwc, to, c.parallel());
      nhwc = to;
    }
    if (image_result) FromNhwc(nhwc, d.format, *output);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Tensor> Prepared(KernelContext& c, const Tensor& from, bool image) {
    Tensor numbers = from;
    if (from.dtype() != kFloat64) {
      TANDEM_ASSIGN_OR_RETURN(numbers, ToFloat(c, from));
    }
    return image ? ToNhwc(c, numbers, attrs_.format) : numbers;
  }

  template <typename T>
  static void Run(const Depthwise& d, const Tensor& a, const Tensor& b, Tensor& result,
                  ParallelRunner& parallel) {
    const T* const x = a.Elements<T>().data();
    const T* const y = b.Elements<T>().data();
    T* const to = result.MutableElements<T>().data();
    if constexpr (kDirection == Direction::kForward) {
      Forward(d, x, y, to, parallel);
    } else if constexpr (kDirection == Direction::kToInput) {
      ToInput(d, x, y, to, parallel);
    } else {
      ToFilter(d, x, y, to, parallel);
    }
  }

  WindowAttrs attrs_;
};

absl::Status ForwardShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const WindowAttrs attrs, ConvolutionAttrs(c, kOtherStride));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 4));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 4));
  const PartialShape input = c.input(0).has_rank() ? c.input(0) : PartialShape::UnknownOfRank(4);
  const PartialShape filter = c.input(1).has_rank() ? c.input(1) : PartialShape::UnknownOfRank(4);
  int64_t channels = input.dim(ChannelAxis(attrs.format));
  if (channels < 0) channels = filter.dim(2);
  if (channels >= 0 && filter.dim(2) >= 0 && channels != filter.dim(2)) {
    return errors::InvalidArgument("an input of ", channels, " channels and a filter for ",
                                   filter.dim(2), " do not fit");
  }
  TANDEM_ASSIGN_OR_RETURN(const int64_t height,
                          attrs.OutputSize(0, input.dim(HeightAxis(attrs.format)), filter.dim(0)));
  TANDEM_ASSIGN_OR_RETURN(const int64_t width,
                          attrs.OutputSize(1, input.dim(WidthAxis(attrs.format)), filter.dim(1)));
  int64_t out_channels = PartialShape::kUnknownDim;
  if (channels >= 0 && filter.dim(3) >= 0 &&
      __builtin_mul_overflow(channels, filter.dim(3), &out_channels)) {
    return errors::InvalidArgument(channels, " channels times ", filter.dim(3), " are too many");
  }
  TANDEM_ASSIGN_OR_RETURN(
      PartialShape output,
      PartialShape::FromDims(ImageDims(attrs.format, input.dim(0), height, width, out_channels)));
  return c.SetOutput(0, std::move(output));
}

// The sizes that are given as input `sizes`.
absl::Status ShapeFromInput(ShapeContext& c, int sizes) {
  TANDEM_RETURN_IF_ERROR(ConvolutionAttrs(c, kOtherStride).status());
  TANDEM_RETURN_IF_ERROR(c.RequireRank(sizes, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 4));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape given, c.InputAsShape(sizes));
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, given.MergeWith(PartialShape::UnknownOfRank(4)));
  return c.SetOutput(0, std::move(output));
}

AttrMap SameAttrs(const GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations"}) {
    attrs.emplace(name, g.node().attrs().find(name)->second);
  }
  return attrs;
}

// The same algebra as Conv2D's: one trilinear form.
absl::Status ForwardGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  g.SetInputGradient(0, g.Call("DepthwiseConv2dNativeBackpropInput",
                               {g.Call("Shape", {g.input(0)}), g.input(1), dy}, SameAttrs(g)));
  g.SetInputGradient(1, g.Call("DepthwiseConv2dNativeBackpropFilter",
                               {g.input(0), g.Call("Shape", {g.input(1)}), dy}, SameAttrs(g)));
  return absl::OkStatus();
}
absl::Status ToInputGradient(GradientContext& g) {
  const Output d = g.OutputGradient(0);
  g.SetInputGradient(1, g.Call("DepthwiseConv2dNativeBackpropFilter",
                               {d, g.Call("Shape", {g.input(1)}), g.input(2)}, SameAttrs(g)));
  g.SetInputGradient(2, g.Call("DepthwiseConv2dNative", {d, g.input(1)}, SameAttrs(g)));
  return absl::OkStatus();
}
absl::Status ToFilterGradient(GradientContext& g) {
  const Output d = g.OutputGradient(0);
  g.SetInputGradient(0, g.Call("DepthwiseConv2dNativeBackpropInput",
                               {g.Call("Shape", {g.input(0)}), d, g.input(2)}, SameAttrs(g)));
  g.SetInputGradient(2, g.Call("DepthwiseConv2dNative", {g.input(0), d}, SameAttrs(g)));
  return absl::OkStatus();
}

constexpr char kAttrs[] =
    "T:type{float16,bfloat16,float32,float64}; strides:list(int); "
    "padding:string{SAME,VALID,EXPLICIT}; explicit_paddings:list(int)=[]; "
    "data_format:string{NHWC,NCHW}=NHWC; dilations:list(int)=[1,1,1,1]";

TANDEM_OP("DepthwiseConv2dNative")
    .Inputs("input:T, filter:T")
    .Outputs("output:T")
    .Attrs(kAttrs)
    .Shape(ForwardShape)
    .Gradient(ForwardGradient)
    .Cpu(Make<DepthwiseKernel<Direction::kForward>>("T",
                                                    {kFloat16, kBfloat16, kFloat32, kFloat64}));

TANDEM_OP("DepthwiseConv2dNativeBackpropInput")
    .Inputs("input_sizes:int32, filter:T, out_backprop:T")
    .Outputs("output:T")
    .Attrs(kAttrs)
    .HostMemory({"input_sizes"})
    .Shape([](ShapeContext& c) { return ShapeFromInput(c, 0); })
    .Gradient(ToInputGradient)
    .Cpu(Make<DepthwiseKernel<Direction::kToInput>>("T",
                                                    {kFloat16, kBfloat16, kFloat32, kFloat64}));

TANDEM_OP("DepthwiseConv2dNativeBackpropFilter")
    .Inputs("input:T, filter_sizes:int32, out_backprop:T")
    .Outputs("output:T")
    .Attrs(kAttrs)
    .HostMemory({"filter_sizes"})
    .Shape([](ShapeContext& c) { return ShapeFromInput(c, 1); })
    .Gradient(ToFilterGradient)
    .Cpu(Make<DepthwiseKernel<Direction::kToFilter>>("T",
                                                     {kFloat16, kBfloat16, kFloat32, kFloat64}));

}  // namespace
}  // namespace tandem
