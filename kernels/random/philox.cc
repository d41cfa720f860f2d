#include "kernels/random/philox.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tandem::random {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kKeyStep0 = 0x9E3779B9;  // The golden ratio.
constexpr uint32_t kKeyStep1 = 0xBB67AE85;  // √3 - 1.
constexpr int kRounds = 10;

uint64_t Join(uint32_t low, uint32_t high) { return (uint64_t{high} << 32) | low; }
uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

#if defined(__AVX2__)

// Counters that are worked on side by side: four in a register, and enough registers to hide how
// long a multiplication takes.
constexpr int kRegisters = 4;
constexpr int64_t kLanes = 4 * kRegisters;

// The numbers of kLanes counters whose lower halves begin at `low` and do not overflow. Every word
// lies in the lower half of a 64-bit lane; what is above it does not matter.
void FillLanes(uint64_t low, uint64_t high, const std::array<uint32_t, 2>& key, uint32_t* words) {
  const auto all = [](uint64_t value) { return _mm256_set1_epi64x(static_cast<int64_t>(value)); };
  const __m256i multiplier0 = all(kMultiplier0);
  const __m256i multiplier1 = all(kMultiplier1);
  __m256i c0[kRegisters];
  __m256i c1[kRegisters];
  __m256i c2[kRegisters];
  __m256i c3[kRegisters];
  for (int r = 0; r < kRegisters; ++r) {
    c0[r] =
        _mm256_add_epi64(all(low + static_cast<uint64_t>(4 * r)), _mm256_set_epi64x(3, 2, 1, 0));
    c1[r] = _mm256_srli_epi64(c0[r], 32);
    c2[r] = all(high);
    c3[r] = _mm256_srli_epi64(c2[r], 32);
  }
  uint32_t k0 = key[0];
  uint32_t k1 = key[1];
  for (int round = 0; round < kRounds; ++round) {
    const __m256i key0 = all(k0);
    const __m256i key1 = all(k1);
    for (int r = 0; r < kRegisters; ++r) {
      const __m256i p0 = _mm256_mul_epu32(multiplier0, c0[r]);
      const __m256i p1 = _mm256_mul_epu32(multiplier1, c2[r]);
      c0[r] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c1[r], key0));
      c1[r] = p1;
      c2[r] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c3[r], key1));
      c3[r] = p0;
    }
    k0 += kKeyStep0;
    k1 += kKeyStep1;
  }
  for (int r = 0; r < kRegisters; ++r) {
    // Words 0 and 1 of each block in one register, words 2 and 3 in another, then block by block.
    const __m256i front = _mm256_blend_epi32(c0[r], _mm256_slli_epi64(c1[r], 32), 0xaa);
    const __m256i back = _mm256_blend_epi32(c2[r], _mm256_slli_epi64(c3[r], 32), 0xaa);
    const __m256i even = _mm256_unpacklo_epi64(front, back);  // Blocks 0 and 2.
    const __m256i odd = _mm256_unpackhi_epi64(front, back);   // Blocks 1 and 3.
    __m256i* const to = reinterpret_cast<__m256i*>(words + 16 * r);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

#endif

}  // namespace

Philox Philox::FromSeeds(uint64_t seed, uint64_t seed2) {
  return FromKeyAndCounter(seed, 0, seed2);
}

Philox Philox::FromKeyAndCounter(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  return {{Low(counter_low), High(counter_low), Low(counter_high), High(counter_high)},
          {Low(key), High(key)}};
}

Philox Philox::After(uint64_t blocks) const {
  const uint64_t low = Join(counter[0], counter[1]);
  const uint64_t sum = low + blocks;
  const uint64_t high = Join(counter[2], counter[3]) + (sum < low ? 1 : 0);
  return {{Low(sum), High(sum), Low(high), High(high)}, key};
}

Philox::Block Philox::Here() const {
  Block c = counter;
  uint32_t k0 = key[0];
  uint32_t k1 = key[1];
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c[0];
    const uint64_t p1 = uint64_t{kMultiplier1} * c[2];
    c = {High(p1) ^ c[1] ^ k0, Low(p1), High(p0) ^ c[3] ^ k1, Low(p0)};
    k0 += kKeyStep0;
    k1 += kKeyStep1;
  }
  return c;
}

void FillWords(const Philox& from, int64_t blocks, uint32_t* words) {
  int64_t done = 0;
#if defined(__AVX2__)
  for (; done + kLanes <= blocks; done += kLanes) {
    const Philox at = from.After(static_cast<uint64_t>(done));
    const uint64_t low = Join(at.counter[0], at.counter[1]);
    if (low + kLanes < low) break;  // A carry among the lanes: once in 2^64 blocks.
    FillLanes(low, Join(at.counter[2], at.counter[3]), from.key, words + done * 4);
  }
#endif
  for (; done < blocks; ++done) {
    const Philox::Block block = from.After(static_cast<uint64_t>(done)).Here();
    for (int j = 0; j < 4; ++j) words[done * 4 + j] = block[static_cast<size_t>(j)];
  }
}

}  // namespace tandem::random
