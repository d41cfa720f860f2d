#include "core/io/coding.h"

#include <algorithm>
#include <limits>

namespace tandem {

void AppendVarint64(uint64_t value, std::string* out) {
  char bytes[kMaxVarint64Bytes];
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) bytes[size++] = static_cast<char>(value | 0x80);
  bytes[size++] = static_cast<char>(value);
  out->append(bytes, size);
}

bool Decoder::ReadFixed32(uint32_t* value) {
  if (bytes_.size() < sizeof(*value)) return false;
  *value = DecodeFixed32(bytes_.data());
  bytes_.remove_prefix(sizeof(*value));
  return true;
}

bool Decoder::ReadFixed64(uint64_t* value) {
  if (bytes_.size() < sizeof(*value)) return false;
  *value = DecodeFixed64(bytes_.data());
  bytes_.remove_prefix(sizeof(*value));
  return true;
}

bool Decoder::ReadVarint32(uint32_t* value) {
  const absl::string_view before = bytes_;
  uint64_t wide = 0;
  if (!ReadVarint64(&wide) || wide > std::numeric_limits<uint32_t>::max()) {
    bytes_ = before;
    return false;
  }
  *value = static_cast<uint32_t>(wide);
  return true;
}

bool Decoder::ReadVarint64(uint64_t* value) {
  const size_t limit = std::min<size_t>(bytes_.size(), kMaxVarint64Bytes);
  uint64_t result = 0;
  for (size_t i = 0; i < limit; ++i) {
    const uint64_t byte = static_cast<unsigned char>(bytes_[i]);
    // The tenth byte has room for one bit.
    if (i == kMaxVarint64Bytes - 1 && byte > 1) return false;
    result |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = result;
      bytes_.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool Decoder::ReadBytes(uint64_t size, absl::string_view* value) {
  if (size > bytes_.size()) return false;
  *value = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return true;
}

}  // namespace tandem
