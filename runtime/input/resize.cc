#include "runtime/input/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/status.h"

namespace tandem::data {
namespace {

// Where a row or column of the result lies in the image.
struct Place {
  int64_t lower;
  int64_t upper;
  float fraction;  // From lower to upper.
};

std::vector<Place> Places(int64_t out, int64_t in) {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const float at = (static_cast<float>(i) + 0.5f) * scale - 0.5f;
    const float below = std::floor(at);
    places.push_back({std::clamp<int64_t>(static_cast<int64_t>(below), 0, in - 1),
                      std::clamp<int64_t>(static_cast<int64_t>(std::ceil(at)), 0, in - 1),
                      at - below});
  }
  return places;
}

template <typename T>
void Resize(const Tensor& image, const std::vector<Place>& rows, const std::vector<Place>& columns,
            Tensor* out) {
  const int64_t channels = image.shape().dim(2);
  const int64_t stride = image.shape().dim(1) * channels;
  const T* const in = image.Elements<T>().data();
  float* to = out->MutableElements<float>().data();
  for (const Place& row : rows) {
    const T* const above = in + row.lower * stride;
    const T* const under = in + row.upper * stride;
    for (const Place& column : columns) {
      const int64_t left = column.lower * channels;
      const int64_t right = column.upper * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const auto between = [&](const T* line) {
          const float a = static_cast<float>(line[left + c]);
          const float b = static_cast<float>(line[right + c]);
          return a + (b - a) * column.fraction;
        };
        const float top = between(above);
        const float bottom = between(under);
        *to++ = top + (bottom - top) * row.fraction;
      }
    }
  }
}

}  // namespace

absl::StatusOr<Tensor> ResizeBilinear(const Tensor& image, int64_t height, int64_t width) {
  if ((image.dtype() != kUint8 && image.dtype() != kFloat32) || image.shape().rank() != 3 ||
      image.num_elements() == 0) {
    return errors::InvalidArgument("a ", DataTypeName(image.dtype()), image.shape().DebugString(),
                                   " cannot be resized; expected uint8 or float32 [height, width, "
                                   "channels], at least one pixel");
  }
  if (height < 1 || width < 1) {
    return errors::InvalidArgument("an image cannot be resized to ", height, "x", width,
                                   "; expected at least one pixel");
  }
  TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims({height, width, image.shape().dim(2)}));
  TANDEM_ASSIGN_OR_RETURN(Tensor out, Tensor::Create(kFloat32, std::move(shape)));
  const std::vector<Place> rows = Places(height, image.shape().dim(0));
  const std::vector<Place> columns = Places(width, image.shape().dim(1));
  if (image.dtype() == kUint8) {
    Resize<uint8_t>(image, rows, columns, &out);
  } else {
    Resize<float>(image, rows, columns, &out);
  }
  return out;
}

}  // namespace tandem::data
