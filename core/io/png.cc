// libpng reports an error by a jump that its caller must have prepared. A jump over a C++ object
// would not destroy it, so every function here that prepares one (those that take a PngRead* or a
// PngWrite*, and nothing else in this file) holds pointers and numbers only, and so do the
// callbacks; what owns memory lives in the frames above.

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "core/io/image.h"

namespace tandem {
namespace {

// zlib cannot shrink data further, so a file cannot hold more rows than this times its size.
constexpr int64_t kMaxDeflateRatio = 1032;
// Of what comes with an image (texts, profiles), none of which is used.
constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;
constexpr size_t kMessageSize = 200;

// For turning colours into gray (ITU-R BT.601); blue has the rest.
constexpr double kRedWeight = 0.299;
constexpr double kGreenWeight = 0.587;

struct PngRead {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const char* begin = nullptr;
  const char* at = nullptr;
  const char* end = nullptr;
  bool truncated = false;
  char message[kMessageSize] = {};
  jmp_buf jump;

  // Set by ReadHeader.
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int bit_depth = 0;
  int color_type = 0;
  size_t file_row_bytes = 0;
  bool has_transparency = false;
  // Set by the caller before PrepareRows, which sets `passes` and `row_bytes`.
  int channels = 0;
  bool sixteen_bits = false;
  int passes = 1;
  size_t row_bytes = 0;

  ~PngRead() { png_destroy_read_struct(&png, &info, nullptr); }
};

struct PngWrite {
  png_structp png = nullptr;
  png_infop info = nullptr;
  // From malloc.
  char* data = nullptr;
  size_t size = 0;
  size_t capacity = 0;
  char message[kMessageSize] = {};
  jmp_buf jump;

