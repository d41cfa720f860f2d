#include "kernels/image/resize.h"

#include <utility>

#include "core/base/status.h"

namespace tandem {

absl::StatusOr<ResizeAttrs> ResizeAttrs::Of(const AttrMap& attrs) {
  const auto flag = [&](const char* name) {
    const auto found = attrs.find(name);
    return found != attrs.end() && *found->second.Get<bool>();
  };
  ResizeAttrs a;
  a.align_corners = flag("align_corners");
  a.half_pixel_centers = flag("half_pixel_centers");
  if (a.align_corners && a.half_pixel_centers) {
    return errors::InvalidArgument(
        "align_corners and half_pixel_centers exclude each other, and both are set");
  }
  return a;
}

float ResizeAttrs::Scale(int64_t input, int64_t output) const {
  return align_corners && output > 1
             ? static_cast<float>(input - 1) / static_cast<float>(output - 1)
             : static_cast<float>(input) / static_cast<float>(output);
}

absl::StatusOr<Resize> Resize::Make(const ResizeAttrs& attrs, const Shape& images, int64_t height,
                                    int64_t width) {
  if (images.rank() != 4) {
    return errors::InvalidArgument("images must have rank 4, not shape ", images.DebugString());
  }
  Resize r;
  r.batch = images.dim(0);
  r.in_height = images.dim(1);
  r.in_width = images.dim(2);
  r.channels = images.dim(3);
  r.out_height = height;
  r.out_width = width;
  // Floats tell larger coordinates no more apart.
  constexpr int64_t kLimit = int64_t{1} << 31;
  if (r.in_height < 1 || r.in_width < 1 || r.in_height >= kLimit || r.in_width >= kLimit) {
    return errors::InvalidArgument("images of shape ", images.DebugString(),
                                   " have no pixels, or too many to resize");
  }
  if (height < 1 || width < 1) {
    return errors::InvalidArgument("images cannot be resized to ", height, " x ", width,
                                   "; positive sizes are wanted");
  }
  TANDEM_RETURN_IF_ERROR(Shape::FromDims({r.batch, height, width, r.channels}).status());
  r.height_scale = attrs.Scale(r.in_height, height);
  r.width_scale = attrs.Scale(r.in_width, width);
  return r;
}

absl::StatusOr<Size2> SizeArgument(const Tensor& size, absl::string_view name) {
  if (!size.shape().IsVector() || size.num_elements() != 2) {
    return errors::InvalidArgument(name, " must be a vector of height and width, not of shape ",
                                   size.shape().DebugString());
  }
  const absl::Span<const int32_t> values = size.Elements<int32_t>();
  if (values[0] < 1 || values[1] < 1) {
    return errors::InvalidArgument(name, " [", values[0], ",", values[1], "] must be positive");
  }
  return Size2{values[0], values[1]};
}

absl::Status ResizeShape(ShapeContext& c, int images, int size) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(images, 4));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(size, 1));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape sizes, c.InputAsShape(size));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape two, sizes.MergeWith(PartialShape::UnknownOfRank(2)));
  const PartialShape& from = c.input(images);
  const bool known = from.has_rank();
  return c.SetOutput(
      0, PartialShape({known ? from.dim(0) : PartialShape::kUnknownDim, two.dim(0), two.dim(1),
                       known ? from.dim(3) : PartialShape::kUnknownDim}));
}

}  // namespace tandem
