#include "kernels/nn/pool.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem {

absl::StatusOr<PoolAttrs> PoolAttrs::Parse(const std::string& data_format,
                                           const std::string& padding,
                                           const std::vector<int64_t>& ksize,
                                           const std::vector<int64_t>& strides,
                                           const std::vector<int64_t>* explicit_paddings) {
  PoolAttrs a;
  TANDEM_ASSIGN_OR_RETURN(const DataFormat format, ParseDataFormat(data_format));
  if (ksize.size() != 4 || strides.size() != 4) {
    return errors::InvalidArgument("ksize [", absl::StrJoin(ksize, ","), "] and strides [",
                                   absl::StrJoin(strides, ","), "] must have 4 numbers each");
  }
  for (size_t i = 0; i < 4; ++i) {
    if (ksize[i] < 1 || strides[i] < 1) {
      return errors::InvalidArgument("ksize [", absl::StrJoin(ksize, ","), "] and strides [",
                                     absl::StrJoin(strides, ","), "] must be positive");
    }
  }
  if (ksize[0] != 1 || strides[0] != 1) {
    return errors::Unimplemented("pooling over the batch: ksize [", absl::StrJoin(ksize, ","),
                                 "], strides [", absl::StrJoin(strides, ","), "]");
  }
  const auto channel = static_cast<size_t>(ChannelAxis(format));
  const auto height = static_cast<size_t>(HeightAxis(format));
  a.depth = ksize[channel];
  for (size_t i = 0; i < 2; ++i) a.size[i] = ksize[height + i];
  if (a.depth != strides[channel] ||
      (a.depth > 1 &&
       (a.size[0] > 1 || a.size[1] > 1 || strides[height] > 1 || strides[height + 1] > 1))) {
    return errors::Unimplemented(
        "pooling over channels needs a window of pixels and strides of 1, "
        "and a stride over channels like the window: ksize [",
        absl::StrJoin(ksize, ","), "], strides [", absl::StrJoin(strides, ","), "]");
  }
  std::vector<int64_t> pixel_strides = strides;
  pixel_strides[channel] = 1;
  TANDEM_ASSIGN_OR_RETURN(
      a.window, WindowAttrs::Parse(data_format, padding, pixel_strides, nullptr, explicit_paddings,
                                   absl::StatusCode::kUnimplemented));
  return a;
}

absl::StatusOr<Pool> Pool::Make(const PoolAttrs& attrs, const Shape& input) {
  if (input.rank() != 4) {
    return errors::InvalidArgument("images must have rank 4, not shape ", input.DebugString());
  }
  const DataFormat format = attrs.window.format;
  Pool p;
  const int64_t channels = input.dim(ChannelAxis(format));
  TANDEM_ASSIGN_OR_RETURN(p.height,
                          attrs.window.Along(0, input.dim(HeightAxis(format)), attrs.size[0]));
  TANDEM_ASSIGN_OR_RETURN(p.width,
                          attrs.window.Along(1, input.dim(WidthAxis(format)), attrs.size[1]));
  for (const WindowDim& d : {p.height, p.width}) {
    if (d.pad_before < d.window && d.pad_after < d.window) continue;
    return errors::InvalidArgument("paddings of ", d.pad_before, " and ", d.pad_after,
                                   " leave windows of ", d.window, " without an element");
  }
  TANDEM_ASSIGN_OR_RETURN(
      p.output, Shape::FromDims(ImageDims(format, input.dim(0), p.height.output, p.width.output,
                                          channels / attrs.depth)));
  p.batch = input.dim(0);
  p.channels = channels;
  if (attrs.depth > 1) {
    if (channels % attrs.depth != 0 || format != DataFormat::kNhwc) {
      return errors::Unimplemented("pooling of ", channels, " channels in windows of ", attrs.depth,
                                   ": the channels must come last and be a multiple");
    }
    p.batch *= p.height.input * p.width.input;
    p.channels = 1;
    p.height = {1, 1, 1, 1, 1, 0, 0};
    p.width = {channels, attrs.depth, attrs.depth, 1, channels / attrs.depth, 0, 0};
  } else if (format == DataFormat::kNchw) {
    p.batch *= channels;
    p.channels = 1;
  }
  return p;
}

absl::Status PoolShape(ShapeContext& c, bool has_explicit_paddings) {
  TANDEM_ASSIGN_OR_RETURN(const PoolAttrs attrs, PoolAttrsOf(c, has_explicit_paddings));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 4));
  const PartialShape input = c.input(0).has_rank() ? c.input(0) : PartialShape::UnknownOfRank(4);
  const DataFormat format = attrs.window.format;
  TANDEM_ASSIGN_OR_RETURN(const int64_t height,
                          attrs.window.OutputSize(0, input.dim(HeightAxis(format)), attrs.size[0]));
  TANDEM_ASSIGN_OR_RETURN(const int64_t width,
                          attrs.window.OutputSize(1, input.dim(WidthAxis(format)), attrs.size[1]));
  int64_t channels = input.dim(ChannelAxis(format));
  if (channels > 0) channels /= attrs.depth;
  return c.SetOutput(
      0,
      PartialShape(absl::MakeConstSpan(ImageDims(format, input.dim(0), height, width, channels))));
}

}  // namespace tandem
