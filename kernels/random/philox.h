// Philox 4x32-10, a counter-based random number generator: each value of a 128-bit counter gives
// four 32-bit numbers that depend on it and on a 64-bit key alone. So any part of a stream can be
// had at once, by any thread.
//
// Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as
// 1, 2, 3", SC 2011. The constants are the paper's.
#ifndef TANDEM_KERNELS_RANDOM_PHILOX_H_
#define TANDEM_KERNELS_RANDOM_PHILOX_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::random {

// A position in a stream: the next counter, low word first, and the key.
struct Philox {
  using Block = std::array<uint32_t, 4>;

  Block counter{};
  std::array<uint32_t, 2> key{};

  // The stream for TensorFlow's two seeds: one is the key, the other the upper half of the counter.
  static Philox FromSeeds(uint64_t seed, uint64_t seed2);
  // The stream for a key and a 128-bit counter, lower half first.
  static Philox FromKeyAndCounter(uint64_t key, uint64_t counter_low, uint64_t counter_high);

  // The position `blocks` counters on. Wraps around after 2^128.
  Philox After(uint64_t blocks) const;
  // The numbers of this counter.
  Block Here() const;
};

// The numbers of `blocks` counters from `from` on, four for each.
void FillWords(const Philox& from, int64_t blocks, uint32_t* words);

// The numbers of a stream one by one.
class WordStream {
 public:
  explicit WordStream(const Philox& from) : next_(from) {}
  uint32_t Next() {
    if (used_ == 4) {
      block_ = next_.Here();
      next_ = next_.After(1);
      used_ = 0;
    }
    return block_[used_++];
  }

 private:
  Philox next_;
  Philox::Block block_{};
  size_t used_ = 4;
};

}  // namespace tandem::random

#endif  // TANDEM_KERNELS_RANDOM_PHILOX_H_
