#include "kernels/random/generator.h"

#include <random>

#include "core/base/status.h"

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

Tensor Generator::Save() {
  MutexLock lock(mu_);
  const auto join = [](uint32_t low, uint32_t high) {
    return static_cast<int64_t>((uint64_t{high} << 32) | low);
  };
  return Tensor::Vector<int64_t>({join(next_.counter[0], next_.counter[1]),
                                  join(next_.counter[2], next_.counter[3]),
                                  join(next_.key[0], next_.key[1])});
}

absl::Status Generator::Restore(const Tensor& position) {
  if (position.dtype() != kInt64 || position.shape() != Shape({3})) {
    return errors::InvalidArgument("the position of a random op is ",
                                   DataTypeName(position.dtype()), position.shape().DebugString(),
                                   "; expected int64[3]");
  }
  const auto words = position.Elements<int64_t>();
  const auto low = [&](size_t i) { return static_cast<uint32_t>(words[i]); };
  const auto high = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<uint64_t>(words[i]) >> 32);
  };
  MutexLock lock(mu_);
  next_.counter = {low(0), high(0), low(1), high(1)};
  next_.key = {low(2), high(2)};
  return absl::OkStatus();
}

}  // namespace tandem::random
