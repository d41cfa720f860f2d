#include "kernels/nn/conv2d_common.h"

#include <utility>

#include "core/base/status.h"

namespace tandem {
namespace {

// Channels of the input are those of the filter, or a multiple: groups.
absl::Status CheckChannels(int64_t in, int64_t filter_in, int64_t filter_out) {
  if (in < 0 || filter_in < 0) return absl::OkStatus();
  if (filter_in == 0 ? in != 0 : in % filter_in != 0) {
    return errors::InvalidArgument("an input of ", in, " channels is no multiple of a filter for ",
                                   filter_in);
  }
  if (in == 0 || filter_out < 0) return absl::OkStatus();
  const int64_t groups = in / filter_in;
  if (filter_out % groups != 0) {
    return errors::InvalidArgument("a filter of ", filter_out,
                                   " output channels does not divide into the ", groups,
                                   " groups of ", in, " input channels, ", filter_in, " each");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Convolution> MakeConvolution(const WindowAttrs& attrs, const Shape& input,
                                            const Shape& filter) {
  if (input.rank() != 4 || filter.rank() != 4) {
    return errors::InvalidArgument("a convolution wants images and a filter of rank 4, not shapes ",
                                   input.DebugString(), " and ", filter.DebugString());
  }
  Convolution conv;
  conv.format = attrs.format;
  conv.batch = input.dim(0);
  conv.in_channels = input.dim(ChannelAxis(attrs.format));
  conv.out_channels = filter.dim(3);
  TANDEM_RETURN_IF_ERROR(CheckChannels(conv.in_channels, filter.dim(2), conv.out_channels));
  conv.groups = conv.in_channels == 0 ? 1 : conv.in_channels / filter.dim(2);
  TANDEM_ASSIGN_OR_RETURN(conv.height,
                          attrs.Along(0, input.dim(HeightAxis(attrs.format)), filter.dim(0)));
  TANDEM_ASSIGN_OR_RETURN(conv.width,
                          attrs.Along(1, input.dim(WidthAxis(attrs.format)), filter.dim(1)));
  // The output must be a shape as well.
  TANDEM_RETURN_IF_ERROR(Shape::FromDims(ImageDims(conv.format, conv.batch, conv.height.output,
                                                   conv.width.output, conv.out_channels))
                             .status());
  return conv;
}

Shape OutputShape(const Convolution& conv) {
  return Shape(absl::MakeConstSpan(ImageDims(conv.format, conv.batch, conv.height.output,
                                             conv.width.output, conv.out_channels)));
}

absl::StatusOr<Shape> ShapeFromSizes(const Tensor& sizes, absl::string_view what) {
  if (!sizes.shape().IsVector() || sizes.num_elements() != 4) {
    return errors::InvalidArgument(what, " must be a vector of 4 sizes, not a tensor of shape ",
                                   sizes.shape().DebugString());
  }
  Shape::Dims dims;
  for (const int32_t size : sizes.Elements<int32_t>()) dims.push_back(size);
  return Shape::FromDims(dims);
}

PackedWeightsOptions FilterCacheOptions(const KernelInit& init) {
  PackedWeightsOptions options;
  options.source = init.input_source(1);
  options.allocator = init.device().allocator;
  return options;
}

absl::Status Conv2DShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const WindowAttrs attrs,
                          ConvolutionAttrs(c, absl::StatusCode::kUnimplemented));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 4));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 4));
  const PartialShape input = c.input(0).has_rank() ? c.input(0) : PartialShape::UnknownOfRank(4);
  const PartialShape filter = c.input(1).has_rank() ? c.input(1) : PartialShape::UnknownOfRank(4);
  TANDEM_RETURN_IF_ERROR(
      CheckChannels(input.dim(ChannelAxis(attrs.format)), filter.dim(2), filter.dim(3)));
  TANDEM_ASSIGN_OR_RETURN(const int64_t height,
                          attrs.OutputSize(0, input.dim(HeightAxis(attrs.format)), filter.dim(0)));
  TANDEM_ASSIGN_OR_RETURN(const int64_t width,
                          attrs.OutputSize(1, input.dim(WidthAxis(attrs.format)), filter.dim(1)));
  return c.SetOutput(0, PartialShape(absl::MakeConstSpan(
                            ImageDims(attrs.format, input.dim(0), height, width, filter.dim(3)))));
}

absl::StatusOr<Tensor> ToNhwc(KernelContext& c, const Tensor& images, DataFormat format) {
  if (format == DataFormat::kNhwc) return images;
  const Shape& s = images.shape();
  const int64_t pixels = s.dim(2) * s.dim(3);
  TANDEM_ASSIGN_OR_RETURN(
      Tensor nhwc,
      c.AllocateTemporary(images.dtype(), Shape({s.dim(0), s.dim(2), s.dim(3), s.dim(1)})));
  TransposeImages(images.data(), nhwc.mutable_data(), s.dim(0), s.dim(1), pixels,
                  DataTypeSize(images.dtype()));
  return nhwc;
}

void FromNhwc(const Tensor& nhwc, DataFormat format, Tensor& images) {
  if (format == DataFormat::kNhwc) return;
  const Shape& s = images.shape();
  TransposeImages(nhwc.data(), images.mutable_data(), s.dim(0), s.dim(2) * s.dim(3), s.dim(1),
                  DataTypeSize(images.dtype()));
}

}  // namespace tandem
