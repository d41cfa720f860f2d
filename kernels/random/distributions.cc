#include "kernels/random/distributions.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor/float16.h"
#include "kernels/common/half.h"

namespace tandem::random {
namespace {

// Blocks of a piece: its words and outputs stay in the first-level cache.
constexpr int64_t kPiece = 256;
constexpr int kWords = 4;

// --- From words to numbers. Bits go below an exponent that stands for [1, 2), from which 1 is
// taken.

float UniformFloat(uint32_t word) {
  const uint32_t bits = (word & 0x7fffffu) | 0x3f800000u;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value - 1.0f;
}

// Two normal numbers from two uniform ones: radius √(-2 ln u) at an angle of 2π v. The angle is
// multiplied in double and rounded; sine and cosine are the C library's for float.
constexpr float kSmallest = 1.0e-7f;  // Keeps the logarithm finite.

void BoxMuller(uint32_t x0, uint32_t x1, float* a, float* b) {
  const float u = std::max(UniformFloat(x0), kSmallest);
  const auto angle = static_cast<float>(2.0f * M_PI * UniformFloat(x1));
  const float radius = std::sqrt(-2.0f * std::log(u));
  *a = std::sin(angle) * radius;
  *b = std::cos(angle) * radius;
}

void BoxMuller(const uint32_t* x, double* a, double* b) {
  const double u = std::max(UniformDouble(x[0], x[1]), 1.0e-7);
  const double angle = 2 * M_PI * UniformDouble(x[2], x[3]);
  const double radius = std::sqrt(-2.0 * std::log(u));
  *a = std::sin(angle) * radius;
  *b = std::cos(angle) * radius;
}

// --- Conversions of whole blocks.

struct Range {
  uint64_t low = 0;
  uint64_t size = 1;
};
using Convert = void (*)(const uint32_t* words, int64_t blocks, const Range& range, void* to);

void ToUniformFloat(const uint32_t* words, int64_t blocks, const Range&, void* to) {
  float* const out = static_cast<float*>(to);
  for (int64_t i = 0; i < blocks * kWords; ++i) out[i] = UniformFloat(words[i]);
}

void ToUniformDouble(const uint32_t* words, int64_t blocks, const Range&, void* to) {
  double* const out = static_cast<double*>(to);
  for (int64_t i = 0; i < blocks * 2; ++i) out[i] = UniformDouble(words[2 * i], words[2 * i + 1]);
}

void ToUniformHalf(const uint32_t* words, int64_t blocks, const Range&, void* to) {
  Float16* const out = static_cast<Float16*>(to);
  for (int64_t i = 0; i < blocks * kWords; ++i) {
    const auto bits = static_cast<uint16_t>((words[i] & 0x3ffu) | 0x3c00u);
    out[i] = Float16(static_cast<float>(Float16::FromBits(bits)) - 1.0f);
  }
}

void ToUniformBfloat16(const uint32_t* words, int64_t blocks, const Range&, void* to) {
  Bfloat16* const out = static_cast<Bfloat16*>(to);
  for (int64_t i = 0; i < blocks * kWords; ++i) {
    const auto bits = static_cast<uint16_t>((words[i] & 0x7fu) | 0x3f80u);
    out[i] = Bfloat16(static_cast<float>(Bfloat16::FromBits(bits)) - 1.0f);
  }
}

void ToNormalFloat(const uint32_t* words, int64_t blocks, const Range&, void* to) {
  float* const out = static_cast<float*>(to);
  for (int64_t i = 0; i < blocks * kWords; i += 2) {
    BoxMuller(words[i], words[i + 1], &out[i], &out[i + 1]);
  }
}

void ToNormalDouble(const uint32_t* words, int64_t blocks, const Range&, void* to) {
  double* const out = static_cast<double*>(to);
  for (int64_t i = 0; i < blocks; ++i) {
    BoxMuller(words + kWords * i, &out[2 * i], &out[2 * i + 1]);
  }
}

template <typename Small>
void ToNormalSmall(const uint32_t* words, int64_t blocks, const Range& range, void* to) {
  float values[kPiece * kWords];
  ToNormalFloat(words, blocks, range, values);
  FromFloat(values, static_cast<Small*>(to), blocks * kWords);
}

void ToUniformInt32(const uint32_t* words, int64_t blocks, const Range& range, void* to) {
  auto* const out = static_cast<uint32_t*>(to);
  const auto low = static_cast<uint32_t>(range.low);
  const auto size = static_cast<uint32_t>(range.size);
  for (int64_t i = 0; i < blocks * kWords; ++i) out[i] = low + words[i] % size;
}

void ToUniformInt64(const uint32_t* words, int64_t blocks, const Range& range, void* to) {
  auto* const out = static_cast<uint64_t*>(to);
  for (int64_t i = 0; i < blocks * 2; ++i) {
    const uint64_t bits = words[2 * i] | (uint64_t{words[2 * i + 1]} << 32);
    out[i] = range.low + bits % range.size;
  }
}

int64_t OutputsPerBlock(DataType dtype) { return DataTypeSize(dtype) == 8 ? 2 : 4; }

void Fill(ParallelRunner& parallel, const Philox& from, DataType dtype, Convert convert,
          const Range& range, double nanoseconds_per_output, void* to, int64_t count) {
  const int64_t per_block = OutputsPerBlock(dtype);
  const auto size = static_cast<int64_t>(DataTypeSize(dtype));
  const int64_t piece_outputs = kPiece * per_block;
  const int64_t pieces = count / piece_outputs + (count % piece_outputs != 0 ? 1 : 0);
  parallel.For(pieces, nanoseconds_per_output * static_cast<double>(piece_outputs),
               [&](int64_t begin, int64_t end) {
                 uint32_t words[kPiece * kWords];
                 for (int64_t piece = begin; piece < end; ++piece) {
                   const int64_t first = piece * piece_outputs;
                   const int64_t outputs = std::min(piece_outputs, count - first);
                   const int64_t blocks = (outputs + per_block - 1) / per_block;
                   FillWords(from.After(static_cast<uint64_t>(piece * kPiece)), blocks, words);
                   char* const target = static_cast<char*>(to) + first * size;
                   if (blocks * per_block == outputs) {
                     convert(words, blocks, range, target);
                   } else {
                     alignas(16) char all[kPiece * 16];
                     convert(words, blocks, range, all);
                     std::memcpy(target, all, static_cast<size_t>(outputs * size));
                   }
                 }
               });
}

// --- The truncated normal distribution

constexpr float kTruncation = 2;
// How much of the stream is kept for each output.
constexpr int64_t kReservedWordsPerOutput = 256;

template <typename T>
void TruncatedGroup(const Philox& from, T* to, int64_t count) {
  WordStream words(from);
  int64_t found = 0;
  while (true) {
    if constexpr (sizeof(T) == 8) {
      const uint32_t x[4] = {words.Next(), words.Next(), words.Next(), words.Next()};
      double pair[2];
      BoxMuller(x, &pair[0], &pair[1]);
      for (const double value : pair) {
        if (std::abs(value) >= static_cast<double>(kTruncation)) continue;
        to[found++] = value;
        if (found == count) return;
      }
    } else {
      const uint32_t x0 = words.Next();
      const uint32_t x1 = words.Next();
      float pair[2];
      BoxMuller(x0, x1, &pair[0], &pair[1]);
      for (const float value : pair) {
        if (std::abs(value) >= kTruncation) continue;
        to[found++] = T(value);
        if (found == count) return;
      }
    }
  }
}

template <typename T>
void FillTruncated(ParallelRunner& parallel, const Philox& from, T* to, int64_t count) {
  const int64_t group = OutputsPerBlock(DataTypeOf<T>());
  const int64_t blocks = group * kReservedWordsPerOutput / kWords;
  constexpr double kNanosecondsPerOutput = 30;
  parallel.For((count + group - 1) / group, kNanosecondsPerOutput * static_cast<double>(group),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   TruncatedGroup(from.After(static_cast<uint64_t>(i * blocks)), to + i * group,
                                  std::min(group, count - i * group));
                 }
               });
}

}  // namespace

