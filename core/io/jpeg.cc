// As in png.cc: libjpeg reports errors by a jump, so the functions that prepare one (those that
// take a JpegRead* or a JpegWrite*) and the callbacks hold pointers and numbers only.

#include <stdio.h>  // jpeglib.h needs it and does not include it.

#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>

#include "core/base/status.h"
#include "core/io/image.h"

namespace tandem {
namespace {

// A block of 8 by 8 pixels takes a bit or more, except with arithmetic coding, which next to
// nobody writes.
constexpr int64_t kMaxPixelsPerByte = 8 * 64;
// A progressive file may tell each coefficient bit by bit; real ones have about ten scans, hostile
// ones thousands, each as much work as an image.
constexpr int kMaxScans = 100;
// What the decoder may take: coefficients of a progressive image, and tables.
constexpr int64_t kWorkBytesPerPixel = 16;
constexpr int64_t kWorkBytes = 16 << 20;
constexpr int64_t kMaxSide = JPEG_MAX_DIMENSION;

struct JpegRead {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  jpeg_source_mgr source = {};
  jpeg_progress_mgr progress = {};
  const char* begin = nullptr;
  size_t size = 0;
  bool truncated = false;
  bool damaged = false;
  bool created = false;
  char message[JMSG_LENGTH_MAX] = {};
  jmp_buf jump;

  ~JpegRead() {
    if (created) jpeg_destroy_decompress(&info);
  }
};

struct JpegWrite {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  // From malloc, by libjpeg.
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type.
  bool created = false;
  char message[JMSG_LENGTH_MAX] = {};
  jmp_buf jump;

  ~JpegWrite() {
    if (created) jpeg_destroy_compress(&info);
    std::free(data);
  }
};

template <typename State>
[[noreturn]] void OnError(j_common_ptr info) {
  State* const state = static_cast<State*>(info->client_data);
  info->err->format_message(info, state->message);
  std::longjmp(state->jump, 1);
}

void OnOutput(j_common_ptr) {}

// `level` -1 is a warning: the decoder goes on with what it made up.
void OnReadMessage(j_common_ptr info, int level) {
  if (level != -1) return;
  JpegRead* const read = static_cast<JpegRead*>(info->client_data);
  switch (info->err->msg_code) {
    // Harmless, and common in files of cameras and editors.
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
      return;
    default:
      if (!read->damaged) info->err->format_message(info, read->message);
      read->damaged = true;
  }
}

void OnWriteMessage(j_common_ptr, int) {}

void OnProgress(j_common_ptr info) {
  const auto* const decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number > kMaxScans) ERREXITS(info, JERR_BAD_PROGRESSION, "");
}

void OnSource(j_decompress_ptr) {}

boolean OnMoreInput(j_decompress_ptr info) {
  static const JOCTET kEndOfImage[] = {0xff, JPEG_EOI};
  static_cast<JpegRead*>(info->client_data)->truncated = true;
  info->src->next_input_byte = kEndOfImage;
  info->src->bytes_in_buffer = sizeof(kEndOfImage);
  return TRUE;
}

void OnSkip(j_decompress_ptr info, long bytes) {  // NOLINT: libjpeg's type.
  if (bytes <= 0) return;
  if (static_cast<size_t>(bytes) > info->src->bytes_in_buffer) {
    OnMoreInput(info);
    return;
  }
  info->src->next_input_byte += bytes;
  info->src->bytes_in_buffer -= static_cast<size_t>(bytes);
}

bool ReadHeader(JpegRead* read) {
  read->info.err = jpeg_std_error(&read->errors);
  read->errors.error_exit = OnError<JpegRead>;
  read->errors.emit_message = OnReadMessage;
  read->errors.output_message = OnOutput;
  read->info.client_data = read;
  if (setjmp(read->jump) != 0) return false;
  jpeg_create_decompress(&read->info);
  read->created = true;
  read->source.init_source = OnSource;
  read->source.fill_input_buffer = OnMoreInput;
  read->source.skip_input_data = OnSkip;
  read->source.resync_to_restart = jpeg_resync_to_restart;
  read->source.term_source = OnSource;
  read->source.next_input_byte = reinterpret_cast<const JOCTET*>(read->begin);
  read->source.bytes_in_buffer = read->size;
  read->info.src = &read->source;
  read->progress.progress_monitor = OnProgress;
  read->info.progress = &read->progress;
  jpeg_read_header(&read->info, TRUE);
  return true;
}

// `row_bytes` is set to what a row of the image takes.
bool Start(JpegRead* read, bool gray, size_t* row_bytes) {
  if (setjmp(read->jump) != 0) return false;
  read->info.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
  read->info.mem->max_memory_to_use =
      kWorkBytes + kWorkBytesPerPixel * read->info.image_width * read->info.image_height;
  jpeg_start_decompress(&read->info);
  *row_bytes = static_cast<size_t>(read->info.output_width) *
               static_cast<size_t>(read->info.output_components);
  return true;
}

bool ReadRows(JpegRead* read, JSAMPROW out, size_t row_bytes) {
  if (setjmp(read->jump) != 0) return false;
  while (read->info.output_scanline < read->info.output_height) {
    JSAMPROW row = out + read->info.output_scanline * row_bytes;
    jpeg_read_scanlines(&read->info, &row, 1);
    // The rest would be made up, line by line.
    if (read->truncated || read->damaged) return false;
  }
  jpeg_finish_decompress(&read->info);
  return !read->truncated && !read->damaged;
}

bool WriteImage(JpegWrite* write, const Tensor* image, int quality) {
  write->info.err = jpeg_std_error(&write->errors);
  write->errors.error_exit = OnError<JpegWrite>;
  write->errors.emit_message = OnWriteMessage;
  write->errors.output_message = OnOutput;
  write->info.client_data = write;
  if (setjmp(write->jump) != 0) return false;
  jpeg_create_compress(&write->info);
  write->created = true;
  jpeg_mem_dest(&write->info, &write->data, &write->size);
  write->info.image_height = static_cast<JDIMENSION>(image->shape().dim(0));
  write->info.image_width = static_cast<JDIMENSION>(image->shape().dim(1));
  write->info.input_components = static_cast<int>(image->shape().dim(2));
  write->info.in_color_space = write->info.input_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&write->info);
  jpeg_set_quality(&write->info, quality, TRUE);
  jpeg_start_compress(&write->info, TRUE);
  const size_t row_bytes = image->num_bytes() / static_cast<size_t>(image->shape().dim(0));
  // libjpeg does not write to what it is given, though its type allows it.
  JSAMPROW row = const_cast<JSAMPROW>(static_cast<const JSAMPLE*>(image->data()));
  for (; write->info.next_scanline < write->info.image_height; row += row_bytes) {
    jpeg_write_scanlines(&write->info, &row, 1);
  }
  jpeg_finish_compress(&write->info);
  return true;
}

