// Float16 (IEEE binary16) and Bfloat16 (the upper half of binary32): storage types.
//
// They convert from and to float, rounding to nearest even; arithmetic happens in float. Kernels
// that want vector code reinterpret them as Eigen's types of the same layout.
#ifndef TANDEM_CORE_TENSOR_FLOAT16_H_
#define TANDEM_CORE_TENSOR_FLOAT16_H_

#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace tandem {

namespace float16_internal {
// The conversions without hardware help; also the reference that tests compare the hardware with.
float HalfBitsToFloat(uint16_t bits);
uint16_t FloatToHalfBits(float value);
}  // namespace float16_internal

struct Float16 {
  Float16() = default;
  explicit Float16(float value)
#if defined(__F16C__)
      : bits(static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT))){}
#else
      : bits(float16_internal::FloatToHalfBits(value)) {
  }
#endif
        explicit Float16(double value)
      : Float16(static_cast<float>(value)) {
  }
  explicit Float16(int value) : Float16(static_cast<float>(value)) {}

  explicit operator float() const {
#if defined(__F16C__)
    return _cvtsh_ss(bits);
#else
    return float16_internal::HalfBitsToFloat(bits);
#endif
  }
  explicit operator double() const { return static_cast<float>(*this); }

  static Float16 FromBits(uint16_t bits) {
    Float16 result;
    result.bits = bits;
    return result;
  }

  uint16_t bits;
};

struct Bfloat16 {
  Bfloat16() = default;
  explicit Bfloat16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    if ((word & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((word >> 16) | 0x0040u);  // Stay a NaN, a quiet one.
    } else {
      bits = static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
    }
  }
  explicit Bfloat16(double value) : Bfloat16(static_cast<float>(value)) {}
  explicit Bfloat16(int value) : Bfloat16(static_cast<float>(value)) {}

  explicit operator float() const {
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  }
  explicit operator double() const { return static_cast<float>(*this); }

  static Bfloat16 FromBits(uint16_t bits) {
    Bfloat16 result;
    result.bits = bits;
    return result;
  }

  uint16_t bits;
};

inline bool operator==(Float16 a, Float16 b) {
  return static_cast<float>(a) == static_cast<float>(b);
}
inline bool operator==(Bfloat16 a, Bfloat16 b) {
  return static_cast<float>(a) == static_cast<float>(b);
}
inline bool operator<(Float16 a, Float16 b) {
  return static_cast<float>(a) < static_cast<float>(b);
}
inline bool operator<(Bfloat16 a, Bfloat16 b) {
  return static_cast<float>(a) < static_cast<float>(b);
}

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_FLOAT16_H_