  ~PngWrite() {
    png_destroy_write_struct(&png, &info);
    std::free(data);
  }
};

template <typename State>
[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  State* const state = static_cast<State*>(png_get_error_ptr(png));
  std::strncpy(state->message, message, kMessageSize - 1);
  std::longjmp(state->jump, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void OnRead(png_structp png, png_bytep out, size_t size) {
  PngRead* const read = static_cast<PngRead*>(png_get_io_ptr(png));
  if (static_cast<size_t>(read->end - read->at) < size) {
    read->truncated = true;
    png_error(png, "the file ends");
  }
  std::memcpy(out, read->at, size);
  read->at += size;
}

void OnWrite(png_structp png, png_bytep bytes, size_t size) {
  PngWrite* const write = static_cast<PngWrite*>(png_get_io_ptr(png));
  if (write->capacity - write->size < size) {
    const size_t capacity = std::max(2 * write->capacity, write->size + size + 4096);
    char* const data = static_cast<char*>(std::realloc(write->data, capacity));
    if (data == nullptr) png_error(png, "out of memory");
    write->data = data;
    write->capacity = capacity;
  }
  std::memcpy(write->data + write->size, bytes, size);
  write->size += size;
}

void OnFlush(png_structp) {}

bool ReadHeader(PngRead* read) {
  if (setjmp(read->jump) != 0) return false;
  read->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, read, OnError<PngRead>, OnWarning);
  if (read->png == nullptr) return false;
  read->info = png_create_info_struct(read->png);
  if (read->info == nullptr) return false;
  png_set_user_limits(read->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(read->png, kMaxChunkBytes);
  png_set_read_fn(read->png, read, OnRead);
  png_read_info(read->png, read->info);
  png_get_IHDR(read->png, read->info, &read->width, &read->height, &read->bit_depth,
               &read->color_type, nullptr, nullptr, nullptr);
  read->file_row_bytes = png_get_rowbytes(read->png, read->info);
  read->has_transparency = png_get_valid(read->png, read->info, PNG_INFO_tRNS) != 0;
  return true;
}

bool PrepareRows(PngRead* read) {
  if (setjmp(read->jump) != 0) return false;
  const bool palette = read->color_type == PNG_COLOR_TYPE_PALETTE;
  const bool gray = (read->color_type & PNG_COLOR_MASK_COLOR) == 0;
  const bool alpha = (read->color_type & PNG_COLOR_MASK_ALPHA) != 0;
  if (palette) png_set_palette_to_rgb(read->png);
  if (gray && read->bit_depth < 8) png_set_expand_gray_1_2_4_to_8(read->png);
  if (read->channels % 2 == 1) {
    if (alpha || read->has_transparency) png_set_strip_alpha(read->png);
  } else if (read->has_transparency) {
    png_set_tRNS_to_alpha(read->png);
  } else if (!alpha) {
    png_set_add_alpha(read->png, read->bit_depth == 16 ? 0xffff : 0xff, PNG_FILLER_AFTER);
  }
  if (read->channels < 3 && !gray) {
    png_set_rgb_to_gray(read->png, PNG_ERROR_ACTION_NONE, kRedWeight, kGreenWeight);
  } else if (read->channels >= 3 && gray) {
    png_set_gray_to_rgb(read->png);
  }
  if (read->bit_depth == 16) {
    if (read->sixteen_bits) {
      png_set_swap(read->png);  // Files are big-endian.
    } else {
      png_set_strip_16(read->png);
    }
  }
  read->passes = png_set_interlace_handling(read->png);
  png_read_update_info(read->png, read->info);
  read->row_bytes = png_get_rowbytes(read->png, read->info);
  return true;
}

bool ReadRows(PngRead* read, png_bytep out) {
  if (setjmp(read->jump) != 0) return false;
  for (int pass = 0; pass < read->passes; ++pass) {
    for (png_uint_32 row = 0; row < read->height; ++row) {
      png_read_row(read->png, out + row * read->row_bytes, nullptr);
    }
  }
  png_read_end(read->png, nullptr);
  return true;
}

bool WriteImage(PngWrite* write, const Tensor* image, int compression) {
  if (setjmp(write->jump) != 0) return false;
  write->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, write, OnError<PngWrite>, OnWarning);
  if (write->png == nullptr) return false;
  write->info = png_create_info_struct(write->png);
  if (write->info == nullptr) return false;
  constexpr int kColorTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
  const bool sixteen_bits = image->dtype() == kUint16;
  png_set_write_fn(write->png, write, OnWrite, OnFlush);
  png_set_user_limits(write->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_compression_level(write->png, compression);
  png_set_IHDR(write->png, write->info, static_cast<png_uint_32>(image->shape().dim(1)),
               static_cast<png_uint_32>(image->shape().dim(0)), sixteen_bits ? 16 : 8,
               kColorTypes[image->shape().dim(2) - 1], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(write->png, write->info);
  if (sixteen_bits) png_set_swap(write->png);
  png_const_bytep row = static_cast<png_const_bytep>(image->data());
  const size_t row_bytes = image->num_bytes() / static_cast<size_t>(image->shape().dim(0));
  for (int64_t i = 0; i < image->shape().dim(0); ++i, row += row_bytes) {
    png_write_row(write->png, row);
  }
  png_write_end(write->png, write->info);
  return true;
}

absl::Status ReadError(const PngRead& read) {
  if (read.truncated) {
    return errors::InvalidArgument("a PNG image that is truncated: the file ends at byte ",
                                   read.end - read.begin, ", in the middle of the image");
  }
  return errors::InvalidArgument("not a PNG image, or a damaged one: ",
                                 read.message[0] != 0 ? read.message : "libpng cannot start",
                                 ", before byte ", read.at - read.begin);
}

Tensor StretchTo16Bits(const Tensor& narrow, Tensor wide) {
  // 0xff becomes 0xffff.
  std::transform(narrow.Elements<uint8_t>().begin(), narrow.Elements<uint8_t>().end(),
                 wide.MutableElements<uint16_t>().begin(),
                 [](uint8_t value) { return static_cast<uint16_t>(value * 257); });
  return wide;
}

}  // namespace

absl::StatusOr<Tensor> DecodePng(absl::string_view bytes, const DecodeImageOptions& options) {
  if (options.channels < 0 || options.channels > 4) {
    return errors::InvalidArgument(
        "a PNG image has 1 to 4 channels, or 0 for what is there; found ", options.channels);
  }
  if (options.dtype != kUint8 && options.dtype != kUint16) {
    return errors::InvalidArgument("a PNG image is decoded to uint8 or uint16; found ",
                                   DataTypeName(options.dtype));
  }
  PngRead read;
  read.begin = read.at = bytes.data();
  read.end = read.begin + bytes.size();
  if (!ReadHeader(&read)) return ReadError(read);

  read.channels = options.channels;
  if (read.channels == 0) {
    const bool palette = read.color_type == PNG_COLOR_TYPE_PALETTE;
    read.channels =
        palette ? (read.has_transparency ? 4 : 3) : png_get_channels(read.png, read.info);
  }
  read.sixteen_bits = options.dtype == kUint16 && read.bit_depth == 16;
  const auto element = static_cast<int64_t>(DataTypeSize(options.dtype));
  const absl::StatusOr<Shape> size = Shape::FromDims({read.height, read.width, read.channels});
  if (!size.ok() || size->num_elements() > options.max_bytes / element) {
    return errors::ResourceExhausted(
        "a PNG image of ", read.width, " by ", read.height, " pixels and ", read.channels,
        " channels exceeds the limit of ", options.max_bytes, " bytes");
  }
  const Shape& shape = *size;
  const auto file_size = static_cast<int64_t>(bytes.size());
  if (static_cast<int64_t>(read.file_row_bytes) > kMaxDeflateRatio * file_size / read.height) {
    return errors::InvalidArgument("a PNG image that is truncated: ", bytes.size(),
                                   " bytes cannot hold the pixels of shape ", shape.DebugString());
  }
  if (!PrepareRows(&read)) return ReadError(read);
  TANDEM_ASSIGN_OR_RETURN(Tensor image,
                          Tensor::Create(read.sixteen_bits ? kUint16 : kUint8, shape));
  if (read.row_bytes * read.height != image.num_bytes()) {
    return errors::Internal("libpng gives rows of ", read.row_bytes,
                            " bytes for an image of shape ", shape.DebugString());
  }
  if (!ReadRows(&read, static_cast<png_bytep>(image.mutable_data()))) return ReadError(read);
  if (options.dtype == image.dtype()) return image;
  TANDEM_ASSIGN_OR_RETURN(Tensor wide, Tensor::Create(kUint16, shape));
  return StretchTo16Bits(image, std::move(wide));
}

absl::StatusOr<std::string> EncodePng(const Tensor& image, int compression) {
  const Shape& shape = image.shape();
  const bool is_image = (image.dtype() == kUint8 || image.dtype() == kUint16) &&
                        shape.rank() == 3 && shape.num_elements() > 0 && shape.dim(2) <= 4 &&
                        shape.dim(0) <= PNG_UINT_31_MAX && shape.dim(1) <= PNG_UINT_31_MAX;
  if (!is_image) {
    return errors::InvalidArgument(
        "PNG images are written from uint8 or uint16 [height, width, 1 to 4 channels]; found ",
        image.is_valid() ? DataTypeName(image.dtype()) : "no tensor", shape.DebugString());
  }
  if (compression < -1 || compression > 9) {
    return errors::InvalidArgument("the compression of a PNG image is -1 to 9; found ",
                                   compression);
  }
  PngWrite write;
  if (!WriteImage(&write, &image, compression)) {
    return errors::ResourceExhausted("a PNG image of shape ", shape.DebugString(),
                                     " cannot be written: ", write.message);
  }
  return std::string(write.data, write.size);
}

}  // namespace tandem