absl::Status ReadError(const JpegRead& read) {
  if (read.truncated) {
    return errors::InvalidArgument("a JPEG image that is truncated: the file ends at byte ",
                                   read.size, ", in the middle of the image");
  }
  return errors::InvalidArgument("not a JPEG image, or a damaged one: ", read.message,
                                 ", before byte ", read.size - read.source.bytes_in_buffer);
}

}  // namespace

absl::StatusOr<Tensor> DecodeJpeg(absl::string_view bytes, const DecodeImageOptions& options) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3) {
    return errors::InvalidArgument(
        "a JPEG image has 1 or 3 channels, or 0 for what is there; found ", options.channels);
  }
  if (options.dtype != kUint8) {
    return errors::InvalidArgument("a JPEG image is decoded to uint8; found ",
                                   DataTypeName(options.dtype));
  }
  JpegRead read;
  read.begin = bytes.data();
  read.size = bytes.size();
  if (!ReadHeader(&read) || read.truncated) return ReadError(read);
  const J_COLOR_SPACE space = read.info.jpeg_color_space;
  if (space != JCS_GRAYSCALE && space != JCS_YCbCr && space != JCS_RGB) {
    return errors::Unimplemented("a JPEG image with ", read.info.num_components,
                                 " components that are neither gray nor RGB (CMYK?); convert it "
                                 "to RGB first");
  }
  const int channels = options.channels != 0 ? options.channels : read.info.num_components;
  // Sides have 16 bits.
  const Shape shape({read.info.image_height, read.info.image_width, channels});
  if (shape.num_elements() > options.max_bytes) {
    return errors::ResourceExhausted("a JPEG image of shape ", shape.DebugString(),
                                     " exceeds the limit of ", options.max_bytes, " bytes");
  }
  const int64_t pixels = shape.dim(0) * shape.dim(1);
  if (!read.info.arith_code && pixels / kMaxPixelsPerByte > static_cast<int64_t>(bytes.size())) {
    return errors::InvalidArgument("a JPEG image that is truncated: ", bytes.size(),
                                   " bytes cannot hold the pixels of shape ", shape.DebugString());
  }
  size_t row_bytes = 0;
  if (!Start(&read, channels == 1, &row_bytes)) return ReadError(read);
  TANDEM_ASSIGN_OR_RETURN(Tensor image, Tensor::Create(kUint8, shape));
  if (row_bytes * read.info.output_height != image.num_bytes()) {
    return errors::Internal("libjpeg gives rows of ", row_bytes, " bytes for an image of shape ",
                            shape.DebugString());
  }
  if (!ReadRows(&read, static_cast<JSAMPROW>(image.mutable_data()), row_bytes)) {
    return ReadError(read);
  }
  return image;
}

absl::StatusOr<std::string> EncodeJpeg(const Tensor& image, int quality) {
  const Shape& shape = image.shape();
  const bool is_image = image.dtype() == kUint8 && shape.rank() == 3 && shape.num_elements() > 0 &&
                        (shape.dim(2) == 1 || shape.dim(2) == 3) && shape.dim(0) <= kMaxSide &&
                        shape.dim(1) <= kMaxSide;
  if (!is_image) {
    return errors::InvalidArgument(
        "JPEG images are written from uint8 [height, width, 1 or 3 channels] of at most ", kMaxSide,
        " a side; found ", image.is_valid() ? DataTypeName(image.dtype()) : "no tensor",
        shape.DebugString());
  }
  if (quality < 0 || quality > 100) {
    return errors::InvalidArgument("the quality of a JPEG image is 0 to 100; found ", quality);
  }
  JpegWrite write;
  if (!WriteImage(&write, &image, quality)) {
    return errors::ResourceExhausted("a JPEG image of shape ", shape.DebugString(),
                                     " cannot be written: ", write.message);
  }
  return std::string(reinterpret_cast<const char*>(write.data), write.size);
}

}  // namespace tandem
