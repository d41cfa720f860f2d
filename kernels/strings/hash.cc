#include "kernels/strings/hash.h"

#include <cstring>

namespace tandem::strings {
namespace {

// The next `count` (at most 8) bytes as a number, the first one lowest.
uint64_t LittleEndian(const char* bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return value;
}

uint64_t RotateLeft(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

struct SipState {
  uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v1 = RotateLeft(v1, 13) ^ v0;
    v0 = RotateLeft(v0, 32);
    v2 += v3;
    v3 = RotateLeft(v3, 16) ^ v2;
    v0 += v3;
    v3 = RotateLeft(v3, 21) ^ v0;
    v2 += v1;
    v1 = RotateLeft(v1, 17) ^ v2;
    v2 = RotateLeft(v2, 32);
  }

  void Take(uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

}  // namespace

uint64_t MurmurHash64(absl::string_view bytes, uint64_t seed) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  uint64_t hash = seed ^ (bytes.size() * kFactor);
  const char* next = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) {
    uint64_t word = LittleEndian(next, 8) * kFactor;
    word = (word ^ (word >> kShift)) * kFactor;
    hash = (hash ^ word) * kFactor;
  }
  if (left > 0) hash = (hash ^ LittleEndian(next, left)) * kFactor;
  hash = (hash ^ (hash >> kShift)) * kFactor;
  return hash ^ (hash >> kShift);
}

uint64_t SipHash(absl::string_view bytes, const std::array<uint64_t, 2>& key) {
  // "somepseudorandomlygeneratedbytes", as the paper has it.
  SipState state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const char* next = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) state.Take(LittleEndian(next, 8));
  state.Take(LittleEndian(next, left) | (static_cast<uint64_t>(bytes.size() & 0xff) << 56));
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace tandem::strings
