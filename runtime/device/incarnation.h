// The number that tells a device from one of the same name in an earlier life
// (Device::incarnation).
#ifndef TANDEM_RUNTIME_DEVICE_INCARNATION_H_
#define TANDEM_RUNTIME_DEVICE_INCARNATION_H_

#include <cstdint>
#include <random>

namespace tandem {

inline uint64_t RandomIncarnation() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_INCARNATION_H_
