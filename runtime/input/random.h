// The random numbers of input stages: a few bits of state, the same on every machine.
#ifndef TANDEM_RUNTIME_INPUT_RANDOM_H_
#define TANDEM_RUNTIME_INPUT_RANDOM_H_

#include <cstdint>

namespace tandem::data {

// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
// 2014): number i is a hash of seed + i times a constant, so the position is a single integer.
class Random {
 public:
  // A sequence for each (seed, iteration).
  Random(uint64_t seed, uint64_t iteration) : state_(Mix(Mix(seed) + iteration)) {}

  uint64_t state() const { return state_; }
  void set_state(uint64_t state) { state_ = state; }

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    return Mix(state_);
  }

  // Uniform in [0, limit), by multiplication instead of division (D. Lemire, "Fast Random Integer
  // Generation in an Interval", ACM TOMACS 29, 2019). REQUIRES: limit > 0.
  uint64_t Below(uint64_t limit) {
    Wide product = Wide{Next()} * limit;
    if (static_cast<uint64_t>(product) < limit) {
      const uint64_t rejected = (uint64_t{0} - limit) % limit;
      while (static_cast<uint64_t>(product) < rejected) product = Wide{Next()} * limit;
    }
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;

  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_RANDOM_H_
