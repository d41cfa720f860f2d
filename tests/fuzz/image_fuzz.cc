// PNG and JPEG files. The checksums of PNG's chunks are mended for a second try.
#include <zlib.h>

#include <cstring>

#include "core/io/image.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

uint32_t BigEndian(const char* bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return __builtin_bswap32(value);
}

// chunk := length:u32 type:u32 data crc(type data):u32, behind a mark of eight bytes
std::string MendPng(std::string bytes) {
  size_t at = 8;
  while (bytes.size() > at + 12) {
    const size_t size = BigEndian(&bytes[at]);
    if (size > bytes.size() - at - 12) break;
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(&bytes[at + 4]), static_cast<uInt>(size + 4)));
    const uint32_t stored = __builtin_bswap32(crc);
    std::memcpy(&bytes[at + 8 + size], &stored, sizeof(stored));
    at += 12 + size;
  }
  return bytes;
}

void Decode(const std::string& bytes, const DecodeImageOptions& options) {
  const absl::StatusOr<Tensor> image = DecodeImage(bytes, options);
  if (!image.ok()) {
    TANDEM_FUZZ_CHECK(!image.status().message().empty(), "a message");
    return;
  }
  TANDEM_FUZZ_CHECK(image->shape().rank() == 3, image->shape().DebugString());
  TANDEM_FUZZ_CHECK(image->num_bytes() <= static_cast<size_t>(options.max_bytes), "the limit");
  TANDEM_FUZZ_CHECK(options.channels == 0 || image->shape().dim(2) == options.channels,
                    image->shape().DebugString());
  const absl::StatusOr<std::string> again = EncodePng(*image, 1);
  TANDEM_FUZZ_CHECK(again.ok(), again.status().ToString());
  DecodeImageOptions same;
  same.channels = static_cast<int>(image->shape().dim(2));
  same.dtype = image->dtype();
  const absl::StatusOr<Tensor> back = DecodePng(*again, same);
  TANDEM_FUZZ_CHECK(back.ok(), back.status().ToString());
  TANDEM_FUZZ_CHECK(back->shape() == image->shape() &&
                        std::memcmp(back->data(), image->data(), image->num_bytes()) == 0,
                    "the same pixels");
}

void Fuzz(FuzzInput input) {
  DecodeImageOptions options;
  const uint8_t choice = input.Byte();
  options.channels = choice % 5;
  options.dtype = (choice & 8) != 0 ? kUint16 : kUint8;
  options.max_bytes = int64_t{8} << 20;
  const std::string bytes(input.rest());
  Decode(bytes, options);
  Decode(MendPng(bytes), options);
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
