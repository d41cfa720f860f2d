#include "core/io/crc32c.h"

#include <array>
#include <cstring>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

// A checksum is a polynomial over GF(2) modulo P, the coefficient of x^0 in the highest bit. To
// append a byte is to multiply by x^8 and add; to append n bytes whose own checksum is known is one
// multiplication by x^(8n). That is how parts that were summed apart are put together.
namespace tandem {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr uint32_t kOne = 1u << 31;  // x^0

constexpr uint32_t TimesX(uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0); }

constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = TimesX(b);
  }
  return product;
}

// kPowers[i] is x^(2^i).
constexpr std::array<uint32_t, 67> kPowers = [] {
  std::array<uint32_t, 67> powers{};
  powers[0] = kOne >> 1;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = Multiply(powers[i - 1], powers[i - 1]);
  return powers;
}();

// x^(8n)
constexpr uint32_t PowerOfBytes(uint64_t n) {
  uint32_t power = kOne;
  for (size_t i = 3; n != 0; ++i, n >>= 1) {
    if ((n & 1) != 0) power = Multiply(kPowers[i], power);
  }
  return power;
}

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// kTables[i][b]: what byte `b` adds when i more bytes follow it.
constexpr Tables kTables = [] {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int i = 0; i < 8; ++i) crc = TimesX(crc);
    tables[0][b] = crc;
  }
  for (size_t i = 1; i < 8; ++i) {
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t previous = tables[i - 1][b];
      tables[i][b] = (previous >> 8) ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}();

uint64_t Load64(const unsigned char* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

#ifdef __SSE4_2__

// The instruction takes three cycles but can start every cycle, so three stretches are summed at a
// time.
constexpr size_t kStretch = 1024;

// kShift[i][b]: the product of byte i of a checksum, b, and x^(8 * kStretch).
constexpr std::array<std::array<uint32_t, 256>, 4> kShift = [] {
  std::array<std::array<uint32_t, 256>, 4> shift{};
  const uint32_t power = PowerOfBytes(kStretch);
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      shift[i][size_t{1} << bit] = Multiply(power, 1u << (8 * i + bit));
    }
    for (uint32_t b = 1; b < 256; ++b) {
      const uint32_t lowest = b & (~b + 1);
      if (b != lowest) shift[i][b] = shift[i][lowest] ^ shift[i][b ^ lowest];
    }
  }
  return shift;
}();

uint32_t ShiftByStretch(uint32_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][crc >> 8 & 0xff] ^ kShift[2][crc >> 16 & 0xff] ^
         kShift[3][crc >> 24];
}

uint32_t ExtendByInstruction(uint32_t crc, const unsigned char* p, size_t size) {
  uint64_t sum = ~crc;
  for (; size >= 3 * kStretch; size -= 3 * kStretch, p += 3 * kStretch) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kStretch; i += 8) {
      sum = _mm_crc32_u64(sum, Load64(p + i));
      second = _mm_crc32_u64(second, Load64(p + kStretch + i));
      third = _mm_crc32_u64(third, Load64(p + 2 * kStretch + i));
    }
    sum = ShiftByStretch(static_cast<uint32_t>(sum)) ^ second;
    sum = ShiftByStretch(static_cast<uint32_t>(sum)) ^ third;
  }
  for (; size >= 8; size -= 8, p += 8) sum = _mm_crc32_u64(sum, Load64(p));
  uint32_t rest = static_cast<uint32_t>(sum);
  for (; size > 0; --size, ++p) rest = _mm_crc32_u8(rest, *p);
  return ~rest;
}

#endif

}  // namespace

namespace internal {

uint32_t ExtendCrc32cByTable(uint32_t crc, const void* data, size_t size) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; size >= 8; size -= 8, p += 8) {
    const uint64_t eight = Load64(p) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][eight >> (8 * i) & 0xff];
  }
  for (; size > 0; --size, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

}  // namespace internal

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size) {
#ifdef __SSE4_2__
  return ExtendByInstruction(crc, static_cast<const unsigned char*>(data), size);
#else
  return internal::ExtendCrc32cByTable(crc, data, size);
#endif
}

uint32_t CombineCrc32c(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
  return Multiply(PowerOfBytes(size_b), crc_a) ^ crc_b;
}

}  // namespace tandem
