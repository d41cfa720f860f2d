// DecodeImages: the first component, a PNG or JPEG file's bytes, becomes the image. ReadImages: the
// same of the file's path. Attributes: height, width, channels, dtype, threads.
#include <algorithm>

#include "core/base/status.h"
#include "core/io/file.h"
#include "core/io/image.h"
#include "runtime/input/map.h"
#include "runtime/input/resize.h"

namespace tandem::data {
namespace {

// No image that is worth reading is larger; the limit bounds what one file can take.
constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int64_t kMaxSide = 1 << 16;

struct Settings {
  int64_t height;
  int64_t width;
  int channels;
  DataType dtype;
};

// A float32 image in 0 to 255 in the wanted type: whole numbers, or 0 to 1.
absl::StatusOr<Tensor> Converted(const Tensor& image, DataType dtype) {
  TANDEM_ASSIGN_OR_RETURN(Tensor out, Tensor::Create(dtype, image.shape()));
  const absl::Span<const float> in = image.Elements<float>();
  if (dtype == kUint8) {
    std::transform(in.begin(), in.end(), out.MutableElements<uint8_t>().begin(),
                   [](float value) { return static_cast<uint8_t>(value + 0.5f); });
  } else {
    std::transform(in.begin(), in.end(), out.MutableElements<float>().begin(),
                   [](float value) { return value / 255.0f; });
  }
  return out;
}

absl::StatusOr<Tensor> ScaledToUnit(const Tensor& image) {
  TANDEM_ASSIGN_OR_RETURN(Tensor out, Tensor::Create(kFloat32, image.shape()));
  const absl::Span<const uint8_t> in = image.Elements<uint8_t>();
  std::transform(in.begin(), in.end(), out.MutableElements<float>().begin(),
                 [](uint8_t value) { return static_cast<float>(value) / 255.0f; });
  return out;
}

absl::StatusOr<Tensor> Decode(const Settings& settings, absl::string_view bytes) {
  DecodeImageOptions options;
  options.channels = settings.channels;
  TANDEM_ASSIGN_OR_RETURN(Tensor image, DecodeImage(bytes, options));
  const bool right_size = settings.height == 0 || (image.shape().dim(0) == settings.height &&
                                                   image.shape().dim(1) == settings.width);
  if (right_size) return settings.dtype == kUint8 ? image : ScaledToUnit(image);
  TANDEM_ASSIGN_OR_RETURN(const Tensor resized,
                          ResizeBilinear(image, settings.height, settings.width));
  return Converted(resized, settings.dtype);
}

absl::StatusOr<Element> DecodeFirst(const Settings& settings, bool is_path, Element element) {
  if (element.empty() || element[0].dtype() != kString || !element[0].shape().IsScalar()) {
    return errors::InvalidArgument(
        "its first component is ",
        element.empty()
            ? "missing"
            : absl::StrCat(DataTypeName(element[0].dtype()), element[0].shape().DebugString()),
        "; expected one string, ", is_path ? "an image's path" : "an image file's bytes");
  }
  const std::string& text = element[0].ScalarValue<std::string>();
  if (!is_path) {
    TANDEM_ASSIGN_OR_RETURN(Tensor image, Decode(settings, text));
    element[0] = std::move(image);
    return element;
  }
  TANDEM_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadFile(PosixFileSystem(), text, kMaxFileBytes));
  absl::StatusOr<Tensor> image = Decode(settings, bytes);
  if (!image.ok()) return WithContext(image.status(), text);
  element[0] = *std::move(image);
  return element;
}

template <bool kIsPath>
absl::StatusOr<OpenedStagePtr> OpenDecode(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t height, stage.Int("height"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t width, stage.Int("width"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t channels, stage.Int("channels"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t dtype, stage.Int("dtype"));
  if (height < 0 || width < 0 || height > kMaxSide || width > kMaxSide ||
      (height == 0) != (width == 0)) {
    return errors::InvalidArgument(stage.kind(), ": the size is ", height, "x", width,
                                   "; expected 1 to ", kMaxSide,
                                   " a side, or 0x0 to leave images as they are");
  }
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    return errors::InvalidArgument(stage.kind(), ": channels is ", channels,
                                   "; expected 1 (gray), 3 (colours), 4 (with alpha, PNG only) or "
                                   "0 (as each file has it)");
  }
  const Settings settings{height, width, static_cast<int>(channels), static_cast<DataType>(dtype)};
  if (settings.dtype != kUint8 && settings.dtype != kFloat32) {
    return errors::InvalidArgument(stage.kind(), ": the type is ", DataTypeName(settings.dtype),
                                   "; expected uint8 or float32");
  }
  return OpenMapStage(stage, stage.kind(), [settings](const MapContext&, Element element) {
    return DecodeFirst(settings, kIsPath, std::move(element));
  });
}

const bool registered = RegisterStage("DecodeImages", /*inputs=*/1, OpenDecode<false>) &&
                        RegisterStage("ReadImages", /*inputs=*/1, OpenDecode<true>);

}  // namespace
}  // namespace tandem::data
