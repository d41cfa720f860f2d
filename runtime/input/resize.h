// Images in another size.
#ifndef TANDEM_RUNTIME_INPUT_RESIZE_H_
#define TANDEM_RUNTIME_INPUT_RESIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace tandem::data {

// `image`, uint8 or float32 [h, w, channels], as float32 [height, width, channels] in the same
// range of values: each pixel from the four around its place, by their distance. The centres of
// pixels are at halves and beyond the border its pixels go on, as in TensorFlow's tf.image.resize.
// There is no low-pass filter: what shrinks by much is better shrunk in steps.
//
// InvalidArgument: another type or rank, an image without pixels, a size below 1.
// ResourceExhausted: no memory.
absl::StatusOr<Tensor> ResizeBilinear(const Tensor& image, int64_t height, int64_t width);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_RESIZE_H_