double UniformDouble(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high & 0xfffffu} << 32) | low | (uint64_t{0x3ff} << 52);
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value - 1.0;
}

uint64_t ReservedBlocks(int64_t outputs) {
  return static_cast<uint64_t>(outputs) * static_cast<uint64_t>(kReservedWordsPerOutput);
}

void FillUniform(ParallelRunner& parallel, const Philox& from, DataType dtype, void* to,
                 int64_t count) {
  const Convert convert = dtype == kFloat64    ? ToUniformDouble
                          : dtype == kFloat16  ? ToUniformHalf
                          : dtype == kBfloat16 ? ToUniformBfloat16
                                               : ToUniformFloat;
  Fill(parallel, from, dtype, convert, {}, 1, to, count);
}

void FillNormal(ParallelRunner& parallel, const Philox& from, DataType dtype, void* to,
                int64_t count) {
  const Convert convert = dtype == kFloat64    ? ToNormalDouble
                          : dtype == kFloat16  ? ToNormalSmall<Float16>
                          : dtype == kBfloat16 ? ToNormalSmall<Bfloat16>
                                               : ToNormalFloat;
  Fill(parallel, from, dtype, convert, {}, 10, to, count);
}

void FillTruncatedNormal(ParallelRunner& parallel, const Philox& from, DataType dtype, void* to,
                         int64_t count) {
  switch (dtype) {
    case kFloat64:
      return FillTruncated(parallel, from, static_cast<double*>(to), count);
    case kFloat16:
      return FillTruncated(parallel, from, static_cast<Float16*>(to), count);
    case kBfloat16:
      return FillTruncated(parallel, from, static_cast<Bfloat16*>(to), count);
    default:
      return FillTruncated(parallel, from, static_cast<float*>(to), count);
  }
}

void FillUniformInt(ParallelRunner& parallel, const Philox& from, DataType dtype, int64_t low,
                    int64_t high, void* to, int64_t count) {
  const Range range{static_cast<uint64_t>(low),
                    static_cast<uint64_t>(high) - static_cast<uint64_t>(low)};
  Fill(parallel, from, dtype, dtype == kInt64 ? ToUniformInt64 : ToUniformInt32, range, 3, to,
       count);
}

}  // namespace tandem::random
