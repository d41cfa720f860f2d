// The images of a batch [count, height, width, channels], as PNG.
//
// Floats of an image without negative ones are scaled such that the greatest becomes 255; with
// negative ones, such that 0 becomes 128 and the greatest magnitude 1 or 255. Pixels that are not
// finite take no part in it and get the colour `bad_color`.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/base/status.h"
#include "core/io/image.h"
#include "kernels/io/summary_values.h"

namespace tandem::io {
namespace {

// Images whose numbers are all closer to 0 are left at 0, not blown up.
constexpr float kNothing = 1e-6f;

// What numbers of a type are scaled in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
bool IsFinitePixel(absl::Span<const T> pixel) {
  return std::all_of(pixel.begin(), pixel.end(),
                     [](T value) { return std::isfinite(static_cast<Wide<T>>(value)); });
}

// `image`: [height, width, channels]. `bad_color` has as many bytes as there are channels, or more.
template <typename T>
absl::StatusOr<Tensor> ToBytes(const Tensor& image, absl::Span<const uint8_t> bad_color) {
  const auto channels = static_cast<size_t>(image.shape().dim(2));
  const absl::Span<const T> values = image.Elements<T>();
  // In float32 for all types, as the scale is.
  float least = std::numeric_limits<float>::infinity();
  float greatest = -least;
  for (size_t i = 0; i < values.size(); i += channels) {
    const absl::Span<const T> pixel = values.subspan(i, channels);
    if (!IsFinitePixel(pixel)) continue;
    for (const T value : pixel) {
      least = std::min(least, static_cast<float>(value));
      greatest = std::max(greatest, static_cast<float>(value));
    }
  }
  const bool has_negative = least < 0;
  const float most = has_negative ? std::max(-least, greatest) : greatest;
  const float scale = most < kNothing ? 0 : (has_negative ? 127 : 255) / most;
  const float offset = has_negative ? 128 : 0;
  TANDEM_ASSIGN_OR_RETURN(Tensor bytes, Tensor::Create(kUint8, image.shape()));
  const absl::Span<uint8_t> out = bytes.MutableElements<uint8_t>();
  for (size_t i = 0; i < values.size(); i += channels) {
    if (!IsFinitePixel(values.subspan(i, channels))) {
      std::copy_n(bad_color.begin(), channels, out.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    for (size_t k = i; k < i + channels; ++k) {
      const Wide<T> value = static_cast<Wide<T>>(values[k]) * scale + offset;
      out[k] = static_cast<uint8_t>(std::clamp<Wide<T>>(value, 0, 255));
    }
  }
  return bytes;
}

absl::StatusOr<Tensor> Pixels(Tensor image, const Tensor& bad_color) {
  const absl::Span<const uint8_t> color = bad_color.Elements<uint8_t>();
  switch (image.dtype()) {
    case kUint8:
      return image;
    case kFloat32:
      return ToBytes<float>(image, color);
    case kFloat64:
      return ToBytes<double>(image, color);
    case kFloat16:
      return ToBytes<Float16>(image, color);
    default:
      return errors::InvalidArgument("images are uint8 or floating; found ",
                                     DataTypeName(image.dtype()));
  }
}

absl::Status AddImage(const Tensor& image, const Tensor& bad_color,
                      tensorflow::Summary::Value& value) {
  TANDEM_ASSIGN_OR_RETURN(const Tensor pixels, Pixels(image, bad_color));
  TANDEM_ASSIGN_OR_RETURN(std::string png, EncodePng(pixels));
  tensorflow::Summary::Image& result = *value.mutable_image();
  result.set_height(static_cast<int32_t>(image.shape().dim(0)));
  result.set_width(static_cast<int32_t>(image.shape().dim(1)));
  result.set_colorspace(static_cast<int32_t>(image.shape().dim(2)));
  result.set_encoded_image_string(std::move(png));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBadColor(const Tensor& bad_color) {
  if (bad_color.dtype() == kUint8 && bad_color.shape().rank() == 1) return absl::OkStatus();
  return errors::InvalidArgument("bad_color must be a vector of uint8; found ",
                                 DataTypeName(bad_color.dtype()), bad_color.shape().DebugString());
}

absl::Status AddImageValues(const std::string& tag, const Tensor& images, int64_t max_images,
                            const Tensor& bad_color, tensorflow::Summary& summary) {
  const Shape& shape = images.shape();
  const int64_t channels = shape.rank() == 4 ? shape.dim(3) : 0;
  if (channels != 1 && channels != 3 && channels != 4) {
    return errors::InvalidArgument("images '", tag, "' have the shape ", shape.DebugString(),
                                   "; expected [count, height, width, channels] with 1, 3 or 4 "
                                   "channels");
  }
  if (bad_color.num_elements() < channels) {
    return errors::InvalidArgument("bad_color has ", bad_color.num_elements(),
                                   " elements; images '", tag, "' have ", channels, " channels");
  }
  Shape one = shape;
  one.RemoveDim(0);
  const int64_t count = std::min(max_images, shape.dim(0));
  for (int64_t i = 0; i < count; ++i) {
    tensorflow::Summary::Value& value = *summary.add_value();
    value.set_tag(max_images == 1 ? absl::StrCat(tag, "/image") : absl::StrCat(tag, "/image/", i));
    TANDEM_ASSIGN_OR_RETURN(const Tensor image, images.Slice(i, i + 1).Reshaped(one));
    const absl::Status added = AddImage(image, bad_color, value);
    if (!added.ok()) return WithContext(added, absl::StrCat("images '", tag, "'"));
  }
  return absl::OkStatus();
}

}  // namespace tandem::io
