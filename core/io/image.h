// PNG and JPEG files as tensors [height, width, channels], through libpng and libjpeg-turbo.
//
// Channels: 1 gray, 2 gray and alpha, 3 red, green and blue, 4 with alpha. Values are those of the
// file: neither gamma nor a colour profile nor an orientation is applied. What a file has in
// another number of channels is converted as TensorFlow's decode_png and decode_jpeg do it.
//
// Errors
//   InvalidArgument    bytes that are no such image, are damaged, or end too early (the message
//   says
//                      so and where); an option that does not fit; a tensor that is no image.
//   Unimplemented      JPEG files in CMYK; files of another kind, which is named.
//   ResourceExhausted  an image larger than the limit: sizes are checked before memory is taken.
// The caller adds where the bytes came from.
//
// Threads: all functions may be called from any thread. Tensors lie in host memory.
#ifndef TANDEM_CORE_IO_IMAGE_H_
#define TANDEM_CORE_IO_IMAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace tandem {

struct DecodeImageOptions {
  // 0: as many as the file has (a palette is 3, or 4 with transparency). JPEG: 0, 1 or 3.
  int channels = 0;
  // kUint8, or kUint16 (PNG only). What is narrower in the file is stretched, what is wider loses
  // its low bits.
  DataType dtype = kUint8;
  // Of the tensor.
  int64_t max_bytes = int64_t{1} << 29;
};

absl::StatusOr<Tensor> DecodePng(absl::string_view bytes, const DecodeImageOptions& options = {});
absl::StatusOr<Tensor> DecodeJpeg(absl::string_view bytes, const DecodeImageOptions& options = {});
// Whichever of them the bytes begin like.
absl::StatusOr<Tensor> DecodeImage(absl::string_view bytes, const DecodeImageOptions& options = {});

// `image`: [height, width, channels], uint8 or uint16, 1 to 4 channels, at least one pixel.
// `compression`: zlib's level 0 to 9, or -1 for its default.
absl::StatusOr<std::string> EncodePng(const Tensor& image, int compression = -1);

// `image`: [height, width, channels], uint8, 1 or 3 channels, at least one pixel and at most 65500
// a side. `quality`: 0 to 100. Colours are stored at half the resolution.
absl::StatusOr<std::string> EncodeJpeg(const Tensor& image, int quality = 95);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_IMAGE_H_
