#include "kernels/random/philox.h"

namespace tandem::random {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kKeyStep0 = 0x9E3779B9;  // The golden ratio.
constexpr uint32_t kKeyStep1 = 0xBB67AE85;  // √3 - 1.
constexpr int kRounds = 10;

// Counters that are worked on side by side, in the lanes of vector registers.
constexpr int kLanes = 16;

uint64_t Join(uint32_t low, uint32_t high) { return (uint64_t{high} << 32) | low; }
uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

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
  for (; done + kLanes <= blocks; done += kLanes) {
    alignas(64) uint32_t c0[kLanes];
    alignas(64) uint32_t c1[kLanes];
    alignas(64) uint32_t c2[kLanes];
    alignas(64) uint32_t c3[kLanes];
    const uint64_t low = Join(from.counter[0], from.counter[1]) + static_cast<uint64_t>(done);
    const uint64_t first_high = Join(from.counter[2], from.counter[3]) +
                                (low < static_cast<uint64_t>(done) ? 1 : 0);
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t lane_low = low + static_cast<uint64_t>(lane);
      const uint64_t lane_high = first_high + (lane_low < low ? 1 : 0);
      c0[lane] = Low(lane_low);
      c1[lane] = High(lane_low);
      c2[lane] = Low(lane_high);
      c3[lane] = High(lane_high);
    }
    uint32_t k0 = from.key[0];
    uint32_t k1 = from.key[1];
    for (int round = 0; round < kRounds; ++round) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint64_t p0 = uint64_t{kMultiplier0} * c0[lane];
        const uint64_t p1 = uint64_t{kMultiplier1} * c2[lane];
        c0[lane] = High(p1) ^ c1[lane] ^ k0;
        c1[lane] = Low(p1);
        c2[lane] = High(p0) ^ c3[lane] ^ k1;
        c3[lane] = Low(p0);
      }
      k0 += kKeyStep0;
      k1 += kKeyStep1;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t* const to = words + (done + lane) * 4;
      to[0] = c0[lane];
      to[1] = c1[lane];
      to[2] = c2[lane];
      to[3] = c3[lane];
    }
  }
  for (; done < blocks; ++done) {
    const Philox::Block block = from.After(static_cast<uint64_t>(done)).Here();
    for (int j = 0; j < 4; ++j) words[done * 4 + j] = block[static_cast<size_t>(j)];
  }
}

}  // namespace tandem::random
