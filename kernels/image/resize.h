// The geometry of resized images: which places of an image a pixel of the result looks at. What the
// ops Resize… share.
//
// There are three ways to see pixels. By default pixel i lies at coordinate i and the scale is
// input / output. With `align_corners` the first and last pixels of both images coincide: the scale
// is (input - 1) / (output - 1). With `half_pixel_centers` pixels are areas whose centers lie at
// i + 0.5. All in float, as TensorFlow has it.
#ifndef TANDEM_KERNELS_IMAGE_RESIZE_H_
#define TANDEM_KERNELS_IMAGE_RESIZE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernel/kernel.h"
#include "core/op/shape_context.h"
#include "core/tensor/tensor.h"

namespace tandem {

struct ResizeAttrs {
  bool align_corners = false;
  bool half_pixel_centers = false;

  // InvalidArgument: both at once.
  static absl::StatusOr<ResizeAttrs> Of(const AttrMap& attrs);

  float Scale(int64_t input, int64_t output) const;
  // The coordinate in the input of pixel `i` of the output.
  float Coordinate(int64_t i, float scale) const {
    const auto x = static_cast<float>(i);
    return half_pixel_centers ? (x + 0.5f) * scale - 0.5f : x * scale;
  }
};

struct Resize {
  int64_t batch = 0;
  int64_t in_height = 0;
  int64_t in_width = 0;
  int64_t out_height = 0;
  int64_t out_width = 0;
  int64_t channels = 0;
  float height_scale = 1;
  float width_scale = 1;

  // InvalidArgument: images that are not of rank 4 or have no pixels, sizes that are not positive,
  // or too large a result.
  static absl::StatusOr<Resize> Make(const ResizeAttrs& attrs, const Shape& images, int64_t height,
                                     int64_t width);

  Shape OutputShape() const { return Shape({batch, out_height, out_width, channels}); }
  int64_t InputImage() const { return in_height * in_width * channels; }
  int64_t OutputImage() const { return out_height * out_width * channels; }
};

// The two numbers of `size`. InvalidArgument: it is no vector of two positive int32.
struct Size2 {
  int64_t height;
  int64_t width;
};
absl::StatusOr<Size2> SizeArgument(const Tensor& size, absl::string_view name);

// The shape [batch, height, width, channels] of images (input `images`) that are resized to the two
// numbers of input `size`.
absl::Status ResizeShape(ShapeContext& c, int images = 0, int size = 1);

}  // namespace tandem

#endif  // TANDEM_KERNELS_IMAGE_RESIZE_H_
