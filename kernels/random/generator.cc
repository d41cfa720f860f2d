#include "kernels/random/generator.h"

#include <random>

namespace tandem::random {

void Generator::Init(KernelInit& init) {
  auto seed = static_cast<uint64_t>(init.Attr<int64_t>("seed"));
  auto seed2 = static_cast<uint64_t>(init.Attr<int64_t>("seed2"));
  if (seed == 0 && seed2 == 0) {
    std::random_device source;
    const auto word = [&source] { return (uint64_t{source()} << 32) | source(); };
    seed = word();
    seed2 = word();
  }
  MutexLock lock(mu_);
  next_ = Philox::FromSeeds(seed, seed2);
}

Philox Generator::Reserve(uint64_t blocks) {
  MutexLock lock(mu_);
  const Philox reserved = next_;
  next_ = next_.After(blocks);
  return reserved;
}

}  // namespace tandem::random
