#include "core/tensor/float16.h"

namespace tandem {
namespace float16_internal {

float HalfBitsToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  uint32_t word;
  if (exponent == 0x1fu) {  // Infinity or NaN (made quiet, as the hardware does).
    word = sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u);
  } else if (exponent != 0) {
    word = sign | ((exponent + 112u) << 23) | (mantissa << 13);
  } else if (mantissa == 0) {
    word = sign;
  } else {  // Subnormal: normalize.
    exponent = 113;
    while ((mantissa & 0x400u) == 0) {
      mantissa <<= 1;
      --exponent;
    }
    word = sign | (exponent << 23) | ((mantissa & 0x3ffu) << 13);
  }
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

uint16_t FloatToHalfBits(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof(word));
  const uint16_t sign = static_cast<uint16_t>((word >> 16) & 0x8000u);
  const uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // Rounds to 65536 or more: infinity.
  if (magnitude < 0x33000001u) return sign;             // At most half the least subnormal.
  const int32_t exponent = static_cast<int32_t>(magnitude >> 23) - 112;
  uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  // Bits that are dropped: 13 for a normal result, more for a subnormal one.
  const int shift = exponent > 0 ? 13 : 14 - exponent;
  const uint32_t dropped = mantissa & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  mantissa >>= shift;
  if (dropped > half || (dropped == half && (mantissa & 1u) != 0)) ++mantissa;
  // A carry out of the mantissa goes into the exponent by itself.
  const uint32_t base = exponent > 0 ? (static_cast<uint32_t>(exponent - 1) << 10) : 0;
  return static_cast<uint16_t>(sign | (base + mantissa));
}

}  // namespace float16_internal
}  // namespace tandem
