// CRC-32C (Castagnoli): the checksum of records, tables and tensor bundles.
//
// Reflected polynomial 0x82f63b78, all ones at the start and inverted at the end, as in RFC 3720
// (iSCSI). Of "123456789" it is 0xe3069283.
//
// Threads: all functions may be called from any thread.
#ifndef TANDEM_CORE_IO_CRC32C_H_
#define TANDEM_CORE_IO_CRC32C_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tandem {

// The checksum of what `crc` is the checksum of, followed by `size` bytes of `data`. The checksum
// of no bytes is 0. Runs at about the speed of memory where the processor has an instruction for
// it.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size);
inline uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
  return ExtendCrc32c(crc, bytes.data(), bytes.size());
}
inline uint32_t Crc32c(absl::string_view bytes) { return ExtendCrc32c(0, bytes); }

// The checksum of a + b (strings) from those of `a` and of `b`, which has `size_b` bytes. So parts
// can be summed at the same time.
uint32_t CombineCrc32c(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);

// Files hold masked checksums, since the checksum of bytes that contain their own checksum is
// always the same.
inline uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t UnmaskCrc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated << 15) | (rotated >> 17);
}

namespace internal {
// ExtendCrc32c without the processor's instruction.
uint32_t ExtendCrc32cByTable(uint32_t crc, const void* data, size_t size);
}  // namespace internal

}  // namespace tandem

#endif  // TANDEM_CORE_IO_CRC32C_H_
