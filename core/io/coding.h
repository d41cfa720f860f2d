// Numbers as bytes: fixed width (little-endian) and varints (seven bits a byte, lowest first, the
// highest bit set in all bytes but the last), as in protocol buffers and in tables.
#ifndef TANDEM_CORE_IO_CODING_H_
#define TANDEM_CORE_IO_CODING_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are written in memory's order");

inline constexpr int kMaxVarint64Bytes = 10;

inline void AppendFixed32(uint32_t value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline void AppendFixed64(uint64_t value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
// Writes a varint of 32 bits in the same way.
void AppendVarint64(uint64_t value, std::string* out);

// REQUIRES: as many bytes at `bytes`.
inline uint32_t DecodeFixed32(const char* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}
inline uint64_t DecodeFixed64(const char* bytes) {
  uint64_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Reads numbers from bytes that are not trusted. A read that finds too few bytes, or a varint that
// is too large for its type, returns false and leaves the position where it was.
class Decoder {
 public:
  explicit Decoder(absl::string_view bytes) : bytes_(bytes) {}

  bool ReadFixed32(uint32_t* value);
  bool ReadFixed64(uint64_t* value);
  bool ReadVarint32(uint32_t* value);
  bool ReadVarint64(uint64_t* value);
  // `value` points into the bytes that the decoder was made with.
  bool ReadBytes(uint64_t size, absl::string_view* value);

  // What has not been read.
  absl::string_view rest() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  absl::string_view bytes_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_IO_CODING_H_
